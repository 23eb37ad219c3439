"""Maps over a coverage grid, as in the paper's snapshots."""

import numpy as np

from devote.core import Grid
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
    axes.set_box_aspect(grid.shape[0] / grid.shape[1])  # bins are square, whatever their units
    axes.figure.colorbar(shown, ax=axes, shrink=0.75)
    axes.set(title=title, xlabel=grid.labels[0], ylabel=grid.labels[1])
    axes.grid(False)


def draw_maps(row: list[Axes], grid: Grid, visits: np.ndarray, maps: dict[str, np.ndarray]) -> None:
    """Visits, then every map of the agent."""
    draw_map(row[0], grid, visits, "visits (log10)", log=True)
    for axes, (name, values) in zip(row[1:], maps.items(), strict=True):
        draw_map(axes, grid, values, name)
