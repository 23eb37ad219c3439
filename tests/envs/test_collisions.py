"""Collisions: against every box one by one, and no way through a wall."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from devote.core.errors import UserError
from devote.envs import SPIRAL, U_MAZE, PointMaze, PointMazeSettings, PointMazeWorld, parse, spiral

KEY = jax.random.key(0)
TOUCHING = "#####\n#S# #\n# # #\n##  #\n#####"  # two walls meet at a corner
MAZES, NAMES = [SPIRAL, U_MAZE, TOUCHING], ["spiral", "u", "touching"]


def in_wall(layout: str, points: np.ndarray, reach: float = 1.725) -> np.ndarray:
    """Whether each point lies in any expanded wall box, bounds included."""
    walls = parse(layout).walls
    inside = np.zeros(len(points), bool)
    for row, column in np.argwhere(walls):
        center = np.array([2.5 * column, 2.5 * (len(walls) - 1 - row)], np.float32)
        inside |= (np.abs(points - center) <= np.float32(reach)).all(1)
    return inside


def moved(layout: str, points: np.ndarray, moves: np.ndarray, collision: str) -> np.ndarray:
    """The slow reference for both collision rules."""
    axes = [[1, 1]] if collision == "reject" else [[1, 0], [0, 1]]
    for mask in np.array(axes, np.float32):
        candidates = points + moves * mask
        points = np.where(in_wall(layout, candidates)[:, None], points, candidates)
    return points


def free_points(layout: str, count: int, rng: np.random.Generator) -> np.ndarray:
    rows, columns = parse(layout).walls.shape
    points = rng.uniform(0, [2.5 * columns, 2.5 * rows], (4 * count, 2)).astype(np.float32)
    return points[~in_wall(layout, points)][:count]


@pytest.mark.parametrize("layout", MAZES, ids=NAMES)
def test_collisions_are_those_of_all_boxes(layout: str) -> None:
    env = PointMaze(PointMazeSettings(layout=layout))
    rng = np.random.default_rng(1)
    rows, columns = parse(layout).walls.shape
    points = rng.uniform(-3, [2.5 * columns + 1, 2.5 * rows + 1], (20_000, 2)).astype(np.float32)
    expected = in_wall(layout, points)
    assert 0.1 < expected.mean() < 0.95
    assert np.array_equal(jax.vmap(env.collides)(points), expected)


def test_the_edge_of_a_box_belongs_to_the_wall() -> None:
    env = PointMaze(replace(spiral(), ball_radius=0.375))  # reach 1.75: edges fall on the lattice
    points = 0.25 * np.indices((155, 155)).reshape(2, -1).T.astype(np.float32)
    expected = in_wall(SPIRAL, points, 1.75)
    assert (expected != in_wall(SPIRAL, points, 1.7499)).any()
    assert np.array_equal(jax.vmap(env.collides)(points), expected)


@pytest.mark.parametrize("collision", ["reject", "slide"])
@pytest.mark.parametrize("step_size", [0.25, 0.9])
@pytest.mark.parametrize("layout", MAZES, ids=NAMES)
def test_moves_are_those_of_the_slow_rule(layout: str, step_size: float, collision: str) -> None:
    settings = PointMazeSettings(layout=layout, step_size=step_size, collision=collision)
    env = PointMaze(settings)
    rng = np.random.default_rng(2)
    points = free_points(layout, 1000, rng)
    actions = rng.uniform(-1, 1, (20, len(points), 2)).astype(np.float32)
    step = jax.jit(jax.vmap(env.step, (0, 0, None)))
    worlds = PointMazeWorld(jnp.asarray(points), jnp.zeros(len(points), jnp.int32))
    blocked = 0
    for action in actions:
        expected = moved(
            layout, np.asarray(worlds.position), np.float32(step_size) * action, collision
        )
        worlds, _ = step(worlds, action, KEY)
        # A fused multiply-add may differ from two roundings in the last bit.
        np.testing.assert_allclose(worlds.position, expected, atol=1e-5)
        blocked += (worlds.position == points).any(1).sum()
        points = np.asarray(worlds.position)
    assert blocked > 50


def test_sliding_goes_on_along_a_wall_where_rejection_stops() -> None:
    below_wall = PointMazeWorld(jnp.array([17.5, 20.75]), jnp.int32(0))
    action = jnp.array([1.0, 1.0])
    rejecting, sliding = PointMaze(spiral()), PointMaze(replace(spiral(), collision="slide"))
    assert rejecting.step(below_wall, action, KEY)[0].position.tolist() == [17.5, 20.75]
    assert sliding.step(below_wall, action, KEY)[0].position.tolist() == [17.75, 20.75]


def test_free_space_starts_0475_inside_an_open_cell() -> None:
    env = PointMaze(spiral())
    left_edge = 17.5 - 1.25  # of the start cell, with a wall to its left
    assert env.collides(jnp.array([left_edge + 0.474, 20.0]))
    assert not env.collides(jnp.array([left_edge + 0.476, 20.0]))


def random_maze(seed: int) -> str:
    cells = np.full((9, 9), "#")
    cells[1:-1, 1:-1] = np.where(np.random.default_rng(seed).random((7, 7)) < 0.4, "#", " ")
    cells[4, 4] = "S"
    return "\n".join("".join(row) for row in cells)


@pytest.mark.parametrize("collision", ["reject", "slide"])
@pytest.mark.parametrize("layout", [*MAZES, *map(random_maze, range(2))], ids=[*NAMES, *"12"])
def test_no_permitted_step_jumps_a_wall(layout: str, collision: str) -> None:
    settings = PointMazeSettings(layout=layout, collision=collision)
    env = PointMaze(replace(settings, step_size=0.999 * longest_step(settings)))

    def walk(key):
        actions = jax.random.uniform(key, (300, 2), minval=-1.5, maxval=1.5)
        step = lambda now, action: (env.step(now, action, KEY)[0],) * 2  # noqa: E731
        return jax.vmap(env.bin_of)(jax.lax.scan(step, env.reset(KEY), actions)[1])

    visited = np.unique(jax.jit(jax.vmap(walk))(jax.random.split(KEY, 500)))
    assert env.spec.grid.reachable[visited].all()


def longest_step(settings: PointMazeSettings) -> float:
    """Read off the refusal."""
    with pytest.raises(UserError, match="jump over a wall") as refusal:
        PointMaze(replace(settings, step_size=100.0))
    return float(str(refusal.value).split("below ")[1].split(",")[0])


@pytest.mark.parametrize(
    ("layout", "collision", "longest", "here", "there"),
    [
        (SPIRAL, "reject", 3.45, (13.27, 17.5), (16.73, 17.5)),
        (TOUCHING, "slide", 3.45, (3.27, 7.5), (6.73, 7.5)),
        (TOUCHING, "reject", 0.95, (3.27, 4.23), (4.23, 3.27)),
    ],
)
def test_steps_that_could_jump_a_wall_are_refused(layout, collision, longest, here, there) -> None:
    settings = PointMazeSettings(layout=layout, collision=collision)
    assert longest_step(settings) == longest
    with pytest.raises(UserError, match="shorten the step"):
        PointMaze(replace(settings, step_size=longest + 1e-6))
    # The bound is tight: two free points a little farther apart, on both sides of a wall.
    env = PointMaze(settings)
    assert not env.collides(jnp.array(here))
    assert not env.collides(jnp.array(there))
    assert env.collides((jnp.array(here) + jnp.array(there)) / 2)
    assert np.abs(np.subtract(here, there)).max() == pytest.approx(longest, abs=0.011)
