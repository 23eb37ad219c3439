"""Learning curves of several methods, one panel per task, as in the paper's coverage figures; and
final values as dots, where there are too many methods for curves; and the trials of tuning."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import fill, wrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from devote.figures.style import (
    BLUE,
    LOOKS,
    ORANGE,
    Look,
    add_note,
    looks_of,
    name_of,
    panel_grid,
    styled,
    wrapped,
    written,
)
from devote.measure.curves import Curve

COLUMNS = 3  # panels in a row
WIDTH, HEIGHT = 2.5, 2.1  # inches of a panel
LINE = 42  # characters of small print in a panel
TALL = 22  # characters along its axis
ROWS = 3  # of small print on one matter
LETTERS, HANDLE, LEGEND_ROW = 13, 0.6, 0.17  # of a legend: letters an inch, line and gaps, a row
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
    xlabel: str = ""
    """What the axis counts, where not steps."""
    unfinished: Mapping[str, str] = field(default_factory=dict)
    """Methods without all their runs, and how many they have, such as 1/5."""
    undefined: tuple[str, ...] = ()
    """Methods that have runs and no curve, because one of these has no value."""
    points: Mapping[str, Curve] = field(default_factory=dict)
    """Methods with few evaluations, which are drawn one by one instead of the curve."""

    @property
    def names(self) -> tuple[str, ...]:
        """All methods, also those that have no curve yet, so that colours stay when these come."""
        return (*self.curves, *self.unfinished, *self.undefined)


@styled
def save_panels(path: Path, title: str, note: str, panels: Sequence[Panel]) -> Path:
    """Mean and standard error over seeds of every method, with one legend for all: beside a single
    panel, in the place that the last row leaves free, or below."""
    alike = sum(panel.ylabel == panels[0].ylabel for panel in panels)  # a row for each metric
    columns = min(COLUMNS, alike if 1 < alike < len(panels) else max(1, len(panels)))
    rows = -(-len(panels) // columns)
    names = dict.fromkeys(name_of(name) for panel in panels for name in panel.curves)
    longest = max(map(len, names), default=0) / LETTERS + HANDLE
    width, height = WIDTH * columns + 0.3, HEIGHT * rows + 0.75
    free = columns * rows - len(panels)
    beside = len(panels) == 1 and len(names) < MANY
    inside = free and longest < WIDTH * free and len(names) < MANY
    fitting = 1
    if beside:
        width = 1.4 * WIDTH + longest
    elif not inside:
        width = max(width, longest * (1 if len(names) < MANY else 2))
        fitting = int(width / longest)
        height += LEGEND_ROW * -(-len(names) // fitting)
    figure = Figure(figsize=(width, height), layout="constrained")
    places = list(figure.subplots(rows, columns, squeeze=False).flat)
    looks = looks_of(name for panel in panels for name in panel.names)
    if len(panels) > 1 and all(panel.unfinished == panels[0].unfinished for panel in panels):
        note += f"; {text}" if (text := _runs_so_far(panels[0])) else ""  # once instead of in each
        panels = [replace(panel, unfinished={}) for panel in panels]
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
    figure.suptitle(wrapped(figure, title, 10), fontsize=10)
    how: dict[str, Any] = {"loc": "outside right center" if beside else "outside lower center"}
    if inside:
        how = {"loc": "center", "bbox_to_anchor": (free / 2, 0.5)}
        how |= {"bbox_transform": places[-free].transAxes}
    legend = figure.legend(handles.values(), handles, ncols=fitting, **how)
    add_note(figure, note, None if beside or inside else legend)
    return written(figure, path)


def draw_panel(axes: Axes, panel: Panel, looks: Mapping[str, Look]) -> None:
    """The curves of one task."""
    scale, unit = _unit(panel.curves)
    lowest = 0.0
    for method, curve in panel.curves.items():
        colour, dashes = looks[method]
        # the method of the paper is wide and below the others, so that one as good shows too
        width, front = (2.2, 2) if method == "devote" else (1.3, 3)
        how: dict[str, Any] = {"color": colour, "ls": dashes, "label": name_of(method)}
        how |= {"lw": width, "zorder": front}
        few = panel.points.get(method)
        shown = curve if few is None else few
        steps, error = shown.steps / scale, np.nan_to_num(shown.error)
        low, high = shown.mean - error, shown.mean + error
        lowest = min(lowest, np.nanmin(low, initial=0.0))
        if few is None:
            axes.plot(steps, shown.mean, **how)
            axes.fill_between(steps, low, high, color=colour, alpha=0.2, lw=0, zorder=front)
        else:
            axes.errorbar(steps, shown.mean, error, marker="o", ms=3, elinewidth=1, **how)
    axes.set(xlabel=panel.xlabel or f"steps{unit}", ylabel=fill(panel.ylabel, TALL))
    small = _small_print(panel)
    axes.set_title(fill(panel.title, LINE * 3 // 4), pad=6 + 7 * len(small))
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
    elif lowest >= 0:
        axes.set_ylim(bottom=0)


@styled
def save_dots(
    path: Path, title: str, note: str, xlabel: str, tasks: Mapping[str, Mapping[str, np.ndarray]]
) -> Path:
    """Final values of many methods, a row for each: every seed as a dot, the mean as a bar; the
    variants of an agent are together, the best first on the first task."""
    methods = list(dict.fromkeys(name for values in tasks.values() for name in values))
    first = next(iter(tasks.values()))
    agents = list(dict.fromkeys(name.split(" ")[0] for name in methods))
    means = {name: float(np.mean(first.get(name, -np.inf))) for name in methods}
    methods.sort(key=lambda name: (agents.index(name.split(" ")[0]), -means[name]))
    figure, places = panel_grid(len(tasks), len(tasks), 2.3, 0.19 * len(methods) + 1.2)
    figure.set_figwidth(figure.get_figwidth() + max(map(len, methods)) / 18)
    for axes, (task, values) in zip(places, tasks.items(), strict=True):
        for row, name in enumerate(methods):
            agent = name.split(" ")[0]
            colour = LOOKS[agent].colour if agent in LOOKS else "k"
            seeds = values.get(name, np.zeros(0))
            axes.plot(seeds, np.full(len(seeds), row), "o", ms=3, color=colour, alpha=0.6, mew=0)
            if len(seeds):
                axes.plot(np.mean(seeds), row, "|", ms=9, mew=2, color=colour)
            if agent == name:
                axes.axhspan(row - 0.5, row + 0.5, color="0.94", lw=0, zorder=0)
        axes.set_yticks(range(len(methods)), [name_of(name) for name in methods], fontsize=7)
        axes.set_ylim(len(methods) - 0.5, -0.5)
        axes.set_title(task)
        axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
        axes.set_xlabel(xlabel)
        axes.label_outer()
    figure.suptitle(wrapped(figure, title, 10), fontsize=10)
    add_note(figure, note)
    return written(figure, path)


@styled
def save_tuning(
    path: Path,
    caption: str,
    metric: str,
    scores: Sequence[tuple[int, float | None]],
    weights: Mapping[str, float],
) -> Path:
    """Scores by trial with the best so far, and the importance of each setting as dots; trials that
    were given up have no score."""
    figure, (history, importance) = panel_grid(2, 2, 3.4, 2.8)
    numbers = np.array([number for number, _ in scores])
    values = np.array([np.nan if value is None else value for _, value in scores])
    history.plot(numbers, values, "o", markersize=4, color=BLUE, label="trial")
    best = np.fmax.accumulate(values)
    history.step(numbers, best, where="post", color=ORANGE, label="best so far")
    lost = numbers[np.isnan(values)]
    lowest = np.full(len(lost), np.nanmin(values))
    history.plot(lost, lowest, "x", color="0.6", label="given up")
    history.set(xlabel="trial", ylabel=metric)
    history.legend()
    names = list(weights)[::-1]
    importance.hlines(names, 0, [weights[name] for name in names], color="0.8", lw=1)
    importance.plot([weights[name] for name in names], names, "o", markersize=5, color=BLUE)
    importance.set(xlabel="importance" if weights else "importance: too few trials")
    importance.set_xlim(left=0)
    figure.suptitle(wrapped(figure, caption, 9), fontsize=9)
    return written(figure, path)


def _small_print(panel: Panel) -> list[str]:
    """What is missing, in lines that fit the panel."""
    without = ", ".join(name_of(name) for name in panel.undefined)
    found = []
    for text in (_runs_so_far(panel), f"a run has no value: {without}" if without else ""):
        lines = wrap(text, LINE)
        count = text.count(",") + 1
        found += (
            lines if len(lines) <= ROWS else [f"{text.split(':')[0]}: {count} methods lack some"]
        )
    return found


def _runs_so_far(panel: Panel) -> str:
    counts = ", ".join(f"{name_of(name)} {count}" for name, count in panel.unfinished.items())
    return f"runs so far: {counts}" if counts else ""


def _unit(curves: Mapping[str, Curve]) -> tuple[float, str]:
    last = max((curve.steps[-1] for curve in curves.values() if len(curve.steps)), default=0.0)
    if last >= 1e6:
        return 1e6, " (millions)"
    return (1e3, " (thousands)") if last >= 1e3 else (1.0, "")
