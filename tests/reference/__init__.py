"""One whole update of every agent in plain NumPy, written from the paper and the documentation.

Nothing here imports `devote`. A state is nested dictionaries of arrays under the names of the
agent's own state, so that an update of both can be compared leaf by leaf; settings are the agent's.
`tape` differentiates, `nets` and `learning` hold networks and optimisers, and there is one file per
agent: `sac` (the backbone of all), `devote` (with joint TD; RND is a matter of settings),
`rnd_classic`, `thompson`, and `sombrl` with its `world_model`.

Mathematics is written anew; how keys are split is a convention and is taken over. All of it:

| update of     | splits its key into                                                |
| ------------- | ------------------------------------------------------------------ |
| SAC           | a' of the task target; a of the actor                              |
| DEVOTE        | SAC; bootstrap mask; a' of the novelty target; a of the explorer   |
| joint TD      | a' of the task target; mask; a' of what lies ahead; actor; explorer |
| classic RND   | SAC; a' of the intrinsic target; a of the explorer                 |
| Thompson      | mask; one key per member, which is split as SAC's                  |
| SOMBRL        | SAC; world model; a' of the intrinsic target; explorer; lambda     |
| world model   | codes at first observations; codes along the sequences             |

A key gives standard normal noise of shape (batch, action) to a squashed normal; the exact sum over
choices needs none. S is measured at the very actions that the explorer was improved at; a
categorical explorer draws them with the key of its improvement. Masks are Bernoulli of shape
(index, batch), codes fall where uniform numbers of shape (time, run, group) put them. At lambda's
measurement the explorer and its slow copy share their noise.
"""
