"""The demo's picture: two coverage curves and the maps behind them."""

from pathlib import Path

import numpy as np

from devote.core.types import Grid
from devote.figures.maps import draw_map
from devote.figures.run import draw_coverage
from devote.figures.style import COLOURS, plt


def save_comparison(
    path: Path,
    title: str,
    curves: dict[str, tuple[np.ndarray, np.ndarray]],
    grid: Grid,
    devote_maps: dict[str, np.ndarray],
    sac_visits: np.ndarray,
) -> Path:
    """Coverage on top of DEVOTE's visits, novelty and novelty value, with SAC's visits beside."""
    figure = plt.figure(figsize=(13, 7), layout="constrained")
    axes = figure.subplot_mosaic(
        [["coverage", "coverage", "coverage", "sac"], ["visits", "novelty", "value", "blank"]]
    )
    draw_coverage(axes["coverage"], curves, dict(zip(curves, COLOURS.values(), strict=False)))
    draw_map(axes["sac"], grid, sac_visits, "SAC: visits (log10)", log=True)
    draw_map(axes["visits"], grid, devote_maps["visits"], "DEVOTE: visits (log10)", log=True)
    names = [name for name in devote_maps if name != "visits"]
    for panel, name in zip(("novelty", "value"), names, strict=True):
        draw_map(axes[panel], grid, devote_maps[name], f"DEVOTE: {name}")
    axes["blank"].axis("off")
    _caption(axes["blank"], curves)
    figure.suptitle(title)
    figure.savefig(path)
    plt.close(figure)
    return path


def _caption(axes: plt.Axes, curves: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    lines = [f"{name}: {values[-1]:.2f} of the maze" for name, (_, values) in curves.items()]
    axes.text(0.0, 0.6, "\n\n".join(lines), fontsize=12, transform=axes.transAxes)
