"""Figures of the calibration study and of a calibration report."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from devote.figures.style import (
    BLUE,
    ORANGE,
    Look,
    add_note,
    legend_below,
    looks_of,
    name_of,
    panel_grid,
    styled,
    written,
)
from devote.measure.calibration import CalibrationReport, Estimate
from devote.measure.curves import Curve

TITLES = {
    "gp-exact": "exact GP",
    "boot-ens": "bootstrapped ensemble",
    "mlp-100x2": "MLP prior",
    "rfn-0.25": "RFN prior, length 0.25",
    "rfn-0.5": "RFN prior, length 0.5",
    "rfn-1": "RFN prior, length 1",
}
BAND = 2.0
"""Half width of the shaded bands in standard deviations; the paper does not say its own."""


class Series(NamedTuple):
    """Scores against a setting; one without settings is a level line."""

    label: str
    points: Mapping[float, Estimate] | Estimate
    look: Look | None = None
    """None for one that its label alone decides."""


@styled
def gp_calibration(
    task: Mapping[str, np.ndarray], answers: Mapping[str, Mapping[str, np.ndarray]], split: int = 0
) -> Figure:
    """fig:gp-calibration: mean and band of each model on one draw of the GP task."""
    grid = task["grid"]
    figure, places = panel_grid(len(answers), 2, 2.8, 2.0)
    for axes, (model, answer) in zip(places, answers.items(), strict=True):
        mean, std = (answer[name][split][-len(grid) :] for name in ("mean", "std"))
        _band(axes, grid, mean, std, BAND)
        axes.plot(grid, task["f"][split], "k--", lw=1, label="true function")
        axes.plot(task["x"][split], task["y"][split], "k.", ms=2, label="observations")
        axes.set(title=TITLES.get(model, model), xlabel="x", ylim=(-4, 4))
        axes.label_outer()
    legend_below(figure)
    return figure


@styled
def prior_comparison(draws: Mapping[str, np.ndarray]) -> Figure:
    """fig:prior-comparison: functions drawn from a GP, an MLP prior and an RFN prior."""
    figure, places = panel_grid(3, 3, 2.3, 2.0)
    limit = 1.05 * max(np.abs(values).max() for name, values in draws.items() if name != "grid")
    for axes, name in zip(places, ("GP", "MLP", "RFN"), strict=True):
        axes.plot(draws["grid"], draws[name].T, lw=1)
        axes.set(
            title=name, xlabel="x", ylabel="g(x)", ylim=(-limit, limit), xticks=range(0, 11, 2)
        )
        axes.label_outer()
    return figure


@styled
def ablation(scores: Mapping[str, Sequence[Series]], xlabel: str) -> Figure:
    """Each score in a panel of its own, against length scale or width; AUROC from chance up."""
    figure, places = panel_grid(len(scores), 2, 3.2, 2.6)
    _draw_scores(places, scores, xlabel)
    legend_below(figure)
    return figure


@styled
def value_estimation(
    scores: Mapping[str, Sequence[Series]],
    values: Mapping[str, Mapping[str, Curve]],
    truth: float,
    metric: str,
) -> Figure:
    """Scores against length scale, and for each loss a value over training beside the true one."""
    figure, places = panel_grid(len(scores) + len(values), 4, 2.5, 2.4)
    _draw_scores(places, scores, "length scale of the prior")
    looks = looks_of(name for curves in values.values() for name in curves)
    for axes, (loss, curves) in zip(places[len(scores) :], values.items(), strict=True):
        axes.sharey(places[len(scores)])
        for name, curve in curves.items():
            steps, error = curve.steps / 1000, np.nan_to_num(curve.error)
            axes.plot(steps, curve.mean, color=looks[name].colour, lw=1.3, label=name)
            low, high = curve.mean - error, curve.mean + error
            axes.fill_between(steps, low, high, color=looks[name].colour, alpha=0.2, lw=0)
        axes.axhline(truth, color="k", ls="--", lw=1, label="Monte Carlo")
        axes.set(title=loss, xlabel="steps (thousands)", ylabel=metric, xlim=(0, None))
    legend_below(figure, 8)
    return figure


def _draw_scores(
    places: Sequence[Axes], scores: Mapping[str, Sequence[Series]], xlabel: str
) -> None:
    looks = looks_of(line.label for lines in scores.values() for line in lines)
    for axes, (ylabel, lines) in zip(places, scores.items(), strict=False):
        settings: set[float] = set()
        for label, points, look in lines:
            colour, dashes = look or looks[label]
            if isinstance(points, Estimate):
                axes.axhline(points.mean, ls=dashes, color=colour, label=label)
                continue
            xs = sorted(points)
            ys, errors = ([points[x][part] for x in xs] for part in (0, 1))
            axes.errorbar(
                xs, ys, errors, ls=dashes, marker="o", ms=4, capsize=2, label=label, color=colour
            )
            settings |= set(xs)
        axes.set_xscale("log", base=2)
        axes.set_xticks(sorted(settings), [f"{setting:g}" for setting in sorted(settings)])
        axes.set(xlabel=xlabel, ylabel=fill(ylabel, 24))
        lowest = 0.5 if ylabel.startswith("AUROC") else 0.0
        axes.set_ylim(min(lowest, axes.get_ylim()[0]), 1.02)


@styled
def draw_report(report: CalibrationReport) -> Figure:
    """Error against deviation, reliability, deviations inside and outside, and the slices."""
    figure, places = panel_grid(3 + len(report.slices), 2, 3.0, 2.3)
    spread, reliable, deviations = places[:3]
    both = np.concatenate([report.inside_std, report.outside_std])
    bins = np.histogram_bin_edges(both, 30).tolist()
    reliable.plot([0, 1], [0, 1], "k:", lw=1, label="perfect")
    # points inside are drawn over those outside
    for label, colour in (("outside", ORANGE), ("inside", BLUE)):
        std, error, coverage = (
            getattr(report, f"{label}_{part}") for part in ("std", "error", "coverage")
        )
        spread.plot(std, error, ".", ms=3, alpha=0.5, mew=0, color=colour, label=label)
        reliable.plot(report.levels, coverage, label=label, color=colour)
        deviations.hist(std, bins, density=True, alpha=0.5, color=colour)
    correlation, auroc = (report.numbers[name] for name in ("correlation", "auroc"))
    spread.set(xlabel="standard deviation", ylabel="absolute error", ylim=(0, None))
    spread.set_title(f"correlation {correlation:.3f}")
    reliable.set(xlabel="claimed coverage", ylabel="observed coverage", xlim=(0, 1), ylim=(0, 1.02))
    reliable.set_title("reliability of intervals")
    deviations.set(xlabel="standard deviation", ylabel="density", title=f"AUROC {auroc:.3f}")
    for axes, walk in zip(places[3:], report.slices, strict=True):
        _band(axes, walk.x, walk.mean, walk.std, BAND, "k")
        axes.set(xlabel=walk.name, ylabel="prediction", title=f"slice along {walk.name}")
    legend_below(figure, 5)
    return figure


@styled
def slices(
    along: np.ndarray,
    anchors: Sequence[str],
    values: Mapping[str, tuple[np.ndarray, np.ndarray]],
    truth: np.ndarray,
    density: np.ndarray,
    xlabel: str,
) -> Figure:
    """Mean and one deviation of Q beside true returns, and log density, from every anchor; value
    and density have one scale each."""
    figure = Figure(figsize=(2.3 * len(anchors) + 0.4, 3.8), layout="constrained")
    heights = {"height_ratios": (2, 1)}
    top, bottom = figure.subplots(
        2, len(anchors), sharex=True, sharey="row", squeeze=False, gridspec_kw=heights
    )
    for place, name in enumerate(anchors):
        for (label, (mean, std)), colour in zip(values.items(), (ORANGE, BLUE), strict=False):
            _band(top[place], along, mean[place], std[place], 1, colour, name_of(label))
        top[place].plot(along, truth[place], "k--", lw=1, label="Monte Carlo")
        top[place].set(title=name)
        bottom[place].plot(along, density[place], "k")
        bottom[place].set(xlabel=xlabel)
    top[0].set(ylabel="value")
    bottom[0].set(ylabel="log density\nof visits")
    legend_below(figure, 6)
    return figure


def _band(
    axes: Axes,
    x: np.ndarray,
    mean: np.ndarray,
    std: np.ndarray,
    width: float,
    colour: str = BLUE,
    name: str = "mean",
) -> None:
    axes.plot(x, mean, color=colour, label=name)
    deviations = f"{name} ± {width:g} std" if width != 1 else f"{name} ± std"
    low, high = mean - width * std, mean + width * std
    axes.fill_between(x, low, high, alpha=0.25, lw=0, color=colour, label=deviations)


@styled
def save(figure: Figure, note: str, path: Path) -> Path:
    """Write a figure with its scale and preset in small print."""
    add_note(figure, note, figure.legends[0] if figure.legends else None)
    return written(figure, path)
