"""What every task on the host promises."""

from functools import cache

import jax
import numpy as np
import pytest

from devote.build import HOST_ENVS
from devote.core.guard import Guard
from devote.core.types import Choice, Index
from devote.presets import smoke
from tiny import changed_leaves

ENVS, STEPS = 3, 25
# `gymnasium` is any task; its own tests hold it to the same.
TASKS = [name for name in HOST_ENVS if name != "gymnasium"]


@cache
def task(name: str):
    """A small batch."""
    return HOST_ENVS[name](smoke(name, "sac").env, ENVS)


def walk(name: str, seed: int):
    """Observations before and all of every step of a random behaviour."""
    env, rng = task(name), np.random.default_rng(seed)
    keys = jax.random.split(jax.random.key(seed), STEPS + 1)
    obs, seen = env.reset(keys[0]), []
    guard = Guard(env.spec)
    guard.obs(obs, ENVS, "reset")
    for key in keys[1:]:
        action = random_action(env.spec.action, rng)
        step = env.step(action, key)
        guard.step(step, action, "a step")
        seen.append((obs.copy(), jax.tree.map(np.copy, step), obs, step))
        obs = step.obs
    for before, copy, now, step in seen:  # nobody writes into what was handed out
        assert not changed_leaves((before, copy), (now, step))
    return [(before, copy) for before, copy, _, _ in seen]


def random_action(kind, rng) -> np.ndarray:
    if isinstance(kind, Choice):
        return np.eye(kind.size, dtype=np.float32)[rng.integers(kind.size, size=ENVS)]
    return rng.uniform(-1, 1, (ENVS, kind.size)).astype(np.float32)


@pytest.mark.parametrize("name", TASKS)
class TestEveryTaskOnTheHost:
    def test_same_keys_same_walk_and_other_keys_another(self, name) -> None:
        first, again, other = walk(name, 0), walk(name, 0), walk(name, 1)
        assert not changed_leaves(first, again)
        assert not np.array_equal(first[0][0], other[0][0])

    def test_successors_are_where_the_next_decision_is_made_unless_the_episode_ended(
        self, name
    ) -> None:
        for _, step in walk(name, 2):
            goes_on = step.valid & ~(step.terminated | step.truncated)
            np.testing.assert_array_equal(step.obs[goes_on], step.next_obs[goes_on])

    def test_time_limits_cut_and_show_the_true_successor(self, name) -> None:
        env, rng = task(name), np.random.default_rng(3)
        env.reset(jax.random.key(3))
        limit = env.spec.episode_length
        for t in range(limit):
            step = env.step(random_action(env.spec.action, rng), jax.random.key(t))
            assert not (step.truncated & step.terminated).any()
            if t < limit - 1:
                assert not (step.truncated & step.valid).any()
        cut = step.truncated & step.valid
        assert cut.any()
        assert (step.obs[cut] != step.next_obs[cut]).any(axis=-1).all()

    def test_saved_tasks_go_on_exactly(self, name) -> None:
        env = task(name)
        walk(name, 4)
        saved = jax.tree.map(np.copy, env.save())
        rng = np.random.default_rng(5)
        actions = [random_action(env.spec.action, rng) for _ in range(10)]
        before = [env.step(action, jax.random.key(i)) for i, action in enumerate(actions)]
        walk(name, 6)
        env.restore(saved)
        after = [env.step(action, jax.random.key(i)) for i, action in enumerate(actions)]
        assert not changed_leaves(before, after)

    def test_bins_lie_in_the_grid(self, name) -> None:
        env = task(name)
        assert not isinstance(env.spec.observation, Index)
        if env.spec.grid is None:
            return
        seen = np.concatenate([step.next_obs for _, step in walk(name, 7)])
        bins = env.bin_of(seen)
        assert bins.shape == (len(seen),)
        assert bins.dtype == np.int32
        assert ((bins >= -1) & (bins < env.spec.grid.size)).all()
        assert (bins >= 0).any()
