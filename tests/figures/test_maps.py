"""Visits over grids of one, two and three dimensions become pictures."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from devote.core.types import Grid
from devote.envs.bins import BoxBins, EntryBins, EveryIndex
from devote.envs.point_maze import PointMaze, PointMazeSettings
from devote.figures import maps
from devote.figures.maps import save_maps
from devote.measure.coverage import planes


def test_one_dimension_is_a_strip() -> None:
    visits = np.arange(5)
    [plane] = planes(EveryIndex(5).grid)
    assert plane.grid.shape == (1, 5)
    assert plane.grid.labels == ("observation", "")
    np.testing.assert_array_equal(plane.sum(visits), visits)
    axes = Figure().subplots()
    maps.draw_map(axes, plane.grid, plane.sum(visits), "value")
    assert [bar.get_height() for bar in axes.patches] == visits.tolist()


def test_three_dimensions_are_summed_to_every_pair_with_the_second_going_up() -> None:
    bins = BoxBins((0.0, 0.0, 0.0), (2.0, 3.0, 4.0), (2, 3, 4), ("x", "y", "z"))
    visits = np.zeros(24, int)
    for place, times in (((1.5, 0.5, 3.5), 5), ((1.5, 0.5, 0.5), 2)):
        visits[bins.of(np.array(place))] = times
    pictures = {p.grid.labels: (p.grid, p.sum(visits)) for p in planes(bins.grid())}
    plane, shown = pictures["x (bin)", "y (bin)"]
    np.testing.assert_array_equal(shown.reshape(plane.shape), [[0, 0], [0, 0], [0, 7]])
    plane, shown = pictures["x (bin)", "z (bin)"]
    np.testing.assert_array_equal(shown.reshape(plane.shape), [[0, 5], [0, 0], [0, 0], [0, 2]])
    plane, shown = pictures["y (bin)", "z (bin)"]
    assert shown.reshape(plane.shape)[0].tolist() == [5, 0, 0]


def unit_box(sides: int) -> BoxBins:
    return BoxBins((0.0,) * sides, (1.0,) * sides, (4,) * sides, tuple("xyz"[:sides]))


GRIDS = {
    "strip": EveryIndex(48).grid,
    "plane": EntryBins((0, 1), unit_box(2), 2).grid,
    "unnamed": Grid((2, 2, 2), np.ones(8, bool), np.ones(8, bool)),
    "box": EntryBins((0, 1, 2), unit_box(3), 3).grid,
}


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
def test_every_grid_is_drawn(grid: Grid, tmp_path: Path) -> None:
    maps = {"value": np.ones(grid.size)}
    path = save_maps(grid, np.arange(grid.size), maps, tmp_path / "maps.png", "a title")
    assert path.stat().st_size > 1000


def test_start_and_goal_are_marked_and_a_quantity_has_one_scale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = PointMaze(PointMazeSettings()).spec.grid
    assert grid is not None
    assert [name for name, _, _ in grid.marks] == ["start", "goal"]
    drawn: list[Figure] = []
    monkeypatch.setattr(maps, "written", lambda figure, path: drawn.append(figure))
    ones = np.ones(grid.size)
    rows = {"a": (grid, {"visits": ones, "rb": ones}), "b": (grid, {"visits": 100 * ones})}
    maps.save_map_rows(tmp_path / "x.png", "", rows)
    shown = [axes for axes in drawn[0].axes if axes.images]
    limits = [axes.images[0].get_clim() for axes in shown]
    assert limits[0] == limits[2] == (0.0, 2.0)
    for axes in shown:
        assert {line.get_marker() for line in axes.lines} == {"o", "*"}
