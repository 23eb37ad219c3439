"""PointMaze: a point in the plane among walls, in the paper a spiral and a U."""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from devote.core.errors import UserError
from devote.core.settings import EpisodeLength, NonNegative, Positive, check_ranges
from devote.core.types import Box, EnvSpec, Outcome, Vector
from devote.envs.layout import SPIRAL, U_MAZE, Layout, parse

Collision = Literal["reject", "slide"]
NAMES = {SPIRAL: "point_maze_spiral", U_MAZE: "point_maze_u"}


@dataclass(frozen=True)
class PointMazeSettings:
    """The paper's maze; numbers that the paper does not give are those of the authors' code."""

    layout: str = SPIRAL
    """The maze as text, see `devote.envs.layout`; random:7 for one drawn with seed 7."""
    step_size: NonNegative = 0.25
    """Displacement along an axis under an action of 1."""
    episode_length: EpisodeLength = 1000
    """Steps until the time limit."""
    cell_size: NonNegative = 2.5
    """Distance of the centres of neighbouring cells."""
    wall_half_width: NonNegative = 1.375
    """Half the side of a wall's box; more than half a cell, so walls overlap."""
    ball_radius: NonNegative = 0.35
    """Least distance of the centre of the ball from a wall's box."""
    collision: Collision = "reject"
    """reject: a move into a wall is not made; slide: moves along x and y are tried in turn."""
    rewards: bool = False
    """1 for every step that ends near the goal, which is a success; or none at all."""
    goal_radius: Positive = 1.0
    """Distance from the goal that counts as near."""
    time_limit_terminates: bool = False
    """Whether the time limit terminates, as in the authors' code, instead of truncating."""
    goal_in_observation: bool = False
    """Observe x, y, 0, 0 and the goal, as in the authors' code, instead of x, y."""

    @property
    def reach(self) -> float:
        """Distance along either axis at which a wall blocks the ball, centre to centre."""
        return self.wall_half_width + self.ball_radius


def spiral() -> PointMazeSettings:
    """The spiral of the coverage experiments."""
    return PointMazeSettings(layout=SPIRAL)


def u_maze() -> PointMazeSettings:
    """The U of the plasticity experiments; its goal is sealed, and so are 4 of 284 bins."""
    return PointMazeSettings(layout=U_MAZE)


def as_authors(settings: PointMazeSettings) -> PointMazeSettings:
    """The same maze with the quirks of the authors' code."""
    return replace(settings, time_limit_terminates=True, goal_in_observation=True)


class PointMazeWorld(NamedTuple):
    """The position of the ball and the steps of the episode so far."""

    position: Float[Array, "2"]
    elapsed: Int[Array, ""]


class PointMaze:
    """Move a point among walls; episodes start in the same cell and run to their time limit."""

    def __init__(self, settings: PointMazeSettings) -> None:
        layout = parse(settings.layout)
        _check(settings, layout)
        self.settings, self._layout = settings, layout
        self._walls = layout.walls[::-1]  # rows from the bottom, like y
        self._start, self._goal = (
            None if cell is None else layout.center(cell, settings.cell_size).astype(np.float32)
            for cell in (layout.start, layout.goal)
        )
        self._constants = self._constant_observations()
        self.spec = EnvSpec(
            name=NAMES.get(settings.layout, "point_maze"),
            observation=self._space(),
            action=Box(2),
            episode_length=settings.episode_length,
            grid=layout.grid(settings.cell_size, self._observed),
            says_success=settings.rewards,
        )

    def reset(self, key: PRNGKeyArray) -> PointMazeWorld:
        """The middle of the start cell."""
        return PointMazeWorld(jnp.asarray(self._start), jnp.int32(0))

    def observe(self, world: PointMazeWorld) -> Float[Array, "observation"]:
        """The position; with `goal_in_observation` also a zero velocity and the goal."""
        return jnp.concatenate([world.position, self._constants])

    def step(
        self, world: PointMazeWorld, action: Float[Array, "2"], key: PRNGKeyArray
    ) -> tuple[PointMazeWorld, Outcome]:
        """Move by the action, as far as walls permit."""
        move = self.settings.step_size * jnp.clip(action, -1.0, 1.0)
        after = PointMazeWorld(self._moved(world.position, move), world.elapsed + 1)
        late = after.elapsed >= self.settings.episode_length
        terminated = late & self.settings.time_limit_terminates
        reward = self._reward(after.position)
        return after, Outcome(reward, terminated, success=reward > 0)

    def bin_of(self, world: PointMazeWorld) -> Int[Array, ""]:
        """The quarter of a cell that holds the ball; on an edge, the right or upper one."""
        return self._layout.bin_of(world.position, self.settings.cell_size, jnp)

    def collides(self, position: Float[Array, "2"]) -> Bool[Array, ""]:
        """Whether the ball would touch a wall there."""
        # a box reaches less than a cell: only the four walls around the point can touch it
        first = jnp.floor(position / self.settings.cell_size).astype(jnp.int32)
        near = first + jnp.array([[0, 0], [0, 1], [1, 0], [1, 1]])
        rows, columns = self._walls.shape
        near = jnp.clip(near, 0, jnp.array([columns - 1, rows - 1]))
        distance = jnp.abs(position - self.settings.cell_size * near)
        inside = jnp.all(distance <= self.settings.reach, axis=-1)
        return jnp.any(inside & jnp.asarray(self._walls)[near[:, 1], near[:, 0]])

    def _moved(self, position: Array, move: Array) -> Array:
        if self.settings.collision == "reject":
            return self._unless_wall(position, move)
        along_x = self._unless_wall(position, move * jnp.array([1.0, 0.0]))
        return self._unless_wall(along_x, move * jnp.array([0.0, 1.0]))

    def _unless_wall(self, position: Array, move: Array) -> Array:
        return jnp.where(self.collides(position + move), position, position + move)

    def _reward(self, position: Array) -> Float[Array, ""]:
        if not self.settings.rewards or self._goal is None:
            return jnp.float32(0.0)
        near = jnp.linalg.norm(position - self._goal) <= self.settings.goal_radius
        return near.astype(jnp.float32)

    def _constant_observations(self) -> np.ndarray:
        if not self.settings.goal_in_observation or self._goal is None:
            return np.zeros(0, np.float32)
        return np.concatenate([np.zeros(2, np.float32), self._goal])

    def _space(self) -> Vector:
        left, right, bottom, top = self._layout.extent(self.settings.cell_size)
        low, high = (left, bottom), (right, top)
        if not self.settings.goal_in_observation:
            return Vector(low, high)
        return Vector((*low, -1.0, -1.0, *low), (*high, 1.0, 1.0, *high))

    def _observed(self, position: np.ndarray) -> np.ndarray:
        """Observations at positions `(count, 2)`."""
        return np.concatenate([position, np.tile(self._constants, (len(position), 1))], axis=1)


def _check(settings: PointMazeSettings, layout: Layout) -> None:
    check_ranges(settings)
    if settings.collision not in get_args(Collision):
        raise UserError("collision 'reject' or 'slide'", settings.collision, "choose one of them")
    if layout.goal is None and (settings.rewards or settings.goal_in_observation):
        fix = "draw 'G', or leave rewards and goal_in_observation off"
        raise UserError("a layout with a goal", "none", fix)
    cell, longest = settings.cell_size, _longest_step(settings, layout)
    if not cell / 2 <= settings.reach < cell:
        raise UserError(
            f"wall_half_width + ball_radius from {cell / 2} (no gaps between walls) to below "
            f"{cell} (room to pass)",
            settings.reach,
            "change one of the three",
        )
    if not 0 < settings.step_size < longest:
        expected = f"a step_size above 0 and below {longest:.4g}, which could jump over a wall"
        raise UserError(expected, settings.step_size, "shorten the step")


def _longest_step(settings: PointMazeSettings, layout: Layout) -> float:
    """The shortest step that could cross a wall, or the gap where two walls meet at a corner."""
    across = 2 * settings.reach
    if settings.collision == "reject" and _corners_touch(layout.walls):
        return across - settings.cell_size
    return across


def _corners_touch(walls: np.ndarray) -> bool:
    """Whether two walls meet only at a corner, with open cells at both sides."""
    a, b, c, d = walls[:-1, :-1], walls[:-1, 1:], walls[1:, :-1], walls[1:, 1:]
    return bool(np.any((a & d & ~b & ~c) | (b & c & ~a & ~d)))
