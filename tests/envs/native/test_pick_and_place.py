"""PickAndPlace: rewards at states computed by hand, the grasp, and a script that solves it."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest
from placing import place

from devote.envs.mujoco import pick_and_place as panda
from devote.envs.mujoco.batch import MujocoEnv
from devote.envs.mujoco.pick_and_place import (
    AUTHORS_START,
    CUBE,
    GOAL,
    GRASP,
    PickAndPlace,
    PickAndPlaceSettings,
    as_authors,
)

KEY = np.array([3])
TASK = PickAndPlace(PickAndPlaceSettings())


def states(cubes):
    """The arm at the grasp, cubes elsewhere."""
    qpos = np.tile(TASK.model.qpos0, (len(cubes), 1))
    qpos[:, :7], qpos[:, 7:9], qpos[:, 9:12] = GRASP, 0.028, cubes
    return qpos


def test_kinematics_are_the_models() -> None:
    data, rng = mujoco.MjData(TASK.model), np.random.default_rng(0)
    low, high = TASK.model.jnt_range[:9].T
    for _ in range(20):
        q = rng.uniform(low, high)
        data.qpos[:9] = q
        mujoco.mj_kinematics(TASK.model, data)
        middle = (data.body("left_finger").xpos + data.body("right_finger").xpos) / 2
        hand = panda.hand(q[None, :7])
        np.testing.assert_allclose(hand.position[0], data.body("hand").xpos, atol=1e-8)
        turned = data.body("hand").xmat.reshape(3, 3)
        np.testing.assert_allclose(hand.side[0], turned[:, 1], atol=1e-7)
        np.testing.assert_allclose(hand.forward[0], turned[:, 2], atol=1e-7)
        np.testing.assert_allclose(panda.grip(q[None, :7], q[None, 7:])[0], middle, atol=1e-8)


def test_rewards_by_hand() -> None:
    up = np.array([0.0, 0.0, 1.0])
    cubes = np.array([CUBE, [0, 0.5, 0.03], [0, 0.5, 0.01], CUBE + 0.08 * up, GOAL + 0.049 * up])
    action = np.zeros((5, 8))
    action[1] = 1.0
    action[3, 0] = -0.5
    result = TASK.result(states(cubes), action)
    lift = [2 * 0.04 / 0.12 - 1, -1, -1, 1, 1]
    held = [0, -0.5, -0.5, 0, -0.5]
    control = [0, -0.8, 0, -0.025, 0]
    success = [0, 0, 0, 0, 1250]
    for name, wanted in zip(TASK.spec.terms, (lift, held, control, success), strict=True):
        np.testing.assert_allclose(result.terms[name], wanted, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(result.reward, np.sum([lift, held, control, success], axis=0))
    assert result.success.tolist() == result.terminated.tolist() == [False] * 4 + [True]


def test_a_cube_just_off_the_goal_or_the_grip_does_not_count() -> None:
    aside = np.array([1.0, 0.0, 0.0])
    grip = panda.grip(np.array([GRASP]), np.full((1, 2), 0.028))[0]
    cubes = np.array([GOAL + 0.0501 * aside, grip + 0.1199 * aside, grip + 0.1201 * aside])
    result = TASK.result(states(cubes), np.zeros((3, 8)))
    assert not result.success.any()
    assert result.terms["held"].tolist() == [-0.5, 0, -0.5]


def test_the_observation_is_the_papers() -> None:
    env = MujocoEnv(TASK, 2)
    obs, qpos, qvel = env.reset(KEY), env.physics.qpos, env.physics.qvel
    data = mujoco.MjData(TASK.model)
    data.qpos[:] = qpos[1]
    mujoco.mj_kinematics(TASK.model, data)
    hand = data.body("hand").xpos
    parts = [qpos[1, :7], qvel[1, :7], hand, qpos[1, 7:9], qvel[1, 7:9], qpos[1, 9:12], GOAL]
    np.testing.assert_allclose(obs[1], np.concatenate(parts), atol=1e-6)
    assert np.abs(obs[:, 21:24] - CUBE).max() <= 0.0011


def test_starts_hold_the_cube_and_the_authors_lose_it() -> None:
    """Sixty decisions without moving: three seconds."""
    still = np.tile([0.0] * 7 + [-1.0], (8, 1))
    distance = {}
    for settings in (TASK.settings, replace(TASK.settings, true_grasp=False)):
        env = MujocoEnv(PickAndPlace(settings), 8)
        env.reset(KEY)
        for _ in range(60):
            obs = env.step(still, KEY).obs
        cubes, fingers = obs[:, 21:24], obs[:, 17:19]
        distance[settings.true_grasp] = np.linalg.norm(
            panda.grip(obs[:, :7], fingers) - cubes, axis=1
        )
    assert (distance[True] < 0.07).all()
    assert (distance[False] > 0.12).mean() > 0.5


def test_gains_hold_an_angle_and_the_authors_do_not() -> None:
    moved = {}
    for settings in (TASK.settings, replace(TASK.settings, holding_gains=False)):
        env = MujocoEnv(PickAndPlace(settings), 1)
        start = env.reset(KEY)[0, :7]
        for _ in range(10):
            obs = env.step(np.zeros((1, 8)), KEY).obs
        moved[settings.holding_gains] = np.abs(obs[0, :7] - start).max()
    assert moved[True] < 0.05 < 0.5 < moved[False]


def test_the_authors_values_are_named() -> None:
    task = PickAndPlace(as_authors(PickAndPlaceSettings()))
    np.testing.assert_array_equal(
        task.model.actuator_gainprm[:7, 0], [4500] * 2 + [2000] * 2 + [1000] * 3
    )
    np.testing.assert_array_equal(
        task.model.actuator_biasprm[:7, 1], [-4500] * 2 + [-3500] * 2 + [-2000] * 3
    )
    grip = panda.grip(np.array([AUTHORS_START]), np.full((1, 2), 0.028))[0]
    np.testing.assert_allclose(grip, CUBE, atol=2e-4)


def test_bins_count_the_held_cube_only() -> None:
    env = MujocoEnv(TASK, 2)
    cubes = CUBE + np.array([[0.0, 0.01, 0.0], [0.2, 0.01, 0.0]])
    obs = place(env, states(cubes), np.zeros((2, TASK.model.nv)))
    x, y, z = int(24 * 0.3 / 1.1), int(24 * 0.31 / 0.6), int(24 * 0.02 / 0.4)
    assert env.bin_of(obs).tolist() == [(x * 24 + y) * 24 + z, -1]


def carry(obs):
    """Move the grip by resolved rates: lift the cube, then take it to the goal."""
    angles, fingers, cube = (
        obs[:, part].astype(float) for part in (slice(7), slice(17, 19), slice(21, 24))
    )
    lifted = (cube[:, 2:] > 0.15) | (cube[:, :1] > -0.1)
    way = np.where(lifted, GOAL, CUBE * [1, 1, 0] + [0, 0, 0.2]) - cube
    way *= np.minimum(1, 0.05 / np.linalg.norm(way, axis=1, keepdims=True))
    ahead, back = (
        panda.grip((angles[:, None] + d * np.eye(7)).reshape(-1, 7), np.repeat(fingers, 7, 0))
        for d in (1e-4, -1e-4)
    )
    slopes = (ahead - back).reshape(-1, 7, 3) / 2e-4
    damped = slopes.swapaxes(1, 2) @ slopes + 1e-3 * np.eye(3)
    turn = (slopes @ np.linalg.solve(damped, way[:, :, None]))[:, :, 0]
    return np.concatenate([np.clip(turn / 0.05, -1, 1), -np.ones((len(obs), 1))], axis=1)


@pytest.fixture(scope="module")
def solved():
    """Steps and returns of the script in 8 worlds."""
    env = MujocoEnv(TASK, 8)
    obs, total, length = env.reset(KEY), np.zeros(8), np.zeros(8, int)
    under_way = np.ones(8, bool)
    while under_way.any() and length.max() < 250:
        step = env.step(carry(obs), KEY)
        total += step.reward * under_way
        length += under_way
        under_way &= ~step.terminated
        obs = step.obs
    return ~under_way, total, length


def test_a_script_solves_it(solved) -> None:
    success, total, length = solved
    assert success.all()
    assert (length < 80).all()
    assert (total > 1200).all()
