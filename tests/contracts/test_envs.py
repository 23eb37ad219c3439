"""What every environment promises, under a random behaviour."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every import ADAPTERS, env

from devote.build import JAX_ENVS
from devote.core.types import Choice, Index
from tiny import slow_but

OWN = [name for name, build in JAX_ENVS.items() if build not in ADAPTERS]
pytestmark = pytest.mark.parametrize("name", slow_but(OWN, JAX_ENVS))
STEPS = 200


@cache
def walk(name):
    """Observations, successors, outcomes and bins of one long random walk without resets."""
    task = env(name)
    kind = task.spec.action

    def act(key):
        if isinstance(kind, Choice):
            return jax.nn.one_hot(jax.random.randint(key, (), 0, kind.size), kind.size)
        return jax.random.uniform(key, (kind.size,), minval=-1)

    def step(carry, key):
        world, age = carry
        act_key, step_key, reset_key = jax.random.split(key, 3)
        after, outcome = task.step(world, act(act_key), step_key)
        seen = (task.observe(world), task.observe(after), outcome, task.bin_of(after))
        done = outcome.terminated | (age + 1 >= task.spec.episode_length)
        fresh = task.reset(reset_key)
        world = jax.tree.map(lambda a, b: jnp.where(done, a, b), fresh, after)
        return (world, jnp.where(done, 0, age + 1)), (*seen, done)

    @jax.jit
    def play(key):
        keys = jax.random.split(key, STEPS)
        return jax.lax.scan(step, (task.reset(key), jnp.int32(0)), keys)[1]

    return play(jax.random.key(0)), play(jax.random.key(0)), play(jax.random.key(1))


def test_observations_fit_the_spec(name) -> None:
    spec, (obs, successor, *_) = env(name).spec, walk(name)[0]
    for seen in (np.asarray(obs), np.asarray(successor)):
        if isinstance(spec.observation, Index):
            assert seen.dtype == np.int32
            assert seen.shape == (STEPS,)
            assert ((seen >= 0) & (seen < spec.observation.size)).all()
        else:
            assert seen.dtype == np.float32
            assert seen.shape == (STEPS, spec.observation.size)
            assert (seen >= np.asarray(spec.observation.low) - 1e-4).all()
            assert (seen <= np.asarray(spec.observation.high) + 1e-4).all()


def test_rewards_and_ends_have_their_types(name) -> None:
    outcome = walk(name)[0][2]
    assert outcome.reward.dtype == jnp.float32
    assert outcome.terminated.dtype == jnp.bool_
    assert np.isfinite(outcome.reward).all()


def test_bins_lie_in_the_grid_where_they_are_reachable(name) -> None:
    grid, bins = env(name).spec.grid, np.asarray(walk(name)[0][3])
    if grid is None:
        assert (bins == -1).all()
        return
    assert ((bins >= -1) & (bins < grid.size)).all()
    counted = bins[bins >= 0]
    assert len(np.unique(counted)) > 1
    assert grid.reachable[counted].all()


def test_centres_of_bins_are_observations(name) -> None:
    spec = env(name).spec
    if spec.grid is None:
        pytest.skip("counts nothing")
    shape = (spec.grid.size,)
    if not isinstance(spec.observation, Index):
        shape += (spec.observation.size,)
    assert spec.grid.centers.shape == shape


def test_successor_is_the_next_observation_unless_the_episode_ended(name) -> None:
    obs, successor, _, _, done = map(np.asarray, _flat(walk(name)[0]))
    same = (successor[:-1] == obs[1:]).reshape(STEPS - 1, -1).all(axis=1)
    assert same[~done[:-1]].all()
    moved = (successor != obs).reshape(STEPS, -1).any(axis=1)
    assert moved.mean() > 0.5


def test_same_keys_same_walk_and_other_keys_another(name) -> None:
    one, again, other = walk(name)
    for a, b in zip(_flat(one), _flat(again), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(one[0], other[0])


def _flat(seen):
    obs, successor, outcome, bins, done = seen
    return obs, successor, outcome.reward, bins, done
