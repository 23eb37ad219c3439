"""Figures of the calibration study and of a calibration report."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from devote.figures.style import add_note, styled
from devote.measure.calibration import CalibrationReport, Estimate

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
    colour: str | None = None
    """None for the next one of the style."""


@styled
def gp_calibration(
    task: Mapping[str, np.ndarray], answers: Mapping[str, Mapping[str, np.ndarray]], split: int = 0
) -> Figure:
    """fig:gp-calibration: mean and band of each model on one draw of the GP task."""
    grid = task["grid"]
    figure = Figure(figsize=(3.2 * len(answers), 2.6), layout="constrained")
    panels = figure.subplots(1, len(answers), sharex=True, sharey=True, squeeze=False)[0]
    for panel, (model, answer) in zip(panels, answers.items(), strict=True):
        mean, std = (answer[name][split][-len(grid) :] for name in ("mean", "std"))
        panel.fill_between(grid, mean - BAND * std, mean + BAND * std, alpha=0.3, lw=0)
        panel.plot(grid, mean, label="mean")
        panel.plot(grid, task["f"][split], "k--", lw=1, label="true function")
        panel.plot(task["x"][split], task["y"][split], "k.", ms=2, label="observations")
        panel.set(title=TITLES.get(model, model), xlabel="x", ylim=(-4, 4))
    panels[0].legend(fontsize=6, loc="lower left")
    return figure


@styled
def prior_comparison(draws: Mapping[str, np.ndarray]) -> Figure:
    """fig:prior-comparison: functions drawn from a GP, an MLP prior and an RFN prior."""
    figure = Figure(figsize=(9.6, 2.6), layout="constrained")
    for panel, name in zip(figure.subplots(1, 3, sharex=True), ("GP", "MLP", "RFN"), strict=True):
        panel.plot(draws["grid"], draws[name].T, lw=1)
        panel.set(title=name, xlabel="x")
    return figure


@styled
def ablation(scores: Mapping[str, Sequence[Series]], xlabel: str) -> Figure:
    """Each score in a panel of its own, against length scale or width."""
    figure = Figure(figsize=(7, 2.8), layout="constrained")
    panels = figure.subplots(1, len(scores), squeeze=False)[0]
    for panel, (ylabel, lines) in zip(panels, scores.items(), strict=True):
        settings: set[float] = set()
        for label, points, colour in lines:
            if isinstance(points, Estimate):
                panel.axhline(points.mean, ls=":", color=colour, label=label)
                continue
            xs = sorted(points)
            ys, errors = ([points[x][part] for x in xs] for part in (0, 1))
            panel.errorbar(xs, ys, errors, marker="o", ms=4, capsize=2, label=label, color=colour)
            settings |= set(xs)
        panel.set_xscale("log", base=2)
        panel.set_xticks(sorted(settings), [f"{setting:g}" for setting in sorted(settings)])
        panel.set(xlabel=xlabel, ylabel=ylabel)
        panel.legend(fontsize=6)
    return figure


@styled
def draw_report(report: CalibrationReport) -> Figure:
    """Error against deviation, reliability, deviations inside and outside, and the slices."""
    count = 3 + len(report.slices)
    figure = Figure(figsize=(3.2 * count, 2.8), layout="constrained")
    panels = figure.subplots(1, count)
    # in the colours of the other panels; the points inside are drawn over those outside
    for label, colour in (("outside", "C1"), ("inside", "C0")):
        std, error = (getattr(report, f"{label}_{part}") for part in ("std", "error"))
        panels[0].plot(std, error, ".", ms=2, alpha=0.5, label=label, color=colour)
    panels[0].set(xlabel="standard deviation", ylabel="absolute error")
    panels[0].set_title(f"correlation {report.numbers['correlation']:.3f}")
    panels[1].plot([0, 1], [0, 1], "k:", lw=1)
    panels[1].plot(report.levels, report.inside_coverage, label="inside")
    panels[1].plot(report.levels, report.outside_coverage, label="outside")
    panels[1].set(xlabel="claimed coverage", ylabel="observed coverage")
    panels[1].legend(fontsize=6)
    everything = np.concatenate([report.inside_std, report.outside_std])
    bins = np.histogram_bin_edges(everything, 30).tolist()
    panels[2].hist(report.inside_std, bins, density=True, alpha=0.5, label="inside")
    panels[2].hist(report.outside_std, bins, density=True, alpha=0.5, label="outside")
    panels[2].set(xlabel="standard deviation", title=f"AUROC {report.numbers['auroc']:.3f}")
    for panel, walk in zip(panels[3:], report.slices, strict=True):
        low, high = walk.mean - BAND * walk.std, walk.mean + BAND * walk.std
        panel.fill_between(walk.x, low, high, alpha=0.3, lw=0)
        panel.plot(walk.x, walk.mean)
        panel.set(xlabel=walk.name)
    return figure


@styled
def save(figure: Figure, note: str, path: Path) -> Path:
    """Write a figure with its scale and preset in small print."""
    add_note(figure, note)
    figure.savefig(path, dpi=150)
    return path
