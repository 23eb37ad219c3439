"""State coverage: the share of bins visited at least once; and grids as pictures."""

from itertools import combinations
from typing import NamedTuple

import numpy as np

from devote.core.types import Grid


def coverage(visits: np.ndarray, grid: Grid) -> dict[str, float]:
    """Coverage of all eligible bins, as in the paper, and of the reachable ones."""
    seen = np.asarray(visits) > 0
    return {
        "explore/coverage": float(seen[grid.eligible].mean()),
        "explore/coverage_reachable": float(seen[grid.eligible & grid.reachable].mean()),
    }


class Plane(NamedTuple):
    """A two-dimensional picture of a grid, and the place of each bin in it."""

    grid: Grid
    place: np.ndarray

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Totals over all but two dimensions."""
        return np.bincount(self.place, values, self.grid.size)

    def mean(self, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Weighted means over all but two dimensions; NaN where nothing has weight."""
        total = self.sum(weights)
        found = self.sum(np.where(weights > 0, values, 0.0) * weights)
        return np.divide(found, total, out=np.full(total.shape, np.nan), where=total > 0)


def planes(grid: Grid) -> list[Plane]:
    """Pictures of a grid: a strip for one dimension, one per pair for more than two."""
    if len(grid.shape) == 2:
        return [Plane(grid, np.arange(grid.size))]
    if len(grid.shape) == 1:
        strip = (0.0, float(grid.size), 0.0, 1.0)
        labels = (grid.labels[0], "")
        flat = Grid((1, grid.size), grid.eligible, grid.reachable, None, strip, labels)
        return [Plane(flat, np.arange(grid.size))]
    return [_plane(grid, pair) for pair in combinations(range(len(grid.shape)), 2)]


def _plane(grid: Grid, pair: tuple[int, int]) -> Plane:
    """Two axes of a grid, the second upwards."""
    across, up = pair
    shape = (grid.shape[up], grid.shape[across])
    digits = np.indices(grid.shape).reshape(len(grid.shape), -1)
    place = (shape[0] - 1 - digits[up]) * shape[1] + digits[across]
    names = dict(enumerate(grid.labels))  # a grid may name fewer axes than it has
    labels = tuple(f"{names.get(axis, f'axis {axis}')} (bin)" for axis in pair)
    extent = (0.0, float(shape[1]), 0.0, float(shape[0]))
    eligible, reachable = (
        np.bincount(place, mask, shape[0] * shape[1]) > 0
        for mask in (grid.eligible, grid.reachable)
    )
    return Plane(Grid(shape, eligible, reachable, None, extent, labels), place)
