"""Worlds put where a test wants them."""

import numpy as np

from devote.envs.mujoco.batch import MujocoEnv


def place(
    env: MujocoEnv, qpos: np.ndarray, qvel: np.ndarray, ctrl: np.ndarray | float = 0.0
) -> np.ndarray:
    """Start episodes from given positions, velocities and last commands, a row per world."""
    physics = env.physics
    physics.restart(np.arange(env.num_envs))
    physics.qpos[:], physics.qvel[:], physics.ctrl[:] = qpos, qvel, ctrl
    physics.time[:] = env.task.step_time
    env.restore(env.save() | {"elapsed": np.zeros(env.num_envs, np.int64)})
    return env.task.observe(physics).astype(np.float32)
