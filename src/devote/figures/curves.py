"""Learning curves of several methods, one panel per task, as in the paper's coverage figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill

import numpy as np

from devote.figures.style import NAMES, Axes, colours_of, plt, wrapped
from devote.measure.curves import Curve

COLUMNS = 3  # panels in a row
WIDTH, HEIGHT = 2.9, 2.35  # inches of a panel
LINE = 38  # characters of small print in a panel
LETTERS, HANDLE, LEGEND_ROW = 14, 0.7, 0.17  # of a legend: letters an inch, line and gaps, a row


@dataclass(frozen=True)
class Panel:
    """One task."""

    title: str
    ylabel: str
    curves: Mapping[str, Curve]
    """Method to curve."""
    share: bool = False
    """Whether values are shares, drawn from 0 to 1."""
    unfinished: Mapping[str, str] = field(default_factory=dict)
    """Methods without all their runs, and how many they have, such as 1/5."""


def save_panels(path: Path, title: str, note: str, panels: Sequence[Panel]) -> Path:
    """Mean and standard error over seeds of every method, with one legend for all."""
    columns = min(COLUMNS, max(1, len(panels)))
    rows = -(-len(panels) // columns)
    names = dict.fromkeys(NAMES.get(name, name) for panel in panels for name in panel.curves)
    longest = max(map(len, names), default=0) / LETTERS + HANDLE
    width = max(WIDTH * columns + 0.3, longest)
    fitting = int(width / longest)
    height = HEIGHT * rows + 0.75 + LEGEND_ROW * -(-len(names) // fitting)
    figure, grid = plt.subplots(
        rows, columns, figsize=(width, height), layout="constrained", squeeze=False
    )
    places = list(grid.flat)
    # also of methods that have no curve yet, so that colours stay when these come
    colours = colours_of(name for panel in panels for name in (*panel.curves, *panel.unfinished))
    for axes, panel in zip(places, panels, strict=False):
        draw_panel(axes, panel, colours)
    for axes in places[len(panels) :]:
        axes.axis("off")
    for place, panel in enumerate(panels):
        if place % columns and panel.ylabel == panels[place - 1].ylabel:
            places[place].set_ylabel("")
    handles = {
        label: handle
        for axes in places
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.suptitle(wrapped(figure, title, 11), fontsize=11)
    legend = figure.legend(
        handles.values(),
        handles,
        loc="outside lower center",
        ncols=fitting,
        title=wrapped(figure, note),
        title_fontsize=7,
    )
    legend.get_title().set(color="0.4", multialignment="center")
    figure.savefig(path)
    plt.close(figure)
    return path


def draw_panel(axes: Axes, panel: Panel, colours: Mapping[str, str]) -> None:
    """The curves of one task."""
    scale, unit = _unit(panel.curves)
    for method, curve in panel.curves.items():
        colour, steps = colours[method], curve.steps / scale
        # the method of the paper is wide and below the others, so that one as good shows too
        width, front = (2.4, 2) if method == "devote" else (1.3, 3)
        label = NAMES.get(method, method)
        axes.plot(steps, curve.mean, color=colour, label=label, lw=width, zorder=front)
        if np.isfinite(curve.error).any():
            low, high = curve.mean - curve.error, curve.mean + curve.error
            axes.fill_between(steps, low, high, color=colour, alpha=0.2, lw=0, zorder=front)
    axes.set(title=panel.title, xlabel=f"steps{unit}", ylabel=panel.ylabel)
    axes.title.set_fontsize(9)
    axes.set_xlim(left=0)
    if panel.share:
        axes.set_ylim(0, 1.02)
    if panel.unfinished:
        counts = (f"{NAMES.get(name, name)} {n}" for name, n in panel.unfinished.items())
        text = fill(f"runs so far: {', '.join(counts)}", LINE)
        axes.text(0.02, 0.97, text, transform=axes.transAxes, fontsize=6, va="top", color="0.4")


def _unit(curves: Mapping[str, Curve]) -> tuple[float, str]:
    last = max((curve.steps[-1] for curve in curves.values() if len(curve.steps)), default=0.0)
    if last >= 1e6:
        return 1e6, " (millions)"
    return (1e3, " (thousands)") if last >= 1e3 else (1.0, "")
