"""Figures of the calibration study, drawn from its files, and of a calibration report."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from devote.core.errors import UserError
from devote.figures.style import add_note
from devote.measure.calibration import Estimate, over_sets
from devote.measure.report import Report

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


def gp_calibration(folder: Path, models: Sequence[str], split: int = 0) -> Figure:
    """fig:gp-calibration: mean and band of each model on one draw of the GP task."""
    task = _arrays(folder / "gp" / "task.npz")
    grid = task["grid"]
    figure = Figure(figsize=(3.2 * len(models), 2.6), layout="constrained")
    panels = figure.subplots(1, len(models), sharex=True, sharey=True, squeeze=False)[0]
    for panel, model in zip(panels, models, strict=True):
        answer = _arrays(folder / "gp" / f"{model}.npz")
        mean, std = (answer[name][split][-len(grid) :] for name in ("mean", "std"))
        panel.fill_between(grid, mean - BAND * std, mean + BAND * std, alpha=0.3, lw=0)
        panel.plot(grid, mean, label="mean")
        panel.plot(grid, task["f"][split], "k--", lw=1, label="true function")
        panel.plot(task["x"][split], task["y"][split], "k.", ms=2, label="observations")
        panel.set(title=TITLES.get(model, model), xlabel="x", ylim=(-4, 4))
    panels[0].legend(fontsize=6, loc="lower left")
    return figure


def prior_comparison(folder: Path) -> Figure:
    """fig:prior-comparison: functions drawn from a GP, an MLP prior and an RFN prior."""
    drawn = _arrays(folder / "gp" / "priors.npz")
    figure = Figure(figsize=(9.6, 2.6), layout="constrained")
    for panel, name in zip(figure.subplots(1, 3, sharex=True), ("GP", "MLP", "RFN"), strict=True):
        panel.plot(drawn["grid"], drawn[name].T, lw=1)
        panel.set(title=name, xlabel="x")
    return figure


def ablation(folder: Path, kind: str) -> Figure:
    """Mean AUROC and correlation over the finished sets against length scale or MLP width."""
    rows = _scores(folder)
    figure = Figure(figsize=(7, 2.8), layout="constrained")
    shown = {"auroc_y": "AUROC of misfits", "rho_f": "correlation of |f - mu| and sigma"}
    for panel, (score, words) in zip(figure.subplots(1, 2), shown.items(), strict=True):
        settings: set[float] = set()
        for label, points in _series(rows, kind, score).items():
            xs, ys, errors = (np.array(column) for column in zip(*sorted(points), strict=True))
            if np.isnan(xs).any():
                panel.axhline(ys[0], ls=":", color="C0" if "UCI" in label else "C1", label=label)
            else:
                color = None if kind == "mlp" else "C0" if "UCI" in label else "C1"
                panel.errorbar(
                    xs, ys, errors, marker="o", ms=4, capsize=2, label=label, color=color
                )
                settings |= set(xs.tolist())
        panel.set_xscale("log", base=2)
        panel.set_xticks(sorted(settings), [f"{setting:g}" for setting in sorted(settings)])
        panel.set(xlabel="length scale" if kind == "rfn" else "width", ylabel=words)
        panel.legend(fontsize=6)
    return figure


def draw_report(report: Report) -> Figure:
    """Error against deviation, reliability, deviations inside and outside, and the slices."""
    count = 3 + len(report.slices)
    figure = Figure(figsize=(3.2 * count, 2.8), layout="constrained")
    panels = figure.subplots(1, count)
    _draw_errors(panels[0], report)
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


def _draw_errors(panel: Axes, report: Report) -> None:
    """In the colours of the other panels; the points inside are drawn over those outside."""
    points = {"outside": ("C1", report.outside_std, report.outside_error)}
    points["inside"] = ("C0", report.inside_std, report.inside_error)
    for label, (color, std, error) in points.items():
        panel.plot(std, error, ".", ms=2, alpha=0.5, label=label, color=color)
    panel.set(xlabel="standard deviation", ylabel="absolute error")
    panel.set_title(f"correlation {report.numbers['correlation']:.3f}")


def _arrays(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise UserError(f"the file {path}", "nothing there", "run devote.regression.study first")
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def _scores(folder: Path) -> list[Mapping[str, str]]:
    path = folder / "table.csv"
    if not path.is_file():
        raise UserError(f"the file {path}", "nothing there", "run devote.regression.study first")
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def _series(
    rows: Sequence[Mapping[str, str]], kind: str, score: str
) -> dict[str, list[tuple[float, float, float]]]:
    """Lines (setting, score, standard error): the mean over UCI sets, and the GP task.

    A model without a size, the automatic length scale, has the setting NaN.
    """
    found: dict[tuple[str, float], dict[str, Estimate]] = {}
    for row in rows:
        name, _, size = row["model"].partition("-")
        if name == kind and row["score"] == score and row["mean"]:
            width, _, depth = size.partition("x")
            label = "auto, " if size == "auto" else f"depth {depth}, " if depth else ""
            setting = float("nan") if size == "auto" else float(width)
            value = Estimate(float(row["mean"]), float(row["standard_error"] or 0), 0)
            found.setdefault((label, setting), {})[row["dataset"]] = value
    lines: dict[str, list[tuple[float, float, float]]] = {}
    for (label, setting), sets in found.items():
        uci = [value for dataset, value in sets.items() if dataset != "gp"]
        if uci:
            whole = f"{label}{len(uci)} UCI sets"
            lines.setdefault(whole, []).append((setting, *over_sets(uci)[:2]))
        if "gp" in sets:
            lines.setdefault(f"{label}GP task", []).append((setting, *sets["gp"][:2]))
    return lines


def save(figure: Figure, note: str, path: Path) -> Path:
    """Write a figure with its scale and preset in small print."""
    add_note(figure, note)
    figure.savefig(path, dpi=150)
    return path
