"""AntMaze: rewards at states computed by hand, walls, starts, and a way to the bonus."""

from itertools import pairwise

import mujoco
import numpy as np
import pytest
from placing import place

from devote.core.errors import UserError
from devote.envs.mujoco.ant_maze import AntMaze, AntMazeSettings, as_authors
from devote.envs.mujoco.batch import MujocoEnv

KEY = np.array([3])
TASK = AntMaze(AntMazeSettings())
AUTHORS = AntMaze(as_authors(AntMazeSettings()))
START, GOAL = np.array([5.0, 20.0]), np.array([35.0, 20.0])


def states(places, heights=0.5):
    qpos = np.tile(TASK.model.qpos0, (len(places), 1))
    qpos[:, 7:] = [0, 1, 0, -1, 0, -1, 0, 1]
    qpos[:, :2], qpos[:, 2] = places, heights
    return qpos


def test_rewards_by_hand() -> None:
    places = np.array([START, [35, 10], [35.99, 20], [34, 20], START])
    qpos = states(places, [0.5, 0.15, 1.2, 0.149, 1.21])
    qvel = np.zeros((5, 14))
    qvel[:, :2] = [[3, 4], [3, 4], [1, 0], [1, 0], [-2, 0]]
    action = np.zeros((5, 8))
    action[0] = 0.5
    forces = np.zeros((5, 14, 6))
    forces[1, 3], forces[1, 4, 0] = 0.5, -7.0
    result = TASK.result(qpos, qvel, action, forces)
    wanted = {
        "speed": [3, 4, -1, 1, -2],
        "healthy": [0, 0, 0, -0.5, -0.5],
        "control": [-0.2, 0, 0, 0, 0],
        "contact": [0, -5e-4 * (6 * 0.25 + 1), 0, 0, 0],
        "success": [0, 0, 2500, 0, 0],
    }
    for name, values in wanted.items():
        np.testing.assert_allclose(result.terms[name], values, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(result.reward, np.sum(list(wanted.values()), axis=0))
    assert (
        result.terminated.tolist() == result.success.tolist() == [False, False, True, False, False]
    )
    assert not AUTHORS.result(qpos, qvel, action, forces).terms["contact"].any()


def test_contact_forces_are_mujocos_after_the_constraints() -> None:
    env, data = MujocoEnv(TASK, 4), mujoco.MjData(TASK.model)
    env.reset(KEY)
    rng, paid = np.random.default_rng(0), 0
    for _ in range(25):
        before, action = env.physics.state[2].copy(), rng.uniform(-1, 1, (4, 8))
        step = env.step(action, KEY)
        mujoco.mj_setState(TASK.model, data, before, mujoco.mjtState.mjSTATE_INTEGRATION)
        data.ctrl[:] = action[2]
        mujoco.mj_step(TASK.model, data, 10)
        mujoco.mj_rnePostConstraint(TASK.model, data)
        cost = 5e-4 * np.sum(np.clip(data.cfrc_ext, -1, 1) ** 2)
        np.testing.assert_allclose(step.terms["contact"][2], -cost, rtol=1e-6)
        paid += cost > 0
    assert paid > 3


def test_the_observation_is_the_papers() -> None:
    env = MujocoEnv(TASK, 3)
    obs = env.reset(KEY)
    assert obs.shape == (3, 31)
    np.testing.assert_allclose(obs[:, :15], env.physics.qpos, atol=1e-6)
    np.testing.assert_allclose(obs[:, 15:29], env.physics.qvel, atol=1e-6)
    np.testing.assert_array_equal(obs[:, 29:], np.tile(GOAL, (3, 1)))
    np.testing.assert_array_equal(obs[:, :2], np.tile(START, (3, 1)))


@pytest.mark.parametrize("task", [TASK, AUTHORS])
def test_ankles_start_inside_their_limits_or_as_the_authors_leave_them(task) -> None:
    env = MujocoEnv(task, 64)
    env.reset(KEY)
    low, high = task.model.jnt_range[1:].T
    hinges = env.physics.qpos[:, 7:]
    inside = (hinges >= low) & (hinges <= high)
    assert inside.all() if task is TASK else not inside[:, 1::2].any()
    np.testing.assert_allclose(np.linalg.norm(env.physics.qpos[:, 3:7], axis=1), 1)
    assert 0.05 < env.physics.qvel.std() < 0.15


def test_walls_stand_where_the_layout_says() -> None:
    """A ray from above falls on a wall's top over every wall cell, and to the floor elsewhere."""
    data = mujoco.MjData(TASK.model)
    data.qpos[:2] = [-20, -20]
    mujoco.mj_forward(TASK.model, data)
    walls = np.array([list(row) for row in TASK.settings.layout.split("\n")[:9]]) == "#"
    hit = np.zeros(1, np.int32)
    for row, column in np.ndindex(9, 9):
        for dx, dy in ((0, 0), (2.7, 2.7), (-2.7, 2.7)):
            at = np.array([5.0 * column + dx, 5.0 * (8 - row) + dy, 10.0])
            depth = mujoco.mj_ray(TASK.model, data, at, np.array([0, 0, -1.0]), None, 1, -1, hit)
            if walls[row, column]:
                assert depth == pytest.approx(5.5)
            elif dx == 0:
                assert depth > 9.9


def test_the_straight_way_is_blocked() -> None:
    """An ant thrown at the obstacle does not pass it."""
    env = MujocoEnv(TASK, 1)
    qvel = np.zeros((1, 14))
    qvel[0, 0] = 8.0
    place(env, states(np.array([[15.5, 20.0]])), qvel)
    furthest = max(env.step(np.zeros((1, 8)), KEY).next_obs[0, 0] for _ in range(20))
    assert 16 < furthest < 17.25


def test_bins_are_quarters_of_open_cells() -> None:
    grid = TASK.spec.grid
    assert grid.eligible.sum() == 46 * 4
    np.testing.assert_array_equal(grid.eligible, grid.reachable)
    np.testing.assert_array_equal(TASK.bin_of(grid.centers), np.arange(18 * 18))
    assert TASK.bin_of(np.array([[5.0, 20.0], [4.9, 20.0]])).tolist() == [
        9 * 18 - 18 + 3,
        8 * 18 + 2,
    ]


def test_a_layout_needs_a_goal() -> None:
    with pytest.raises(UserError, match="goal"):
        AntMaze(AntMazeSettings(layout="####\n#S #\n####"))


def test_a_path_around_the_wall_earns_the_bonus_once() -> None:
    """Along the way every place is free, speed is paid, and the goal ends the episode."""
    corners = np.array([START, [14, 31], [26, 31], GOAL - [1.3, 0]])
    places = np.concatenate([np.linspace(a, b, 12) for a, b in pairwise(corners)])
    env = MujocoEnv(TASK, len(places))
    qvel = np.zeros((len(places), 14))
    away = GOAL - places
    qvel[:, :2] = 2 * away / np.linalg.norm(away, axis=1, keepdims=True)
    place(env, states(places, 0.6), qvel)
    step = env.step(np.zeros((len(places), 8)), KEY)
    assert step.valid.all()
    assert (step.terms["speed"] > 0.5).all()
    assert not step.terminated[:-1].any()
    for _ in range(8):
        if step.terminated[-1]:
            break
        step = env.step(np.zeros((len(places), 8)), KEY)
    assert step.success[-1]
    assert step.reward[-1] > 2490
    np.testing.assert_array_equal(step.obs[-1, :2], START)
    assert np.linalg.norm(step.next_obs[-1, :2] - GOAL) < 1
