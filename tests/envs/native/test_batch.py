"""What every MuJoCo task promises as a batch on the host."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from placing import place

from devote.envs.mujoco.ant_maze import AntMaze, AntMazeSettings
from devote.envs.mujoco.batch import MujocoEnv
from devote.envs.mujoco.cartpole import Cartpole, CartpoleSettings
from devote.envs.mujoco.cheetah import Cheetah, CheetahSettings
from devote.envs.mujoco.pick_and_place import PickAndPlace, PickAndPlaceSettings

LENGTH, ENVS = 7, 5
BUILDERS = {
    "cheetah": lambda: Cheetah(CheetahSettings(rewards=True, episode_length=LENGTH)),
    "cartpole": lambda: Cartpole(CartpoleSettings(episode_length=LENGTH)),
    "ant_maze": lambda: AntMaze(AntMazeSettings(episode_length=LENGTH)),
    "pick_and_place": lambda: PickAndPlace(PickAndPlaceSettings(episode_length=LENGTH)),
}
pytestmark = pytest.mark.parametrize("name", BUILDERS)


def actions(env, steps, seed=0):
    size = (steps, env.num_envs, env.spec.action.size)
    return np.random.default_rng(seed).uniform(-1, 1, size)


def key(number):
    return jax.random.fold_in(jax.random.key(5), number)


def play(env, steps, first=0):
    """Steps under keys that count on from `first`."""
    chosen = actions(env, first + steps)[first:]
    return [env.step(action, key(first + i)) for i, action in enumerate(chosen)]


def same(one, other):
    """Bit by bit, terms included."""
    return all(
        np.array_equal(a, b)
        for x, y in zip(one, other, strict=True)
        for a, b in zip(jax.tree.leaves(x), jax.tree.leaves(y), strict=True)
    )


def test_one_key_one_trajectory_whatever_the_threads(name) -> None:
    played = []
    for threads in (1, 2):
        env = MujocoEnv(BUILDERS[name](), ENVS, threads)
        first = env.reset(key(99))
        played.append((first, play(env, 2 * LENGTH + 3)))
    (first, steps), (first_again, steps_again) = played
    np.testing.assert_array_equal(first, first_again)
    assert same(steps, steps_again)
    assert not np.array_equal(first, env.reset(key(98)))


def test_resumed_is_uninterrupted(name) -> None:
    env, other = (MujocoEnv(BUILDERS[name](), ENVS) for _ in range(2))
    env.reset(key(99))
    play(env, LENGTH + 2)
    saved = {part: array.copy() for part, array in env.save().items()}
    steps = play(env, LENGTH, LENGTH + 2)
    other.reset(key(1))
    other.restore(saved)
    assert same(steps, play(other, LENGTH, LENGTH + 2))


def test_successors_are_true_at_the_time_limit(name) -> None:
    """The last successor is the state that one more step without a limit leads to."""
    env = MujocoEnv(BUILDERS[name](), ENVS)
    unlimited = MujocoEnv(BUILDERS[name](), ENVS)
    unlimited.spec = replace(unlimited.spec, episode_length=10**6)
    obs, free = env.reset(key(99)), unlimited.reset(key(99))
    np.testing.assert_array_equal(obs, free)
    for action in actions(env, LENGTH):
        step, on = env.step(action, key(3)), unlimited.step(action, key(3))
        np.testing.assert_array_equal(step.next_obs, on.next_obs)
    assert step.truncated.all()
    assert not step.terminated.any()
    assert not on.truncated.any()
    assert (step.obs != step.next_obs).any(axis=1).all()
    np.testing.assert_array_equal(step.obs, MujocoEnv(BUILDERS[name](), ENVS).reset(key(3)))


def test_a_start_depends_on_its_key_and_world_and_not_on_its_neighbours(name) -> None:
    env = MujocoEnv(BUILDERS[name](), ENVS)
    every = env.reset(key(4))
    env.reset(key(5))
    env._elapsed[[1, 3]] = LENGTH - 1
    step = env.step(actions(env, 1)[0], key(4))
    assert step.truncated.tolist() == [False, True, False, True, False]
    np.testing.assert_array_equal(step.obs[[1, 3]], every[[1, 3]])
    np.testing.assert_array_equal(step.obs[[0, 2, 4]], step.next_obs[[0, 2, 4]])


def test_what_a_step_gave_is_never_written_to_again(name) -> None:
    env = MujocoEnv(BUILDERS[name](), ENVS)
    kept = [env.reset(key(99))]
    copies = [kept[0].copy()]
    for step in play(env, LENGTH + 1):
        kept += jax.tree.leaves(step)
        copies += [leaf.copy() for leaf in jax.tree.leaves(step)]
    play(env, 3)
    assert same(kept, copies)


def test_shapes_types_terms_and_bins_fit_the_spec(name) -> None:
    env = MujocoEnv(BUILDERS[name](), ENVS)
    size = env.spec.observation.size
    env.reset(key(0))
    for step in play(env, 3):
        for obs in (step.obs, step.next_obs):
            assert obs.shape == (ENVS, size)
            assert obs.dtype == np.float32
        assert step.reward.dtype == np.float32
        assert {step.terminated.dtype, step.truncated.dtype, step.success.dtype} == {np.dtype(bool)}
        assert tuple(step.terms) == env.spec.terms
        assert step.valid.all()
        if step.terms:
            np.testing.assert_allclose(sum(step.terms.values()), step.reward, rtol=1e-5)
        bins = env.bin_of(step.next_obs)
        assert ((bins >= -1) & (bins < env.spec.grid.size)).all()


@pytest.mark.parametrize("decision", ["first", "placed", "later"])
def test_a_world_that_blows_up_is_cut_off_and_starts_again(
    name, decision, tmp_path, monkeypatch, caplog
) -> None:
    monkeypatch.chdir(tmp_path)
    env = MujocoEnv(BUILDERS[name](), ENVS)
    before = env.reset(key(0))
    if decision == "placed":
        before = place(env, env.physics.qpos.copy(), env.physics.qvel.copy())
    if decision == "later":
        before = env.step(actions(env, 1)[0], key(1)).obs
    env.physics.qvel[2] = np.inf
    step = env.step(actions(env, 1)[0], key(2))
    assert step.valid.tolist() == [True, True, False, True, True]
    assert step.truncated[2]
    assert not step.terminated[2]
    assert step.reward[2] == 0
    np.testing.assert_array_equal(step.next_obs[2], before[2])
    assert np.isfinite(step.obs).all()
    assert env.step(actions(env, 1)[0], key(3)).valid.all()
    assert "unstable" in caplog.text
    assert not list(tmp_path.iterdir()), "MuJoCo wrote a file where we stand"
