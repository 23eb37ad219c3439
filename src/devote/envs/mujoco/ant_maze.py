"""AntMaze: walk to a goal behind a wall; the reward for speed leads straight into the wall."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from devote.core.errors import UserError
from devote.core.settings import EpisodeLength, NonNegative
from devote.core.types import Box, EnvSpec, Vector
from devote.envs.layout import Cell, Layout, parse
from devote.envs.mujoco.batch import Physics, StepResult, asset, engine

SUBSTEPS = 10  # of 0.005 s per decision
CELL = 5.0
WALL_HALF_WIDTH, WALL_HALF_HEIGHT = 2.75, 2.25
HEALTHY = (0.15, 1.2)  # heights of the torso
GOAL_RADIUS = 1.0
CONTROL_COST, UNHEALTHY_COST, SUCCESS = 0.1, 0.5, 2500.0
BENT = np.array([0.0, 1.0, 0.0, -1.0, 0.0, -1.0, 0.0, 1.0])  # hip, ankle, ...: Brax's posture
TERMS = ("speed", "healthy", "control", "contact", "success")

MAZE = """\
#########
#       #
#       #
#   #   #
#S  #  G#
#   #   #
#       #
#       #
#########
"""


@dataclass(frozen=True)
class AntMazeSettings:
    """The paper's AntMaze; numbers that it does not give are those of the authors' code."""

    layout: str = MAZE
    """The maze as text, see `devote.envs.layout`; random:7 for one drawn with seed 7."""
    episode_length: EpisodeLength = 500
    """Decisions of 0.05 s until the time limit."""
    contact_cost: NonNegative = 5e-4
    """Cost of each squared external force, forces clipped to 1; 0 in the authors' runs."""
    bent_ankles: bool = True
    """Start with ankles inside their limits; the authors' straight legs are outside."""
    start_noise: NonNegative = 0.1
    """Standard deviation of the noise on the initial posture and velocities."""


def as_authors(settings: AntMazeSettings) -> AntMazeSettings:
    """Without contact forces, which their simulator never computes, and with straight legs."""
    return replace(settings, contact_cost=0.0, bent_ankles=False)


class AntMaze:
    """An ant among walls: 15 positions, 14 velocities and the goal are observed."""

    def __init__(self, settings: AntMazeSettings) -> None:
        layout = parse(settings.layout)
        if layout.goal is None:
            raise UserError("a layout with a goal", "none", "draw 'G' into an open cell")
        self.settings = settings
        self._layout = layout
        self._goal = layout.center(layout.goal, CELL)
        self._start = layout.center(layout.start, CELL)
        self.model = _model(layout, self._goal, forces=settings.contact_cost > 0)
        self.step_time = SUBSTEPS * self.model.opt.timestep
        self._posture = self.model.qpos0.copy()
        self._posture[:2] = self._start
        self._posture[7:] = BENT if settings.bent_ankles else 0.0
        self.spec = EnvSpec(
            name="ant_maze",
            observation=self._space(),
            action=Box(8),
            episode_length=settings.episode_length,
            grid=layout.grid(CELL, self._at_rest),
            terms=TERMS,
            says_success=True,
        )

    def start(self, physics: Physics, rows: np.ndarray, rng: np.random.Generator) -> None:
        """A noisy posture above the start cell's centre."""
        count, size = len(physics.qpos), self.model.nq + self.model.nv
        noise = self.settings.start_noise * rng.standard_normal((count, size))[rows]
        qpos = self._posture + noise[:, : self.model.nq]
        qpos[:, :2] = self._start
        qpos[:, 3:7] /= np.linalg.norm(qpos[:, 3:7], axis=1, keepdims=True)
        if self.settings.bent_ankles:
            qpos[:, 7:] = np.clip(qpos[:, 7:], *self.model.jnt_range[1:].T)
        physics.qpos[rows] = qpos
        physics.qvel[rows] = noise[:, self.model.nq :]

    def act(self, physics: Physics, action: np.ndarray) -> StepResult:
        """Apply torques for 0.05 s."""
        physics.ctrl[:] = action
        forces = physics.output("cfrc_ext")
        physics.advance(SUBSTEPS)
        return self.result(physics.qpos, physics.qvel, action, forces)

    def result(
        self, qpos: np.ndarray, qvel: np.ndarray, action: np.ndarray, forces: np.ndarray
    ) -> StepResult:
        """The reward of arriving in a state; `forces` are those on each body."""
        price = self.settings.contact_cost
        away = self._goal - qpos[:, :2]
        distance = np.linalg.norm(away, axis=1)
        healthy = (qpos[:, 2] >= HEALTHY[0]) & (qpos[:, 2] <= HEALTHY[1])
        success = distance < GOAL_RADIUS
        terms = {
            "speed": np.sum(qvel[:, :2] * away, axis=1) / np.maximum(distance, 1e-6),
            "healthy": -UNHEALTHY_COST * ~healthy,
            "control": -CONTROL_COST * np.sum(action**2, axis=1),
            "contact": np.zeros(len(qpos)),
            "success": SUCCESS * success,
        }
        if price > 0:
            terms["contact"] = -price * np.sum(np.clip(forces, -1, 1) ** 2, axis=(1, 2))
        return StepResult(sum(terms.values(), np.zeros(len(qpos))), success, success, terms)

    def observe(self, physics: Physics) -> np.ndarray:
        """Positions (x, y, z, quaternion, hip and ankle of each leg), velocities, goal."""
        return self._observed(physics.qpos, physics.qvel)

    def bin_of(self, obs: np.ndarray) -> np.ndarray:
        """The quarter of a cell that holds the torso; on an edge, the right or upper one."""
        return self._layout.bin_of(obs[..., :2], CELL, np)

    def _observed(self, qpos: np.ndarray, qvel: np.ndarray) -> np.ndarray:
        goal = np.broadcast_to(self._goal, (len(qpos), 2))
        return np.concatenate([qpos, qvel, goal], axis=1)

    def _space(self) -> Vector:
        left, right, bottom, top = self._layout.extent(CELL)
        reach = np.array([1.0] * 4 + [0.6, 1.3] * 4 + [5.0] * 3 + [10.0] * 11)
        low = np.concatenate([[left, bottom, 0.0], -reach, [left, bottom]])
        high = np.concatenate([[right, top, 1.5], reach, [right, top]])
        return Vector(tuple(low.tolist()), tuple(high.tolist()))

    def _at_rest(self, position: np.ndarray) -> np.ndarray:
        """Observations of an ant at rest at positions `(count, 2)`."""
        posture = np.tile(self._posture, (len(position), 1))
        posture[:, :2] = position
        return self._observed(posture, np.zeros((len(position), self.model.nv)))


def _model(layout: Layout, goal: np.ndarray, forces: bool) -> Any:
    """The ant between walls; external forces are computed only if they cost anything."""
    mujoco = engine()
    spec = mujoco.MjSpec.from_string(asset("ant.xml"))
    world = spec.worldbody
    for first, last in _runs(layout.walls):
        ends = np.stack([layout.center(cell, CELL) for cell in (first, last)])
        half = np.abs(ends[1] - ends[0]) / 2 + WALL_HALF_WIDTH
        world.add_geom(
            type=mujoco.mjtGeom.mjGEOM_BOX,
            pos=[*ends.mean(axis=0), WALL_HALF_HEIGHT],
            size=[*half, WALL_HALF_HEIGHT],
            rgba=[0.35, 0.45, 0.6, 1],
        )
    world.add_geom(
        type=mujoco.mjtGeom.mjGEOM_CYLINDER,
        pos=[*goal, 0.03],
        size=[1.0, 0.03, 0],
        rgba=[0.2, 0.75, 0.3, 0.8],
        contype=0,
        conaffinity=0,
    )
    middle = layout.center((0, layout.walls.shape[1] - 1), CELL) / 2
    spec.geom("floor").pos = [*middle, 0]
    world.add_camera(name="view", pos=[middle[0], middle[1], 60], fovy=45)
    if not forces:
        spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_SENSOR
    return spec.compile()


def _runs(walls: np.ndarray) -> list[tuple[Cell, Cell]]:
    """First and last cells of straight walls that together cover all wall cells.

    A few long boxes collide faster than one box per cell.
    """
    along = _row_runs(walls, shortest=2)
    rest = walls.copy()
    for (row, first), (_, last) in along:
        rest[row, first : last + 1] = False
    down = [((a, column), (b, column)) for (column, a), (_, b) in _row_runs(rest.T, shortest=1)]
    return along + down


def _row_runs(walls: np.ndarray, shortest: int) -> list[tuple[Cell, Cell]]:
    rows, edges = np.nonzero(np.diff(np.pad(walls, ((0, 0), (1, 1))).astype(int)))
    found = zip(rows[::2].tolist(), edges.reshape(-1, 2).tolist(), strict=True)
    return [((row, a), (row, b - 1)) for row, (a, b) in found if b - a >= shortest]
