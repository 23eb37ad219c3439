"""Learning curves of several methods, one panel per task, as in the paper's coverage figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from devote.figures.style import NAMES, Look, looks_of, styled, wrapped
from devote.measure.curves import Curve

COLUMNS = 3  # panels in a row
WIDTH, HEIGHT = 2.9, 2.35  # inches of a panel
LINE = 48  # characters of small print in a panel
ROWS = 3  # of small print on one matter
LETTERS, HANDLE, LEGEND_ROW = 14, 0.7, 0.17  # of a legend: letters an inch, line and gaps, a row
MANY = 9  # methods from which on a legend has two columns at least


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
    undefined: tuple[str, ...] = ()
    """Methods that have runs and no curve, because one of these has no value."""

    @property
    def names(self) -> tuple[str, ...]:
        """All methods, also those that have no curve yet, so that colours stay when these come."""
        return (*self.curves, *self.unfinished, *self.undefined)


@styled
def save_panels(path: Path, title: str, note: str, panels: Sequence[Panel]) -> Path:
    """Mean and standard error over seeds of every method, with one legend for all."""
    columns = min(COLUMNS, max(1, len(panels)))
    rows = -(-len(panels) // columns)
    names = dict.fromkeys(NAMES.get(name, name) for panel in panels for name in panel.curves)
    longest = max(map(len, names), default=0) / LETTERS + HANDLE
    width = max(WIDTH * columns + 0.3, longest * (1 if len(names) < MANY else 2))
    fitting = int(width / longest)
    height = HEIGHT * rows + 0.75 + LEGEND_ROW * -(-len(names) // fitting)
    figure = Figure(figsize=(width, height), layout="constrained")
    places = list(figure.subplots(rows, columns, squeeze=False).flat)
    looks = looks_of(name for panel in panels for name in panel.names)
    for axes, panel in zip(places, panels, strict=False):
        draw_panel(axes, panel, looks)
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
    return path


def draw_panel(axes: Axes, panel: Panel, looks: Mapping[str, Look]) -> None:
    """The curves of one task."""
    scale, unit = _unit(panel.curves)
    for method, curve in panel.curves.items():
        (colour, dashes), steps = looks[method], curve.steps / scale
        # the method of the paper is wide and below the others, so that one as good shows too
        width, front = (2.4, 2) if method == "devote" else (1.3, 3)
        label = NAMES.get(method, method)
        axes.plot(steps, curve.mean, dashes, color=colour, label=label, lw=width, zorder=front)
        if np.isfinite(curve.error).any():
            low, high = curve.mean - curve.error, curve.mean + curve.error
            axes.fill_between(steps, low, high, color=colour, alpha=0.2, lw=0, zorder=front)
    axes.set(xlabel=f"steps{unit}", ylabel=panel.ylabel)
    small = _small_print(panel)
    axes.set_title(panel.title, fontsize=9, pad=6 + 7 * len(small))
    axes.annotate(
        "\n".join(small),
        (0.5, 1.01),
        xycoords="axes fraction",
        fontsize=6,
        color="0.4",
        ha="center",
        va="bottom",
    )
    axes.set_xlim(left=0)
    if panel.share:
        axes.set_ylim(0, 1.02)


def _small_print(panel: Panel) -> list[str]:
    """What is not there, in lines that fit the panel."""
    counts = [f"{NAMES.get(name, name)} {count}" for name, count in panel.unfinished.items()]
    without = [NAMES.get(name, name) for name in panel.undefined]
    found = []
    for text, names in (("runs so far", counts), ("a run has no value", without)):
        lines = wrap(f"{text}: {', '.join(names)}", LINE) if names else []
        found += lines if len(lines) <= ROWS else [f"{text}: {len(names)} methods lack some"]
    return found


def _unit(curves: Mapping[str, Curve]) -> tuple[float, str]:
    last = max((curve.steps[-1] for curve in curves.values() if len(curve.steps)), default=0.0)
    if last >= 1e6:
        return 1e6, " (millions)"
    return (1e3, " (thousands)") if last >= 1e3 else (1.0, "")
