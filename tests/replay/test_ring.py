"""The ring against a plain list."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from devote.core import Transition
from devote.envs import DeepSea, DeepSeaSettings, PointMaze, spiral
from devote.replay import Replay
from tiny import SPECS, some_batch


def numbered(step: int, envs: int) -> Transition:
    """A vector step whose every field tells when and where it was made."""
    code = jnp.arange(envs) + 100 * step
    return Transition(
        obs=code[:, None] + jnp.array([0.0, 0.25, 0.5]),
        action=jnp.stack([code / 1e4, -code / 1e4], axis=-1),
        reward=code.astype(jnp.float32),
        discount=(code % 3 != 0).astype(jnp.float32),
        next_obs=code[:, None] + jnp.array([1.0, 1.25, 1.5]),
        first=code % 5 == 0,
    )


@pytest.mark.parametrize("steps", [3, 5, 13])
def test_holds_the_newest_steps_of_every_environment(steps) -> None:
    ring = Replay(SPECS["continuous"], capacity=11, num_envs=2)  # five rows
    storage, add, history = ring.init(), jax.jit(ring.add), []
    for step in range(steps):
        history += list(zip(*numbered(step, 2), strict=True))
        storage = add(storage, jnp.int32(step), numbered(step, 2))
    kept = sorted((float(x[2]), x) for x in history[-10:])
    batch = jax.jit(ring.sample, static_argnums=2)(
        storage, jnp.int32(steps), 500, jax.random.key(0)
    )
    assert set(np.asarray(batch.reward).tolist()) == {reward for reward, _ in kept}
    by_reward = dict(kept)
    for i in range(60):  # whole transitions, never mixed
        row = jax.tree.map(lambda x, i=i: x[i], batch)
        for ours, theirs in zip(row, by_reward[float(row.reward)], strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("written", [3, 40])
def test_sampling_is_uniform_over_what_is_stored(written) -> None:
    ring = Replay(SPECS["continuous"], capacity=32, num_envs=4)
    storage = ring.init()._replace(reward=jnp.arange(32.0).reshape(8, 4))
    batch = ring.sample(storage, jnp.int32(written), 20_000, jax.random.key(1))
    stored = min(written, 8) * 4
    counts = np.bincount(np.asarray(batch.reward, int), minlength=stored)
    assert len(counts) == stored
    assert scipy.stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("kind", SPECS)
def test_what_goes_in_comes_out_with_its_type(kind) -> None:
    spec = SPECS[kind]
    ring = Replay(spec, capacity=24, num_envs=24)
    step = some_batch(0, spec)
    batch = ring.sample(
        ring.add(ring.init(), jnp.int32(0), step), jnp.int32(1), 200, jax.random.key(1)
    )
    for name in Transition._fields:
        assert getattr(batch, name).dtype == getattr(step, name).dtype, name
    rows = {tuple(np.ravel(x).tobytes() for x in row) for row in zip(*step, strict=True)}
    assert {tuple(np.ravel(x).tobytes() for x in row) for row in zip(*batch, strict=True)} <= rows


@pytest.mark.parametrize("kind", SPECS)
def test_nbytes_is_what_init_takes(kind) -> None:
    ring = Replay(SPECS[kind], capacity=1000, num_envs=8)
    assert ring.nbytes() == sum(leaf.nbytes for leaf in jax.tree.leaves(ring.init()))


def test_a_million_transitions_are_small() -> None:
    sea, maze = DeepSea(DeepSeaSettings()).spec, PointMaze(spiral()).spec
    assert 10e6 < Replay(sea, 1_000_000, 32).nbytes() <= 30e6
    assert 10e6 < Replay(maze, 1_000_000, 32).nbytes() <= 60e6
