"""AntMaze can be solved: a trot of eight fixed numbers walks around the wall."""

import numpy as np

from devote.envs.mujoco.ant_maze import AntMaze, AntMazeSettings
from devote.envs.mujoco.batch import MujocoEnv

WORLDS = 12
KEY = np.array([3])
WAY = np.array([[13.0, 31.0], [27.0, 31.0], [35.0, 20.0]])
LEGS = np.pi / 4 + np.arange(4) * np.pi / 2  # directions from the torso
OUT, ROUND = (
    np.stack([f(LEGS), g(LEGS)], 1) for f, g in ((np.cos, np.sin), (lambda a: -np.sin(a), np.cos))
)
DOWN = np.array([1.0, -1.0, -1.0, 1.0])  # the sign of an ankle that points down
PAIRS = np.array([0.0, np.pi, 0.0, np.pi])  # legs across the body move together
MOTORS = [6, 7, 0, 1, 2, 3, 4, 5]  # leg 4 comes first


def trot(obs, towards, time):
    """Torques that follow swinging hips and lifted ankles in a direction."""
    w, x, y, z = obs[:, 3:7].T
    yaw = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    cosine, sine = np.cos(yaw)[:, None], np.sin(yaw)[:, None]
    ahead = cosine * towards + sine * np.stack([towards[:, 1], -towards[:, 0]], axis=1)
    phase = 0.7 * time + PAIRS
    wanted = np.empty((len(obs), 8))
    wanted[:, 0::2] = np.clip(0.65 * (ahead @ ROUND.T) * np.cos(phase), -0.52, 0.52)
    ankle = 0.65 + 0.21 * np.sin(phase - 0.85) - 0.22 * (ahead @ OUT.T) * np.cos(phase)
    wanted[:, 1::2] = DOWN * np.clip(ankle, 0.5, 1.25)
    torque = 3.3 * (wanted - obs[:, 7:15]) - 0.19 * obs[:, 21:29]
    return np.clip(torque, -1, 1)[:, MOTORS]


def test_a_trot_around_the_wall_earns_the_bonus() -> None:
    env = MujocoEnv(AntMaze(AntMazeSettings()), WORLDS)
    obs, corner = env.reset(KEY).astype(float), np.zeros(WORLDS, int)
    won, total = np.zeros(WORLDS, bool), np.zeros(WORLDS)
    for time in range(500):
        near = np.linalg.norm(WAY[corner] - obs[:, :2], axis=1) < 2
        corner = np.minimum(corner + near, 2)
        towards = WAY[corner] - obs[:, :2]
        step = env.step(trot(obs, towards / np.linalg.norm(towards, axis=1)[:, None], time), KEY)
        total += step.reward * ~won
        won |= step.success
        obs = step.obs.astype(float)
    assert won.mean() > 0.3  # the others fall over on the way
    assert (total[won] > 2500).all()
    assert (total[~won] < 600).all()
