"""The MuJoCo tasks as Gymnasium knows them, by Gymnasium's own rules."""

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from devote.core.errors import UserError
from devote.core.types import HostEnv
from devote.envs.gymnasium import GymnasiumSettings, from_factory, from_vector, gymnasium_task
from devote.envs.mujoco.ant_maze import AntMazeSettings
from devote.envs.mujoco.cartpole import CartpoleSettings
from devote.envs.mujoco.cheetah import CheetahSettings
from devote.envs.mujoco.gym import IDS, MujocoGymEnv, MujocoVectorEnv, register_envs
from devote.envs.mujoco.rendering import backend, frames


@pytest.mark.filterwarnings("ignore:.*infinity.*")
@pytest.mark.parametrize("name", IDS)
def test_gymnasiums_checker_passes(name) -> None:
    register_envs()  # a second time
    check_env(gymnasium.make(name).unwrapped, skip_render_check=True)


@pytest.mark.parametrize("name", IDS)
def test_ids_make_vector_environments(name) -> None:
    env = gymnasium.make_vec(name, num_envs=3, vectorization_mode="vector_entry_point")
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    obs, _ = env.reset(seed=1)
    assert env.observation_space.contains(obs)
    np.testing.assert_array_equal(obs, env.reset(seed=1)[0])
    assert not np.array_equal(obs, env.reset(seed=2)[0])
    assert not np.array_equal(obs, env.reset()[0])
    obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
    assert env.observation_space.contains(obs)
    assert reward.shape == terminated.shape == truncated.shape == (3,)


def test_one_world_goes_on_like_a_vector_of_one() -> None:
    settings = CartpoleSettings(episode_length=6)
    one, many = MujocoGymEnv(settings), MujocoVectorEnv(settings, num_envs=1)
    np.testing.assert_array_equal(one.reset(seed=3)[0], many.reset(seed=3)[0][0])
    for step in range(6):
        action = np.array([0.3 * step - 0.5], np.float32)
        obs, reward, terminated, truncated, _ = one.step(action)
        batch_obs, rewards, ends, cuts, info = many.step(action[None])
        successor = info["final_obs"][0] if step == 5 else batch_obs[0]
        np.testing.assert_array_equal(obs, successor)
        assert (reward, terminated, truncated) == (rewards[0], ends[0], cuts[0])
    assert truncated
    assert info["_final_obs"].tolist() == [True]
    assert abs(batch_obs[0, 1] + 1) < 0.01  # hanging: the start of the next episode


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (np.float32([0.5]), "numbers of shape .* as action; got float32 of shape"),
        (0.5, "numbers of shape .* as action"),
        (["a"] * 6, "numbers of shape"),
        (np.full(6, np.nan), "a finite action"),
    ],
)
def test_actions_that_do_not_fit_are_refused(action: Any, words: str) -> None:
    one, many = MujocoGymEnv(CheetahSettings()), MujocoVectorEnv(CheetahSettings(), num_envs=2)
    one.reset(seed=0)
    many.reset(seed=0)
    with pytest.raises(UserError, match=words):
        one.step(action)
    with pytest.raises(UserError, match=words):
        many.step(np.stack([action, action]))
    with pytest.raises(UserError, match="numbers of shape"):
        many.step(np.zeros((1, 6)))


def test_terms_and_success_are_in_the_info() -> None:
    single, many = MujocoGymEnv(AntMazeSettings()), MujocoVectorEnv(AntMazeSettings(), 2)
    single.reset(seed=0)
    many.reset(seed=0)
    _, reward, _, _, info = single.step(single.action_space.sample())
    assert info["is_success"] is False
    assert sum(info["reward_terms"].values()) == pytest.approx(reward, rel=1e-5)
    _, rewards, _, _, info = many.step(many.action_space.sample())
    terms = {name: part for name, part in info["reward_terms"].items() if name[0] != "_"}
    np.testing.assert_allclose(sum(terms.values()), rewards, rtol=1e-5)
    assert info["is_success"].tolist() == [False, False]


def adapted(how: str) -> tuple[HostEnv, Callable[[], Any]]:
    """Three short cartpoles behind one of the adapters, and the velocities of the second."""
    short = CartpoleSettings(episode_length=6)
    if how == "list":
        made: list[MujocoGymEnv] = []
        make = lambda: made.append(MujocoGymEnv(short)) or made[-1]  # noqa: E731
        task = from_factory(make, GymnasiumSettings(time_limit=6), 3)
        return task, lambda: made[1]._worlds.physics.qvel[0]
    if how == "sync":
        envs = SyncVectorEnv(
            [partial(MujocoGymEnv, short)] * 3, autoreset_mode=AutoresetMode.SAME_STEP
        )
        task = from_vector(envs, GymnasiumSettings())
        return task, lambda: envs.envs[1]._worlds.physics.qvel[0]
    batch = MujocoVectorEnv(short, 3)
    return from_vector(batch, GymnasiumSettings()), lambda: batch._worlds.physics.qvel[1]


@pytest.mark.parametrize("how", ["list", "sync", "batch"])
def test_a_world_that_blows_up_is_not_stored_through_gymnasium(how: str) -> None:
    task, velocity = adapted(how)
    key, action = jax.random.key(0), np.zeros((3, 1), np.float32)
    before = task.reset(key)
    assert task.step(action, key).valid.all()
    velocity()[:] = np.inf
    step = task.step(action, key)
    assert step.valid.tolist() == [True, False, True]
    assert step.truncated.tolist() == [False, True, False]
    assert not step.terminated.any()
    assert np.isfinite(step.next_obs).all()
    assert (step.obs[1] != before[1]).any(), "no new episode was started"
    assert task.step(action, key).valid.all()


@pytest.mark.parametrize("how", ["list", "batch"])
def test_a_run_through_gymnasium_resumes_exactly(how: str) -> None:
    (one, _), (other, _) = adapted(how), adapted(how)
    key, action = jax.random.key(0), np.full((3, 1), 0.3, np.float32)

    def play(task: HostEnv, steps: int) -> np.ndarray:
        return np.stack([task.step(action, key).obs for _ in range(steps)])

    one.reset(key)
    play(one, 4)
    saved = one.save()
    assert saved is not None
    expected = play(one, 15)  # with two restarts
    other.reset(jax.random.key(9))
    other.restore(saved)
    np.testing.assert_array_equal(play(other, 15), expected)


def test_an_id_of_ours_can_be_saved() -> None:
    task = gymnasium_task(GymnasiumSettings("devote/CartpoleSwingup-v0", time_limit=500), 2)
    task.reset(jax.random.key(0))
    assert task.save() is not None


def test_gymnasiums_vector_wrappers_work() -> None:
    env = RecordEpisodeStatistics(MujocoVectorEnv(CartpoleSettings(episode_length=5), 2))
    env.reset(seed=0)
    for _ in range(5):
        info = env.step(env.action_space.sample())[4]
    assert info["episode"]["l"].tolist() == [5, 5]


def test_an_unknown_render_mode_is_refused() -> None:
    with pytest.raises(UserError, match="rgb_array"):
        MujocoGymEnv(CartpoleSettings(), render_mode="human")


def has_opengl() -> bool:
    try:
        backend()
    except UserError:
        return False
    return True


def test_frames_show_the_state_or_say_what_is_missing() -> None:
    env = MujocoGymEnv(CartpoleSettings(), render_mode="rgb_array")
    env.reset(seed=0)
    if not has_opengl():
        with pytest.raises(UserError, match="libosmesa6"):
            env.render()
        return
    picture = env.render()
    assert picture.shape == (480, 640, 3)
    assert picture.dtype == np.uint8
    env.close()
    qpos = np.array([[-1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    left, right, again = frames(env._worlds.task.model, qpos, height=60, width=80).astype(int)
    np.testing.assert_array_equal(left, again)
    changed = (np.abs(left - right).sum(axis=2) > 60).any(axis=0)
    assert changed[:40].any()
    assert changed[40:].any()
    assert not changed[36:44].any()
