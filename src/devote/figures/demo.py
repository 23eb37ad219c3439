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
    """Coverage on top; below DEVOTE's visits, novelty value and novelty, and SAC's visits."""
    figure = plt.figure(figsize=(13, 7), layout="constrained")
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
    plt.close(figure)
    return path
