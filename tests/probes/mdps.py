"""Tiny decision problems with known values, side by side in one table of states."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from devote.core.types import Agent, Box, Choice, EnvSpec, Index, Transition, Vector
from tiny import SAC

DISCOUNT = 0.8
NUM_STATES = 8
PROBE_SAC = replace(
    SAC,
    discount=DISCOUNT,
    critic_width=32,
    actor_width=32,
    critic_weight_decay=0.0,
    temperature_rate=3e-3,
)
SPECS = {
    # states are the corners of a simplex: far apart, none at the origin
    "continuous": EnvSpec("probe", Vector((0.0,) * NUM_STATES, (2.0,) * NUM_STATES), Box(1), 5),
    "discrete": EnvSpec("probe", Index(NUM_STATES), Choice(2), 5),
}


@dataclass(frozen=True)
class Row:
    """What happens in a state, whatever the action: reward, successor, and whether it ends."""

    reward: float
    successor: int
    terminated: bool


Table = tuple[Row, ...]
REWARDED_ACTION = 5
ROWS: Table = (
    Row(1.0, 0, True),  # one step, constant reward
    Row(0.0, 2, False),  # two steps: nothing now, ...
    Row(1.0, 2, True),  # ... 1 in a moment
    Row(2.0, 3, True),  # reward seen in the observation ...
    Row(-1.0, 4, True),  # ... or its opposite
    Row(0.0, 5, True),  # reward +1 or -1 by the action alone
    Row(1.0, 6, False),  # a time limit: the same for ever, bootstrapped
    Row(1.0, 7, True),  # a termination: the same, but over
)
VALUES = {
    "one step": {0: 1.0},
    "two steps": {1: DISCOUNT, 2: 1.0},
    "observation": {3: 2.0, 4: -1.0},
    "time limit and termination": {6: 1 / (1 - DISCOUNT), 7: 1.0},
}


def observe(spec: EnvSpec, states: Any) -> jax.Array:
    """The observations of numbered states."""
    states = jnp.asarray(states, jnp.int32)
    if isinstance(spec.observation, Index):
        return states
    return 2.0 * jax.nn.one_hot(states, NUM_STATES)


def sided(spec: EnvSpec, side: Any) -> jax.Array:
    """Actions on the -1 side or the +1 side: the number itself, or a choice."""
    side = jnp.asarray(side, jnp.float32)
    if isinstance(spec.action, Choice):
        return jax.nn.one_hot((side > 0).astype(jnp.int32), 2)
    return side[:, None]


def sample(
    spec: EnvSpec, key: jax.Array, rows: tuple[Row, ...] = ROWS, size: int = 64
) -> Transition:
    """A batch of uniform states and actions of the table."""
    state_key, side_key = jax.random.split(key)
    states = jax.random.randint(state_key, (size,), 0, len(rows))
    return steps(spec, side_key, states, rows)


def sample_runs(
    spec: EnvSpec, key: jax.Array, rows: tuple[Row, ...], length: int, size: int = 64
) -> Transition:
    """The same in runs of consecutive steps: after a state comes its successor, or any state where
    the episode is over."""
    state_key, side_key = jax.random.split(key)
    anywhere = jax.random.randint(state_key, (length, size // length), 0, len(rows))
    successor = jnp.array([row.successor for row in rows])
    ended = jnp.array([row.terminated for row in rows])

    def follow(before: Any, fresh: jax.Array) -> tuple[Any, Any]:
        state, over = before
        now = jnp.where(over, fresh, state)
        return (successor[now], ended[now]), (now, over)

    start = (anywhere[0], jnp.ones(size // length, bool))
    _, (states, first) = jax.lax.scan(follow, start, anywhere)
    batch = steps(spec, side_key, states.swapaxes(0, 1).reshape(-1), rows)
    return batch._replace(first=first.swapaxes(0, 1).reshape(-1))


def steps(spec: EnvSpec, key: jax.Array, states: jax.Array, rows: tuple[Row, ...]) -> Transition:
    """What random actions do in given states."""
    size = states.shape[0]
    side = jax.random.uniform(key, (size,), minval=-1)
    reward = jnp.array([row.reward for row in rows])[states]
    by_action = side if isinstance(spec.action, Box) else jnp.sign(side)
    successor = jnp.array([row.successor for row in rows])[states]
    ended = jnp.array([row.terminated for row in rows])[states]
    return Transition(
        obs=observe(spec, states),
        action=sided(spec, side),
        reward=jnp.where(states == REWARDED_ACTION, by_action, reward),
        discount=1.0 - ended,
        next_obs=observe(spec, successor),
        first=jnp.ones(size, bool),
    )


def train(
    agent: Agent, state: Any, updates: int, rows: tuple[Row, ...] = ROWS, seed: int = 0
) -> Any:
    """The state after updates on fresh batches, in runs for agents that learn from them."""

    def update(state: Any, key: jax.Array) -> tuple[Any, None]:
        sample_key, update_key = jax.random.split(key)
        if agent.sequence_length == 1:
            batch = sample(agent.spec, sample_key, rows)
        else:
            batch = sample_runs(agent.spec, sample_key, rows, agent.sequence_length)
        return agent.update(state, batch, update_key)[0], None

    keys = jax.random.split(jax.random.key(0), updates)
    return jax.jit(lambda s, k: jax.lax.scan(update, s, k)[0])(state, keys)


def both_sides(spec: EnvSpec, state: int) -> tuple[jax.Array, jax.Array]:
    """A state with the action -1 and the action +1."""
    return observe(spec, np.full(2, state)), sided(spec, np.array([-1.0, 1.0]))
