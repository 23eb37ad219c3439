"""Cartpole: swing a pole up with a cart, dm_control's task with an action repeat of two."""

from dataclasses import dataclass, replace

import numpy as np

from devote.core.settings import EpisodeLength, Few
from devote.core.types import Box, EnvSpec, Vector
from devote.envs.bins import BoxBins
from devote.envs.mujoco.batch import Physics, StepResult, asset, load

NOISE = 0.01  # standard deviation around the hanging pole, positions and velocities
CENTRE = 0.25  # the sparse reward wants the cart at most this far from the middle
UPRIGHT = 0.995  # and the cosine of the pole at least this
BINS = BoxBins((-1.8, -np.pi), (1.8, np.pi), (25, 25), labels=("x", "angle"))
REACH = (1.8, 1.0, 1.0, 10.0, 15.0)


@dataclass(frozen=True)
class CartpoleSettings:
    """The swing-up of the paper's policy evaluation; other numbers are the authors'."""

    sparse: bool = False
    """Reward only the balanced pole in the middle of the rail (the authors' choice)."""
    rewards: bool = True
    """dm_control's reward, or none at all."""
    action_repeat: Few = 2
    """Time steps of 0.01 s per action; rewards are summed."""
    episode_length: EpisodeLength = 500
    """Actions until the time limit."""


def as_authors(settings: CartpoleSettings) -> CartpoleSettings:
    """The sparse reward, which the authors' code uses where the paper says swing-up."""
    return replace(settings, sparse=True)


class Cartpole:
    """Swing up and balance; the pole's angle is observed by its cosine and sine."""

    def __init__(self, settings: CartpoleSettings) -> None:
        self.settings = settings
        self.model = load(asset("cartpole.xml"))
        self.step_time = settings.action_repeat * self.model.opt.timestep
        self.spec = EnvSpec(
            name="cartpole_swingup_sparse" if settings.sparse else "cartpole_swingup",
            observation=Vector(tuple(-entry for entry in REACH), REACH),
            action=Box(1),
            episode_length=settings.episode_length,
            grid=BINS.grid(),
        )

    def start(self, physics: Physics, rows: np.ndarray, rng: np.random.Generator) -> None:
        """A cart near the middle, its pole hanging, both nearly at rest."""
        noise = NOISE * rng.standard_normal((len(physics.qpos), 4))[rows]
        physics.qpos[rows] = noise[:, :2] + [0.0, np.pi]
        physics.qvel[rows] = noise[:, 2:]

    def act(self, physics: Physics, action: np.ndarray) -> StepResult:
        """Repeat the action, rewarding the state after every time step."""
        physics.ctrl[:] = action
        qpos, qvel = physics.trace(self.settings.action_repeat)
        reward = np.zeros(len(action))
        if self.settings.rewards:
            reward = self.reward(qpos, qvel, action).sum(axis=1)
        never = np.zeros(len(action), bool)
        return StepResult(reward, never, never, {})

    def observe(self, physics: Physics) -> np.ndarray:
        """Cart position, cosine and sine of the pole (up is 0), and both velocities."""
        position, angle = physics.qpos.T
        seen = np.stack([position, np.cos(angle), np.sin(angle)], axis=1)
        return np.concatenate([seen, physics.qvel], axis=1)

    def bin_of(self, obs: np.ndarray) -> np.ndarray:
        """Bins of cart position and pole angle."""
        angle = np.arctan2(obs[..., 2], obs[..., 1])
        return BINS.of(np.stack([obs[..., 0], angle], axis=-1))

    def reward(self, qpos: np.ndarray, qvel: np.ndarray, action: np.ndarray) -> np.ndarray:
        """dm_control's reward, dense or sparse, at states `(worlds, steps, 2)` under one action."""
        position, cosine = qpos[..., 0], np.cos(qpos[..., 1])
        if self.settings.sparse:
            return ((np.abs(position) <= CENTRE) & (cosine >= UPRIGHT)).astype(float)
        upright = (cosine + 1) / 2
        centered = (1 + _nearness(position, 2.0)) / 2
        small_control = (4 + np.maximum(1 - action**2, 0)) / 5
        small_velocity = (1 + _nearness(qvel[..., 1], 5.0)) / 2
        return upright * small_control * small_velocity * centered


def _nearness(value: np.ndarray, margin: float) -> np.ndarray:
    """A bell curve: 1 at zero, 0.1 at the margin."""
    return 0.1 ** ((value / margin) ** 2)
