"""The ring against a plain list."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from devote.core.errors import UserError
from devote.core.types import Transition
from devote.envs import DeepSea, DeepSeaSettings, PointMaze, spiral
from devote.loops.memory import tree_bytes
from devote.replay import Replay
from tiny import SPECS, some_batch


def numbered(step: int, envs: int) -> Transition:
    """A vector step whose every field tells when and where it was made."""
    code = np.arange(envs) + 100 * step
    return Transition(
        obs=np.float32(code[:, None] + np.array([0.0, 0.25, 0.5])),
        action=np.float32(np.stack([code / 1e4, -code / 1e4], axis=-1)),
        reward=np.float32(code),
        discount=np.float32(code % 3 != 0),
        next_obs=np.float32(code[:, None] + np.array([1.0, 1.25, 1.5])),
        first=code % 5 == 0,
    )


def draw(ring: Replay, storage: Transition, written, size: int, seed: int) -> Transition:
    """A batch, by one compiled program."""
    found = jax.jit(ring.sample, static_argnums=2)(storage, written, size, jax.random.key(seed))
    return jax.tree.map(np.asarray, found)


@pytest.mark.parametrize("steps", [3, 5, 13])
def test_holds_the_newest_steps_of_every_environment(steps) -> None:
    ring = Replay(SPECS["continuous"], capacity=11, num_envs=2)  # five rows
    storage, add, history = ring.init(), jax.jit(ring.add), []
    for step in range(steps):
        history += list(zip(*numbered(step, 2), strict=True))
        storage = add(storage, jnp.int32(step), numbered(step, 2))
    kept = sorted((float(x[2]), x) for x in history[-10:])
    batch = draw(ring, storage, jnp.int32(steps), 500, seed=0)
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
    batch = draw(ring, storage, jnp.int32(written), 20_000, seed=1)
    stored = min(written, 8) * 4
    counts = np.bincount(np.asarray(batch.reward, int), minlength=stored)
    assert len(counts) == stored
    assert scipy.stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("kind", SPECS)
def test_what_goes_in_comes_out_with_its_type(kind) -> None:
    spec = SPECS[kind]
    ring = Replay(spec, capacity=24, num_envs=24)
    step = some_batch(0, spec)
    storage = jax.jit(ring.add)(ring.init(), jnp.int32(0), step)
    batch = draw(ring, storage, jnp.int32(1), 200, seed=1)
    for name in Transition._fields:
        assert getattr(batch, name).dtype == getattr(step, name).dtype, name
    rows = {tuple(np.ravel(x).tobytes() for x in row) for row in zip(*step, strict=True)}
    assert {tuple(np.ravel(x).tobytes() for x in row) for row in zip(*batch, strict=True)} <= rows


def test_a_million_transitions_are_small() -> None:
    sea, maze = DeepSea(DeepSeaSettings()).spec, PointMaze(spiral()).spec
    assert 10e6 < tree_bytes(Replay(sea, 1_000_000, 32).layout()) <= 30e6
    assert 10e6 < tree_bytes(Replay(maze, 1_000_000, 32).layout()) <= 60e6


def ring_of_codes(rows: int, envs: int, length: int, steps: int):
    """A ring in which the reward of every stored step says which step of which environment."""
    ring = Replay(SPECS["continuous"], rows * envs, envs, length)
    storage, add = ring.init(), jax.jit(ring.add)
    for step in range(steps):
        storage = add(storage, jnp.int32(step), numbered(step, envs))
    return ring, storage


@pytest.mark.parametrize("steps", [3, 5, 7, 8, 12, 16])
def test_sequences_are_all_the_runs_of_one_environment_that_are_stored(steps) -> None:
    ring, storage = ring_of_codes(rows=7, envs=2, length=3, steps=steps)
    batch = draw(ring, storage, jnp.int32(steps), 600, seed=2)
    runs = {tuple(run) for run in np.asarray(batch.reward, int).reshape(-1, 3).tolist()}
    oldest = max(steps - 7, 0)
    assert runs == {
        tuple(100 * (start + t) + column for t in range(3))
        for start in range(oldest, steps - 2)
        for column in range(2)
    }
    for field, codes in (("first", batch.reward % 5 == 0), ("obs", batch.reward)):
        stored = np.asarray(getattr(batch, field))
        np.testing.assert_array_equal(stored if field == "first" else stored[:, 0], codes)


def test_sequences_are_drawn_uniformly() -> None:
    ring, storage = ring_of_codes(rows=6, envs=2, length=3, steps=9)
    batch = draw(ring, storage, jnp.int32(9), 3 * 8_000, seed=3)
    starts = np.asarray(batch.reward, int)[::3]
    assert scipy.stats.chisquare(np.unique(starts, return_counts=True)[1]).pvalue > 1e-4


def test_runs_of_one_step_are_what_a_plain_index_reads() -> None:
    ring, storage = ring_of_codes(rows=5, envs=2, length=1, steps=8)
    index = np.asarray(jax.random.randint(jax.random.key(4), (50,), 0, 10))
    batch = draw(ring, storage, jnp.int32(8), 50, seed=4)
    np.testing.assert_array_equal(batch.reward, np.asarray(storage.reward).reshape(-1)[index])


def test_impossible_sequences_are_refused() -> None:
    with pytest.raises(UserError, match="replay_capacity of at least 16"):
        Replay(SPECS["continuous"], capacity=14, num_envs=2, sequence_length=8)
    ring = Replay(SPECS["continuous"], capacity=16, num_envs=2, sequence_length=8)
    with pytest.raises(UserError, match="multiple"):
        ring.sample(ring.init(), jnp.int32(8), 12, jax.random.key(0))


@pytest.mark.parametrize("length", [1, 3])
def test_environments_may_add_at_their_own_pace(length) -> None:
    ring = Replay(SPECS["continuous"], capacity=12, num_envs=3, sequence_length=length)  # four rows
    storage, written, add = ring.init(), np.zeros(3, np.int32), jax.jit(ring.add)
    valid = np.array([[1, 1, 1], [1, 0, 1], [1, 0, 0], [1, 1, 0], [1, 1, 0], [1, 0, 1]], bool)
    kept: list[list[float]] = [[], [], []]
    for step, flags in enumerate(valid):
        new = numbered(step, 3)
        storage = add(storage, written, new, flags)
        written = written + flags
        for env in np.flatnonzero(flags):
            kept[env].append(float(new.reward[env]))
    assert written.tolist() == [6, 3, 3]
    runs = {tuple(own[i : i + length]) for own in (k[-4:] for k in kept) for i in range(5 - length)}
    runs = {run for run in runs if len(run) == length}
    batch = draw(ring, storage, written, 6_000 * length, seed=0)
    seen, counts = np.unique(batch.reward.reshape(-1, length), axis=0, return_counts=True)
    assert {tuple(run) for run in seen.tolist()} == runs
    assert scipy.stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("written", [5, 9])
def test_one_clock_for_all_is_the_same_as_one_for_each(length, written) -> None:
    ring = Replay(SPECS["continuous"], capacity=12, num_envs=2, sequence_length=length)
    one = each = ring.init()
    clock = np.zeros(2, np.int32)
    add = jax.jit(ring.add)
    for step in range(written):
        one = add(one, jnp.int32(step), numbered(step, 2))
        each = add(each, clock + step, numbered(step, 2), np.ones(2, bool))
    sampled = draw(ring, one, jnp.int32(written), 60, seed=2)
    again = draw(ring, each, clock + written, 60, seed=2)
    for ours, theirs in zip((*one, *sampled), (*each, *again), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("written", [3, 5, 13])
def test_blocks_hold_every_step_once(written) -> None:
    ring = Replay(SPECS["continuous"], capacity=11, num_envs=2)  # five rows
    storage = ring.init()
    for step in range(written):
        storage = ring.add(storage, jnp.int32(step), numbered(step, 2))
    found = []
    for number in range(3):
        block, valid = ring.block(storage, jnp.int32(written), jnp.int32(number), 2)
        found += list(np.asarray(block.reward)[np.asarray(valid)])
    assert sorted(found) == [
        100 * s + e for s in range(max(0, written - 5), written) for e in (0, 1)
    ]
