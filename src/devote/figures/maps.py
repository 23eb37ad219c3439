"""Pictures of one run and of the demo: returns and coverage over steps, maps over the grid."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from devote.core.types import Grid
from devote.figures.style import BLUE, LOOKS, ORANGE, add_note, panel_grid, styled, written
from devote.measure.coverage import planes

STEPS = "environment steps (agent decisions)"
MARKS = {"start": "o", "goal": "*"}
Scale = tuple[float, float]


def draw_map(
    axes: Axes,
    grid: Grid,
    values: np.ndarray,
    title: str,
    log: bool = False,
    scale: Scale | None = None,
) -> None:
    """One quantity over the eligible bins, with start and goal; walls are grey, and bins without a
    value white. In one dimension, bars."""
    image = _image(grid, values, log).reshape(grid.shape)
    low, high = scale or (None, None)
    axes.set_title(f"{title} (log10)" if log else title)
    if grid.shape[0] == 1:
        axes.bar(np.arange(grid.size), image[0], width=1.0)
        axes.set(xlabel=grid.labels[0], xlim=(-0.5, grid.size - 0.5))
        return
    shown = axes.imshow(image, extent=grid.extent, vmin=low, vmax=high)
    walls = np.where(grid.eligible, np.nan, 0.75).reshape(grid.shape)
    axes.imshow(walls, extent=grid.extent, cmap="gray", vmin=0, vmax=1)
    for name, x, y in grid.marks:
        axes.plot(x, y, MARKS.get(name, "o"), ms=7, mfc="w", mec="k", mew=0.8)
    axes.set_aspect("auto")
    # bins are square, whatever their units; few rows are not a line
    axes.set_box_aspect(max(grid.shape[0] / grid.shape[1], 0.1))
    axes.figure.colorbar(shown, cax=axes.inset_axes((1.04, 0.0, 0.05, 1.0)))
    axes.set(xlabel=grid.labels[0], ylabel=grid.labels[1])
    axes.grid(False)


def _image(grid: Grid, values: np.ndarray, log: bool) -> np.ndarray:
    image = np.where(grid.eligible, values, np.nan).astype(float)
    return np.log10(np.where(image > 0, image, np.nan)) if log else image


def _scale(maps: Iterable[tuple[Grid, np.ndarray]], log: bool) -> Scale | None:
    """One colour scale for several maps of the same quantity."""
    images = np.concatenate([_image(grid, values, log) for grid, values in maps])
    seen = images[np.isfinite(images)]
    return (float(seen.min()), float(seen.max())) if seen.size else None


def draw_coverage(
    axes: Axes,
    curves: Mapping[str, tuple[np.ndarray, np.ndarray]],
    colours: Mapping[str, str] | None = None,
) -> None:
    """Coverage over environment steps, one line per name."""
    for name, (steps, values) in curves.items():
        axes.plot(steps, values, label=name, color=(colours or {}).get(name))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set(xlabel=STEPS, ylabel="state coverage", xlim=(0, None), ylim=(0, 1.02))
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
    figure, (axes,) = panel_grid(1, 1, 4.5, 2.8)
    draw_coverage(axes, coverage_curves(metrics))
    axes.set_title(title)
    return written(figure, path)


@styled
def save_returns(metrics: dict[str, np.ndarray], path: Path, title: str) -> Path:
    """The learning curve: returns of exploring as lines, evaluations as points, and success."""
    kinds = {
        "return": ("rollout/ep_rew_mean", "eval/mean_reward"),
        "share of episodes solved": ("rollout/success_rate", "eval/success_rate"),
    }
    kinds = {words: names for words, names in kinds.items() if set(names) <= set(metrics)}
    looks = (("exploring", "-", ORANGE), ("exploitation actor", "o-", BLUE))
    figure, places = panel_grid(len(kinds), 2, 4.0, 2.8)
    for axes, (words, names) in zip(places, kinds.items(), strict=True):
        for name, (label, mark, colour) in zip(names, looks, strict=True):
            for place, seed in enumerate(np.unique(metrics["seed"])):
                mine = (metrics["seed"] == seed) & np.isfinite(metrics[name])
                axes.plot(
                    metrics["step"][mine],
                    metrics[name][mine],
                    mark,
                    color=colour,
                    markersize=4,
                    alpha=0.9 if place == 0 else 0.5,
                    label=label if place == 0 else None,
                )
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set(xlabel=STEPS, ylabel=words, xlim=(0, None))
        axes.legend()
        if words != "return":
            axes.set_ylim(0, 1.02)
    figure.suptitle(title, fontsize=10)
    return written(figure, path)


@styled
def save_maps(grid: Grid, visits: np.ndarray, maps: dict[str, Any], path: Path, title: str) -> Path:
    """Visits and the agent's maps side by side; a map needs a grid of one or two dimensions."""
    shown = planes(grid)
    maps = maps if len(shown) == 1 else {}
    height = 1.8 if shown[0].grid.shape[0] == 1 else 2.7
    figure, row = panel_grid(len(shown) + len(maps), 4, 3.0, height)
    for axes, plane in zip(row, shown, strict=False):
        draw_map(axes, plane.grid, plane.sum(visits), "visits", log=True)
    for axes, (name, values) in zip(row[len(shown) :], maps.items(), strict=True):
        draw_map(axes, shown[0].grid, values, name)
    figure.suptitle(title, fontsize=10)
    return written(figure, path)


@styled
def save_map_rows(path: Path, note: str, rows: dict[str, tuple[Grid, dict[str, Any]]]) -> Path:
    """Maps of several runs or steps, a row for each; visits have one colour scale in all."""
    names = list(dict.fromkeys(name for _, maps in rows.values() for name in maps))
    figure = Figure(figsize=(2.6 * len(names), 2.2 * len(rows)), layout="constrained")
    places = figure.subplots(len(rows), len(names), squeeze=False)
    for column, name in enumerate(names):
        log = name.startswith("visits")
        mine = {title: (grid, maps[name]) for title, (grid, maps) in rows.items() if name in maps}
        scale = _scale(mine.values(), log) if log else None
        for row, title in enumerate(rows):
            if title not in mine:
                places[row, column].axis("off")
                continue
            draw_map(places[row, column], *mine[title], f"{title}: {name}", log, scale)
            places[row, column].title.set_fontsize(7)
    add_note(figure, note)
    return written(figure, path)


@styled
def save_pictures(path: Path, note: str, pictures: dict[str, np.ndarray]) -> Path:
    """Pictures in rows of four, each under its name."""
    figure, places = panel_grid(len(pictures), 4, 2.1, 2.1)
    for axes, (title, picture) in zip(places, pictures.items(), strict=True):
        axes.imshow(picture)
        axes.set_title(title)
        axes.axis("off")
    add_note(figure, note)
    return written(figure, path)


@styled
def save_comparison(
    path: Path,
    title: str,
    curves: dict[str, tuple[np.ndarray, np.ndarray]],
    grid: Grid,
    devote_maps: dict[str, np.ndarray],
    sac_visits: np.ndarray,
) -> Path:
    """Coverage and visits of both on top; below, DEVOTE's novelty and novelty value."""
    figure, places = panel_grid(6, 3, 3.3, 2.8)
    coverage, mine, theirs, text, novelty, value = places
    colours = dict(zip(curves, (LOOKS["devote"].colour, LOOKS["sac"].colour), strict=False))
    draw_coverage(coverage, curves, colours)
    coverage.set_xlabel("steps (agent decisions)")
    coverage.xaxis.set_major_locator(MaxNLocator(4))
    ends = [f"{name}: {values[-1]:.2f} of the maze" for name, (_, values) in curves.items()]
    lines = [*wrap(title, 34), "", *ends, "", "circle: start, star: goal"]
    text.axis("off")
    text.text(0.0, 0.95, "\n".join(lines), va="top")
    scale = _scale([(grid, devote_maps["visits"]), (grid, sac_visits)], log=True)
    draw_map(mine, grid, devote_maps["visits"], "DEVOTE: visits", True, scale)
    draw_map(theirs, grid, sac_visits, "SAC: visits", True, scale)
    for axes, name in ((novelty, "novelty |c + g|"), (value, "novelty value rb")):
        draw_map(axes, grid, devote_maps[name], f"DEVOTE: {name}")
    return written(figure, path)
