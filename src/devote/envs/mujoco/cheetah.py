"""Cheetah: a planar runner, dm_control's cheetah with an action repeat of two."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from devote.core.settings import EpisodeLength, Few
from devote.core.types import Box, EnvSpec, Vector
from devote.envs.bins import BoxBins
from devote.envs.mujoco.batch import Physics, StepResult, asset, load

RUN_SPEED = 10.0  # metres per second from which the reward is full
SETTLING = 200  # time steps of falling into place before an episode, as in dm_control
BINS = BoxBins(low=(-5.0, -2.0), high=(10.0, 4.0), bins=(25, 25), labels=("vx", "vz"))
VELOCITY = slice(8, 10)  # of the torso in an observation: forward, up
REACH = np.array([1.0, np.pi] + 6 * [2.0] + [10.0, 5.0, 10.0] + 6 * [20.0])


@dataclass(frozen=True)
class CheetahSettings:
    """The paper's Cheetah, without rewards; numbers that it does not give are the authors'."""

    rewards: bool = False
    """dm_control's reward for running, or none at all."""
    action_repeat: Few = 2
    """Time steps of 0.01 s per action; rewards are summed."""
    episode_length: EpisodeLength = 500
    """Actions until the time limit."""


class Cheetah:
    """Run: positions without x, then velocities, are observed."""

    def __init__(self, settings: CheetahSettings) -> None:
        self.settings = settings
        self.model = load(asset("cheetah.xml"))
        self.step_time = settings.action_repeat * self.model.opt.timestep
        self.spec = EnvSpec(
            name="cheetah",
            observation=Vector(tuple((-REACH).tolist()), tuple(REACH.tolist())),
            action=Box(6),
            episode_length=settings.episode_length,
            grid=replace(BINS.grid(), bin_of=lambda obs, xp: BINS.of(obs[..., VELOCITY], xp)),
        )
        self._turns, self._levers = _levers(self.model)

    def start(self, physics: Physics, rows: np.ndarray, rng: np.random.Generator) -> None:
        """Random limb angles, then two seconds to settle."""
        low, high = self.model.jnt_range[3:].T
        # dm_control draws limbs after it has computed the forces of the first time step.
        physics.advance(1, rows)
        physics.qpos[rows, 3:] += rng.uniform(low, high, (len(physics.qpos), 6))[rows]
        physics.advance(SETTLING - 1, rows)

    def act(self, physics: Physics, action: np.ndarray) -> StepResult:
        """Repeat the action, rewarding the speed after every time step."""
        physics.ctrl[:] = action
        qpos, qvel = physics.trace(self.settings.action_repeat)
        reward = np.zeros(len(action))
        if self.settings.rewards:
            reward = self.reward(qpos, qvel).sum(axis=1)
        never = np.zeros(len(action), bool)
        return StepResult(reward, never, never, {})

    def observe(self, physics: Physics) -> np.ndarray:
        """Eight positions and nine velocities."""
        return np.concatenate([physics.qpos[:, 1:], physics.qvel], axis=1)

    def bin_of(self, obs: np.ndarray) -> np.ndarray:
        """Bins of the torso's velocity."""
        return BINS.of(obs[..., VELOCITY])

    def reward(self, qpos: np.ndarray, qvel: np.ndarray) -> np.ndarray:
        """dm_control's: the share of full speed that is reached."""
        return np.minimum(np.maximum(self.speed(qpos, qvel) / RUN_SPEED, 0.0), 1.0)

    def speed(self, qpos: np.ndarray, qvel: np.ndarray) -> np.ndarray:
        """Forward velocity of the centre of mass.

        MuJoCo's sensor would give it as it was before the step, or cost another pass.
        """
        angle, turning = qpos @ self._turns, qvel @ self._turns
        across = np.cos(angle) * self._levers[:, 1] - np.sin(angle) * self._levers[:, 0]
        return qvel[..., 0] + np.sum(turning * across, axis=-1)


def _levers(model: Any) -> tuple[np.ndarray, np.ndarray]:
    """Which joints turn each limb, and how far (x, z) each limb carries the centre of mass."""
    turns, levers = np.zeros((model.nq, model.nbody)), np.zeros((model.nbody, 2))
    for body in range(model.nbody - 1, 0, -1):
        levers[body] += model.body_mass[body] * model.body_ipos[body, [0, 2]]
        parent = model.body_parentid[body]
        if parent:
            levers[parent] += model.body_subtreemass[body] * model.body_pos[body, [0, 2]]
    for body in range(1, model.nbody):
        turns[:, body] = turns[:, model.body_parentid[body]]
        turns[model.body_jntadr[body] + model.body_jntnum[body] - 1, body] = 1.0
    return turns[:, 1:], levers[1:] / model.body_subtreemass[0]
