"""Pictures of one run and of the demo: coverage over steps, and maps over a coverage grid."""

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from devote.core.types import Grid
from devote.figures.style import COLOURS, styled


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


def draw_coverage(
    axes: Axes,
    curves: dict[str, tuple[np.ndarray, np.ndarray]],
    colours: dict[str, str] | None = None,
) -> None:
    """Coverage over environment steps, one line per name."""
    for name, (steps, values) in curves.items():
        axes.plot(steps, values, label=name, color=(colours or {}).get(name))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set(xlabel="environment steps (agent decisions)", ylabel="state coverage", ylim=(0, 1))
    if len(curves) > 1:
        axes.legend()


def coverage_curves(metrics: dict[str, np.ndarray]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Steps and coverage of every seed in a metrics table."""
    return {
        f"seed {int(seed)}": (
            metrics["step"][metrics["seed"] == seed],
            metrics["explore/coverage"][metrics["seed"] == seed],
        )
        for seed in np.unique(metrics["seed"])
    }


@styled
def save_coverage(metrics: dict[str, np.ndarray], path: Path, title: str) -> Path:
    """Coverage over steps as a picture of its own."""
    figure = Figure(figsize=(5, 3.2), layout="constrained")
    axes = figure.subplots()
    draw_coverage(axes, coverage_curves(metrics))
    axes.set_title(title)
    figure.savefig(path)
    return path


@styled
def save_maps(grid: Grid, visits: np.ndarray, maps: dict[str, Any], path: Path, title: str) -> Path:
    """Visits and the agent's maps side by side; a map needs a grid of one or two dimensions."""
    shown = planes(grid, visits)
    maps = maps if len(shown) == 1 else {}
    panels = len(shown) + len(maps)
    figure = Figure(figsize=(4 * panels, 3.6), layout="constrained")
    row = list(figure.subplots(1, panels, squeeze=False)[0])
    for axes, (plane, counts) in zip(row, shown, strict=False):
        draw_map(axes, plane, counts, "visits (log10)", log=True)
    for axes, (name, values) in zip(row[len(shown) :], maps.items(), strict=True):
        draw_map(axes, shown[0][0], values, name)
    figure.suptitle(title)
    figure.savefig(path)
    return path


@styled
def save_comparison(
    path: Path,
    title: str,
    curves: dict[str, tuple[np.ndarray, np.ndarray]],
    grid: Grid,
    devote_maps: dict[str, np.ndarray],
    sac_visits: np.ndarray,
) -> Path:
    """Coverage on top; below DEVOTE's visits, novelty value and novelty, and SAC's visits."""
    figure = Figure(figsize=(13, 7), layout="constrained")
    axes = figure.subplot_mosaic([["coverage"] * 4, ["visits", "first", "second", "sac"]])
    named = {
        f"{name}: {values[-1]:.2f} of the maze": (steps, values)
        for name, (steps, values) in curves.items()
    }
    draw_coverage(axes["coverage"], named, dict(zip(named, COLOURS.values(), strict=False)))
    draw_map(axes["visits"], grid, devote_maps["visits"], "DEVOTE: visits (log10)", log=True)
    names = [name for name in devote_maps if name != "visits"]
    for panel, name in zip(("first", "second"), names, strict=True):
        draw_map(axes[panel], grid, devote_maps[name], f"DEVOTE: {name}")
    draw_map(axes["sac"], grid, sac_visits, "SAC: visits (log10)", log=True)
    figure.suptitle(title)
    figure.savefig(path)
    return path
