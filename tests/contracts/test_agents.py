"""What every agent promises."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every import ONE_EACH, PAIRS, SEEDS, chunk, loop, played, seed

from devote.core.types import Choice
from devote.loops import checkpoint
from devote.loops.fused import FusedLoop
from devote.loops.host import HostProgram
from on_host import OnHost
from tiny import assert_close, changed_leaves, named_leaves, slow_but

QUICK = (("devote", "spiral"), ("sac", "deep_sea"))
every_pair = pytest.mark.parametrize(("name", "task"), slow_but(QUICK, PAIRS))
KEY = jax.random.key(0)


def structure(tree):
    return jax.tree.map(lambda x: (x.shape, x.dtype), tree)


def batch_of(name, task):
    program, run = loop(name, task), seed(played(name, task), 0).end
    return program.loop.sample(run, KEY)


@every_pair
def test_actions_fit_the_task(name, task) -> None:
    program, run = loop(name, task), seed(played(name, task), 0).end
    agent, kind = program.agent, program.env.spec.action
    obs = jax.vmap(program.env.observe)(run.worlds)
    first = jnp.zeros(len(obs), bool)
    behaviour, _ = agent.act(run.agent, run.memory, obs, first, KEY)
    guess, draw = (agent.exploit(run.agent, obs, key) for key in (None, KEY))
    for action in map(np.asarray, (behaviour, guess, draw)):
        assert action.shape == (len(obs), kind.size)
        assert action.dtype == np.float32
        assert (np.abs(action) <= 1).all()
        if isinstance(kind, Choice):
            assert ((action == 0) | (action == 1)).all()
            assert (action.sum(-1) == 1).all()


@every_pair
def test_a_chunk_keeps_shapes_and_types_and_stays_finite(name, task) -> None:
    run = played(name, task)
    assert structure(run.start) == structure(run.end)
    for leaf, value in named_leaves(run.end.agent).items():
        assert np.isfinite(value).all(), leaf
    for metric, value in run.metrics.items():
        if not metric.startswith("rollout/"):  # means over no episode are NaN
            assert np.isfinite(value).all(), metric
            assert value.shape == (len(SEEDS),), metric


@every_pair
def test_seeds_differ_in_weights_and_noise(name, task) -> None:
    run = played(name, task)
    one, other = (named_leaves(seed(run.start.agent, i)) for i in range(2))
    floats = {n: x for n, x in one.items() if np.issubdtype(x.dtype, np.floating)}
    drawn = [n for n, x in floats.items() if x.ndim >= 2 and np.ptp(x) > 0]
    assert len(drawn) >= 3
    assert not [n for n in drawn if np.array_equal(one[n], other[n])]
    assert not np.array_equal(*run.end.replay.action)


@every_pair
def test_the_seed_decides_and_not_its_place_in_the_program(name, task) -> None:
    run, turned = played(name, task), played(name, task, SEEDS[::-1])
    for i in range(2):
        assert not changed_leaves(seed(run.end.agent, i), seed(turned.end.agent, 1 - i))
        assert not changed_leaves(seed(run.end.replay, i), seed(turned.end.replay, 1 - i))


@every_pair
def test_updates_learn_and_leave_the_prior(name, task) -> None:
    start, end, _ = (seed(part, 0) for part in played(name, task))
    changed = changed_leaves(start.agent, end.agent)
    assert len(changed) >= 5
    assert not [leaf for leaf in changed if ".prior" in leaf]


@every_pair
def test_update_compiles_once(name, task) -> None:
    agent, batch = loop(name, task).agent, batch_of(name, task)
    before = seed(played(name, task).start.agent, 0)
    after, _ = jax.eval_shape(agent.update, before, batch, KEY)
    # a second call whose state had another type, or a weak one, would compile again
    assert structure(after) == structure(before)
    assert not [leaf for leaf in jax.tree.leaves(after) if leaf.weak_type]


@every_pair
def test_refresh_keeps_shapes_types_and_the_prior(name, task) -> None:
    agent, state = loop(name, task).agent, seed(played(name, task).end.agent, 0)
    fresh = jax.jit(agent.refresh)(state, KEY)
    assert structure(fresh) == structure(state)
    assert not [leaf for leaf in changed_leaves(state, fresh) if ".prior" in leaf]


@every_pair
def test_maps_give_one_finite_number_per_observation(name, task) -> None:
    program, state = loop(name, task), seed(played(name, task).end.agent, 0)
    obs = batch_of(name, task).obs
    maps = jax.jit(program.agent.maps)(state, obs)
    assert maps
    for title, values in maps.items():
        assert values.shape == (len(obs),), title
        assert np.isfinite(values).all(), title


@every_pair
def test_saved_and_restored_agents_act_alike(name, task, tmp_path) -> None:
    agent, run = loop(name, task).agent, played(name, task)
    state, other = (seed(run.end.agent, i) for i in range(2))
    checkpoint.save(tmp_path, 1, state, {})
    _, restored, _ = checkpoint.restore(tmp_path, other)
    assert not changed_leaves(state, restored)
    obs, memory = batch_of(name, task).obs[:8], seed(run.end.memory, 0)
    first = jnp.zeros(8, bool)
    one, two = (agent.act(s, memory, obs, first, KEY)[0] for s in (state, restored))
    np.testing.assert_array_equal(one, two)


@every_pair
def test_a_run_goes_on_from_a_checkpoint_bit_for_bit(name, task, tmp_path) -> None:
    run, other = played(name, task), played(name, task, SEEDS[::-1])
    checkpoint.save(tmp_path, 1, run.end, {})
    _, restored, _ = checkpoint.restore(tmp_path, other.end)
    (whole, told), (resumed, told_again) = map(chunk(name, task), (run.end, restored))
    assert not changed_leaves(whole, resumed)
    assert not changed_leaves(told, told_again)
    assert changed_leaves(run.end.agent, whole.agent), "nothing was learned after the checkpoint"


def on_host(compiled: FusedLoop) -> HostProgram:
    """The same agent and task with the task on the host."""

    def make(num_envs: int) -> OnHost:
        return OnHost(compiled.env, num_envs)

    settings = replace(compiled.settings, overlap=False)
    envs = tuple(make(settings.num_envs) for _ in SEEDS)
    return HostProgram(compiled.agent, envs, make, settings, SEEDS)


@pytest.mark.parametrize(("name", "task"), slow_but(QUICK[:1], ONE_EACH))
def test_an_agent_does_the_same_in_both_loops(name, task) -> None:
    host, expected = on_host(loop(name, task)), played(name, task).end
    found, _ = host.chunk(host.prefill(host.init()))
    for part in ("memory", "replay", "episodes"):
        assert not changed_leaves(getattr(expected, part), getattr(found, part)), part
    # two programs, whose sums may be rounded in another order
    assert_close(expected.agent, found.agent, rtol=1e-4, atol=1e-6)
