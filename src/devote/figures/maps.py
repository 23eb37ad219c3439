"""Maps over a coverage grid, as in the paper's snapshots."""

from itertools import combinations

import numpy as np

from devote.core.types import Grid
from devote.figures.style import Axes


def draw_map(axes: Axes, grid: Grid, values: np.ndarray, title: str, log: bool = False) -> None:
    """One quantity over the eligible bins; walls stay white."""
    image = np.where(grid.eligible, values, np.nan).astype(float).reshape(grid.shape)
    if log:
        image = np.log10(np.where(image > 0, image, np.nan))
    shown = axes.imshow(image, extent=grid.extent, origin="upper", cmap="viridis")
    walls = np.where(grid.eligible, np.nan, 0.75).reshape(grid.shape)
    axes.imshow(walls, extent=grid.extent, origin="upper", cmap="gray", vmin=0, vmax=1)
    axes.set_aspect("auto")
    # bins are square, whatever their units; a strip is not a line
    axes.set_box_aspect(max(grid.shape[0] / grid.shape[1], 0.1))
    if grid.shape[0] == 1:
        axes.set_yticks([])
    axes.figure.colorbar(shown, cax=axes.inset_axes((1.04, 0.0, 0.05, 1.0)))
    axes.set(title=title, xlabel=grid.labels[0], ylabel=grid.labels[1])
    axes.grid(False)


def planes(grid: Grid, visits: np.ndarray) -> list[tuple[Grid, np.ndarray]]:
    """Visits as pictures: one dimension as a strip, more than two as sums over all but two."""
    if len(grid.shape) == 2:
        return [(grid, visits)]
    if len(grid.shape) == 1:
        strip = (0.0, float(grid.size), 0.0, 1.0)
        labels = (grid.labels[0], "")
        flat = Grid((1, grid.size), grid.eligible, grid.reachable, None, strip, labels)
        return [(flat, visits)]
    return [_plane(grid, visits, pair) for pair in combinations(range(len(grid.shape)), 2)]


def _plane(grid: Grid, visits: np.ndarray, pair: tuple[int, int]) -> tuple[Grid, np.ndarray]:
    """Two axes of a grid, the second going up."""
    others = tuple(axis for axis in range(len(grid.shape)) if axis not in pair)

    def flat(values: np.ndarray) -> np.ndarray:
        return values.reshape(grid.shape).sum(axis=others).T[::-1].ravel()

    across, up = pair
    shape = (grid.shape[up], grid.shape[across])
    extent = (0.0, float(shape[1]), 0.0, float(shape[0]))
    names = dict(enumerate(grid.labels))  # a grid may name fewer axes than it has
    labels = tuple(f"{names.get(axis, f'axis {axis}')} (bin)" for axis in pair)
    eligible, reachable = flat(grid.eligible) > 0, flat(grid.reachable) > 0
    return Grid(shape, eligible, reachable, None, extent, labels), flat(visits)


def draw_maps(
    row: list[Axes],
    shown: list[tuple[Grid, np.ndarray]],
    maps: dict[str, np.ndarray],
) -> None:
    """Visits, then every map of the agent."""
    for axes, (grid, visits) in zip(row, shown, strict=False):
        draw_map(axes, grid, visits, "visits (log10)", log=True)
    for axes, (name, values) in zip(row[len(shown) :], maps.items(), strict=True):
        draw_map(axes, shown[0][0], values, name)
