"""PointMaze: the numbers of the authors' code, bins, rewards and time."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from devote.core.errors import UserError
from devote.core.types import Box, Env, Grid, Vector
from devote.envs import (
    SPIRAL,
    U_MAZE,
    PointMaze,
    PointMazeSettings,
    PointMazeWorld,
    as_authors,
    spiral,
    u_maze,
)

KEY = jax.random.key(0)
NO_GOAL = "####\n#S #\n####"


def world(x: float, y: float) -> PointMazeWorld:
    return PointMazeWorld(jnp.array([x, y], jnp.float32), jnp.int32(0))


def grid_of(settings: PointMazeSettings) -> Grid:
    grid = PointMaze(settings).spec.grid
    assert grid is not None
    return grid


@pytest.mark.parametrize(
    ("settings", "start", "goal", "bins", "reachable"),
    [
        (spiral(), (17.5, 20.0), (35.0, 35.0), 592, 592),
        (u_maze(), (17.5, 32.5), (17.5, 2.5), 284, 280),
    ],
)
def test_mazes_are_the_authors(settings, start, goal, bins, reachable) -> None:
    env: Env = PointMaze(settings)
    grid = env.spec.grid
    assert grid is not None
    assert env.reset(KEY).position.tolist() == list(start)
    assert (grid.eligible.sum(), grid.reachable.sum()) == (bins, reachable)
    assert not (grid.reachable & ~grid.eligible).any()
    assert env.spec.episode_length == 1000
    assert env.spec.action == Box(2)
    authors = PointMaze(as_authors(settings))
    assert authors.observe(authors.reset(KEY)).tolist() == [*start, 0, 0, *goal]
    assert authors.spec.observation.size == 6


def lattice_steps(layout: str) -> np.ndarray:
    """Fewest steps of 0.25 from the start to every bin, by breadth-first search; -1 for never."""
    env = PointMaze(PointMazeSettings(layout=layout))
    rows, columns = env.spec.grid.shape
    points = 0.25 * np.indices((5 * columns, 5 * rows)).reshape(2, -1).T.astype(np.float32)
    free = ~np.asarray(jax.jit(jax.vmap(env.collides))(points)).reshape(5 * columns, 5 * rows)
    bins = jax.jit(jax.vmap(lambda p: env.bin_of(world(*p))))(points)
    steps = np.full(rows * columns, -1)
    reached = np.zeros_like(free)
    reached[tuple((env.reset(KEY).position / 0.25).astype(int))] = True
    count, before = 0, np.zeros_like(free)
    while (reached != before).any():
        here = np.unique(np.asarray(bins)[reached.ravel()])
        steps[here[steps[here] < 0]] = count
        before, count = reached, count + 1
        wide = reached | np.roll(reached, 1, 0) | np.roll(reached, -1, 0)
        reached = free & (wide | np.roll(wide, 1, 1) | np.roll(wide, -1, 1))
    return steps


def test_bins_of_the_spiral_are_up_to_594_steps_away() -> None:
    steps = lattice_steps(SPIRAL)
    assert np.array_equal(steps >= 0, grid_of(spiral()).reachable)
    assert steps.max() == 594
    within = [((steps >= 0) & (steps <= limit)).sum() for limit in (100, 200, 300, 400, 500)]
    assert within == [128, 220, 328, 420, 516]


def test_bins_of_the_u_are_up_to_154_steps_away() -> None:
    steps = lattice_steps(U_MAZE)
    assert np.array_equal(steps >= 0, grid_of(u_maze()).reachable)
    assert steps.max() == 154


@pytest.mark.parametrize("settings", [spiral(), u_maze(), as_authors(spiral())])
def test_bins_agree_with_positions(settings: PointMazeSettings) -> None:
    env, grid = PointMaze(settings), grid_of(settings)
    bin_of = jax.jit(jax.vmap(lambda x, y: env.bin_of(world(x, y))))
    for dx, dy in [(0, 0), (0.62, 0.62), (-0.62, 0.62), (0.62, -0.62), (-0.62, -0.62)]:
        bins = bin_of(grid.centers[:, 0] + dx, grid.centers[:, 1] + dy)
        assert np.array_equal(bins, np.arange(grid.size))
    left, right, bottom, top = grid.extent
    assert grid.centers[0, :2].tolist() == [left + 0.625, top - 0.625]
    assert grid.centers[-1, :2].tolist() == [right - 0.625, bottom + 0.625]
    assert grid.centers.shape == (grid.size, env.spec.observation.size)
    seen = env.observe(world(*grid.centers[5, :2]))
    assert np.array_equal(seen, grid.centers[5])
    assert env.bin_of(world(1e3, -1e3)) == grid.size - 1


def test_observations_stay_in_their_space() -> None:
    for settings in (spiral(), as_authors(u_maze())):
        env = PointMaze(settings)
        space, grid = env.spec.observation, grid_of(settings)
        assert isinstance(space, Vector)
        assert (np.array(space.low) < np.array(space.high)).all()
        assert (grid.centers >= np.array(space.low)).all()
        assert (grid.centers <= np.array(space.high)).all()
        assert env.observe(env.reset(KEY)).shape == (space.size,)


def test_resets_ignore_the_key_and_long_actions_are_cut() -> None:
    env = PointMaze(spiral())
    first, second = (env.reset(jax.random.key(seed)) for seed in (0, 1))
    assert np.array_equal(first.position, second.position)
    after, _ = env.step(first, jnp.array([7.0, -0.5]), KEY)
    assert after.position.tolist() == [17.75, 19.875]


def test_rewards_are_for_nearness_to_the_goal_only() -> None:
    reward = {}
    for rewards in (True, False):
        env = PointMaze(replace(spiral(), rewards=rewards))
        near, far = world(35.0, 34.0), world(35.0, 33.75)
        still = jnp.zeros(2)
        reward[rewards] = [float(env.step(w, still, KEY)[1].reward) for w in (near, far)]
        assert not env.step(near, still, KEY)[1].terminated
    assert reward == {True: [1.0, 0.0], False: [0.0, 0.0]}


@pytest.mark.parametrize("rewards", [True, False])
def test_the_goal_is_a_success_where_it_is_rewarded(rewards) -> None:
    env = PointMaze(replace(spiral(), rewards=rewards))
    near, far = (env.step(world(35.0, y), jnp.zeros(2), KEY)[1] for y in (34.0, 33.75))
    assert env.spec.says_success == rewards
    assert (bool(near.success), bool(far.success)) == (rewards, False)


def test_time_ends_an_episode_only_as_a_quirk() -> None:
    settings = replace(spiral(), episode_length=3)
    for env, expected in [
        (PointMaze(settings), [False] * 3),
        (PointMaze(as_authors(settings)), [False, False, True]),
    ]:
        now, ended = env.reset(KEY), []
        for _ in range(3):
            now, outcome = env.step(now, jnp.zeros(2), KEY)
            ended.append(bool(outcome.terminated))
        assert ended == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (PointMazeSettings(collision="bounce"), "'reject' or 'slide'"),  # type: ignore[arg-type]
        (PointMazeSettings(step_size=0.0), "step_size"),
        (PointMazeSettings(step_size=float("nan")), "step_size"),
        (PointMazeSettings(episode_length=0), "episode_length"),
        (PointMazeSettings(goal_radius=0.0), "goal_radius"),
        (PointMazeSettings(ball_radius=1.2), "ball_radius"),
        (PointMazeSettings(wall_half_width=0.5), "wall_half_width"),
        (PointMazeSettings(layout=NO_GOAL, rewards=True), "draw 'G'"),
        (PointMazeSettings(layout=NO_GOAL, goal_in_observation=True), "draw 'G'"),
        (PointMazeSettings(layout="####\n#S  \n####"), "row 1, column 3"),
    ],
)
def test_impossible_settings_are_refused(settings: PointMazeSettings, message: str) -> None:
    with pytest.raises(UserError, match=message):
        PointMaze(settings)
