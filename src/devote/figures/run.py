"""The figures of one run: coverage over steps, and maps."""

from pathlib import Path
from typing import Any

import numpy as np

from devote.core.types import Grid
from devote.figures.maps import draw_maps, planes
from devote.figures.style import Axes, plt

FIGURES = "figures"


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


def save_coverage(metrics: dict[str, np.ndarray], path: Path, title: str) -> Path:
    """Coverage over steps as a picture of its own."""
    figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
    draw_coverage(axes, coverage_curves(metrics))
    axes.set_title(title)
    figure.savefig(path)
    plt.close(figure)
    return path


def save_maps(grid: Grid, visits: np.ndarray, maps: dict[str, Any], path: Path, title: str) -> Path:
    """Visits and the agent's maps side by side; a map needs a grid of one or two dimensions."""
    shown = planes(grid, visits)
    maps = maps if len(shown) == 1 else {}
    panels = len(shown) + len(maps)
    figure, row = plt.subplots(1, panels, figsize=(4 * panels, 3.6), layout="constrained")
    draw_maps(list(np.atleast_1d(row)), shown, maps)
    figure.suptitle(title)
    figure.savefig(path)
    plt.close(figure)
    return path
