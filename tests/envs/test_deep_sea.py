"""DeepSea against bsuite, and what bsuite does not say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from devote.core.errors import UserError
from devote.core.types import Choice, Env, Index
from devote.envs import DeepSea, DeepSeaSettings, DeepSeaWorld

KEY = jax.random.key(0)


def diving(env: DeepSea):
    """From the actions of an episode to observations, bins and outcomes after each."""

    def step(world, action):
        world, outcome = env.step(world, jax.nn.one_hot(action, 2), KEY)
        return world, (env.observe(world), env.bin_of(world), outcome)

    return jax.jit(lambda actions: jax.lax.scan(step, env.reset(KEY), actions)[1])


@pytest.mark.parametrize(("size", "seed"), [(1, 0), (5, 0), (10, 7), (50, 42)])
def test_agrees_with_bsuite_step_by_step(size: int, seed: int) -> None:
    bsuite = pytest.importorskip("bsuite.environments.deep_sea")
    theirs = bsuite.DeepSea(size, mapping_seed=seed)
    ours = DeepSea(DeepSeaSettings(size, mapping_seed=seed, rewards=True))
    dive = diving(ours)
    assert np.argmax(theirs.reset().observation) == ours.observe(ours.reset(KEY))
    rng = np.random.default_rng(seed)
    episodes = [rng.integers(2, size=size) for _ in range(10)]
    episodes.append(np.diagonal(theirs._action_mapping))  # the only episode with a positive return
    returns = []
    for actions in episodes:
        theirs.reset()
        observations, bins, outcomes = jax.device_get(dive(actions))
        for step, action in enumerate(actions):
            expected = theirs.step(int(action))
            pixels = expected.observation.ravel()
            code = int(np.argmax(pixels)) if pixels.any() else size * size
            assert int(observations[step]) == code
            assert int(bins[step]) == (code if pixels.any() else -1)
            assert bool(outcomes.terminated[step]) == expected.last()
            np.testing.assert_allclose(outcomes.reward[step], expected.reward, atol=1e-7)
        returns.append(float(outcomes.reward.sum()))
    assert returns[-1] == pytest.approx(0.99)


def test_the_paper_s_sea_is_free_of_rewards_and_has_1275_cells() -> None:
    env: Env = DeepSea(DeepSeaSettings())
    spec = env.spec
    assert (spec.observation, spec.action) == (Index(2501), Choice(2))
    assert spec.episode_length == 50
    assert spec.grid is not None
    assert spec.grid.shape == (50, 50)
    assert spec.grid.eligible.sum() == spec.grid.reachable.sum() == 1275
    best = np.diagonal(np.random.RandomState(42).binomial(1, 0.5, [50, 50]))
    assert not diving(DeepSea(DeepSeaSettings()))(best)[2].reward.any()


def test_every_cell_of_the_triangle_and_no_other_is_visited() -> None:
    env = DeepSea(DeepSeaSettings(size=6))
    episodes = np.array(np.meshgrid(*[[0, 1]] * 6)).reshape(6, -1).T
    _, bins, outcomes = jax.vmap(diving(env))(jnp.asarray(episodes))
    grid = env.spec.grid
    assert grid is not None
    visited = {int(env.bin_of(env.reset(KEY)))} | set(np.unique(bins[:, :-1]).tolist())
    assert visited == set(np.flatnonzero(grid.reachable).tolist())
    assert (bins[:, -1] == -1).all()
    assert np.array_equal(outcomes.terminated, np.tile([False] * 5 + [True], (64, 1)))


def test_the_end_is_no_real_cell() -> None:
    env = DeepSea(DeepSeaSettings(size=4))
    cells = [DeepSeaWorld(jnp.int32(r), jnp.int32(c)) for r in range(4) for c in range(4)]
    ends = [DeepSeaWorld(jnp.int32(4), jnp.int32(c)) for c in range(4)]
    real = {int(env.observe(world)) for world in cells}
    grid = env.spec.grid
    assert grid is not None
    assert grid.centers is not None
    assert real == set(grid.centers.tolist())
    assert {int(env.observe(world)) for world in ends} == {16}
    assert env.spec.observation == Index(17)
    assert {int(env.bin_of(world)) for world in ends} == {-1}


def test_the_action_map_belongs_to_its_seed() -> None:
    actions = np.ones(50, int)
    seas = [DeepSea(DeepSeaSettings(mapping_seed=seed)) for seed in (1, 1, 2)]
    paths = [diving(sea)(actions)[0] for sea in seas]
    assert np.array_equal(paths[0], paths[1])
    assert not np.array_equal(paths[0], paths[2])


@pytest.mark.parametrize(
    ("settings", "field"),
    [(DeepSeaSettings(size=0), "size"), (DeepSeaSettings(mapping_seed=-1), "mapping_seed")],
)
def test_impossible_settings_are_refused(settings: DeepSeaSettings, field: str) -> None:
    with pytest.raises(UserError, match=field):
        DeepSea(settings)
