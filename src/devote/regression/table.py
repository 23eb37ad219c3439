"""The paper's calibration table with ours beside it."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from devote.measure.calibration import Estimate, over_splits

COLUMNS = ("concrete", "energy", "kin8nm", "naval", "protein", "power", "wine", "yacht", "gp")
TABLE_MODELS = ("boot-ens", "mlp-100x2", "rfn-0.25", "rfn-0.5")
LENGTHS = ("rfn-0.25", "rfn-0.5", "rfn-1", "rfn-2", "rfn-4")
AUROC, RHO = "auroc_y", "rho_f"
"""Headline choices: a misfit errs against the observation, the correlation is with |f - mu|."""
_BLOCKS = (
    ("AUROC, misfit OOD (misfits err against y)", AUROC),
    ("Correlation of |f - mu| and sigma", RHO),
    ("Other choice: AUROC, misfits err against f", "auroc_f"),
    ("Other choice: correlation of |y - mu| and sigma", "rho_y"),
)

PAPER = {
    ("boot-ens", AUROC): (0.762, 0.896, 0.575, 0.993, 0.633, 0.557, 0.532, 0.922, 0.931, 0.734),
    ("boot-ens", RHO): (0.365, 0.487, 0.104, 0.617, 0.158, 0.005, 0.134, 0.565, 0.410, 0.304),
    ("mlp-100x2", AUROC): (0.869, 0.816, 0.537, 1.0, 0.632, 0.608, 0.621, 0.907, 0.995, 0.749),
    ("mlp-100x2", RHO): (0.308, 0.148, 0.057, 0.552, 0.027, -0.012, 0.182, 0.155, 0.393, 0.177),
    ("rfn-0.25", AUROC): (0.924, 0.847, 0.603, 1.0, 0.779, 0.907, 0.720, 0.976, 0.997, 0.844),
    ("rfn-0.25", RHO): (0.303, 0.068, 0.029, 0.662, 0.039, 0.015, 0.140, 0.147, 0.596, 0.176),
    ("rfn-0.5", AUROC): (0.884, 0.856, 0.593, 1.0, 0.699, 0.802, 0.625, 0.956, 0.997, 0.802),
    ("rfn-0.5", RHO): (0.292, 0.114, 0.079, 0.646, 0.024, 0.012, 0.176, 0.184, 0.681, 0.191),
}
"""Table "calibration_main", in the order of `COLUMNS`, then the mean without gp."""


class Cell(NamedTuple):
    """A model on a dataset: every score over splits, and how long it took."""

    model: str
    dataset: str
    scores: dict[str, Estimate]
    seconds: float


def collect(out: Path) -> list[Cell]:
    """The finished cells below a directory."""
    cells = []
    for path in sorted(out.glob("*/*.json")):
        result = json.loads(path.read_text())
        splits = result["splits"]
        if splits:
            nan = float("nan")
            scores = {
                name: over_splits([nan if row[name] is None else row[name] for row in splits])
                for name in splits[0]
            }
            cells.append(Cell(result["model"], result["dataset"], scores, result["seconds"]))
    return cells


def mean_over_sets(cells: list[Cell], model: str, score: str) -> float:
    """Mean over the eight UCI sets; NaN while one is missing."""
    found = {cell.dataset: cell.scores[score].mean for cell in cells if cell.model == model}
    return float(np.mean([found.get(name, np.nan) for name in COLUMNS[:-1]]))


def regret(cells: list[Cell], score: str = AUROC) -> dict[str, float]:
    """Per dataset, how far the automatic length scale is below the best of the fixed ones."""
    found = {(cell.model, cell.dataset): cell.scores[score].mean for cell in cells}
    complete = [n for n in COLUMNS if all((m, n) in found for m in (*LENGTHS, "rfn-auto"))]
    return {n: max(found[m, n] for m in LENGTHS) - found["rfn-auto", n] for n in complete}


def as_csv(cells: list[Cell]) -> str:
    """One line per model, dataset and score: ours, its standard error, the paper's."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["model", "dataset", "score", "mean", "standard_error", "splits", "paper"])
    for cell in cells:
        for score, estimate in cell.scores.items():
            paper = None if "separate" in score else _paper(cell.model, score, cell.dataset)
            row = [cell.model, cell.dataset, score, *map(_number, estimate[:2]), estimate.splits]
            writer.writerow([*row, "" if paper is None else paper])
    return text.getvalue()


def as_markdown(cells: list[Cell], preset: str) -> str:
    """Ours (paper's); bold is the best of ours in a column, underlined the second."""
    names = {cell.model for cell in cells}
    models = [m for m in TABLE_MODELS if m in names] + sorted(names - set(TABLE_MODELS))
    parts = [f"Preset `{preset}`. Ours ± standard error over splits (paper).\n"]
    for title, score in _BLOCKS:
        lines = [f"\n{title}\n", "| model | " + " | ".join([*COLUMNS, "mean"]) + " |"]
        lines.append("| --- " * (len(COLUMNS) + 2) + "|")
        columns = [_column(cells, models, score, name) for name in [*COLUMNS, "mean"]]
        lines += [f"| {m} | " + " | ".join(c[m] for c in columns) + " |" for m in models]
        parts.append("\n".join(lines) + "\n")
    regrets = [f"{name} {value:.3f}" for name, value in regret(cells).items()]
    if regrets:
        parts.append(f"\nAUROC lost by the automatic length scale: {', '.join(regrets)}.\n")
    seconds = sum(cell.seconds for cell in cells)
    return "".join(parts) + f"\n{len(cells)} cells, {seconds:.0f} s of fitting and scoring.\n"


def _column(cells: list[Cell], models: list[str], score: str, name: str) -> dict[str, str]:
    """Texts of one column, marked."""
    ours: dict[str, float] = {}
    texts = {}
    for model in models:
        found = [c.scores[score] for c in cells if (c.model, c.dataset) == (model, name)]
        estimate = found[0] if found else Estimate(float("nan"), float("nan"), 0)
        if name == "mean":
            estimate = estimate._replace(mean=mean_over_sets(cells, model, score))
        ours[model] = estimate.mean
        texts[model] = "-" if np.isnan(estimate.mean) else f"{estimate.mean:.3f}"
    ranked = sorted((m for m in models if texts[m] != "-"), key=lambda m: -ours[m])
    for model, mark in zip(ranked[:2], (_bold, _underlined), strict=False):
        texts[model] = mark(texts[model])
    for model in models:
        error = [c.scores[score].error for c in cells if (c.model, c.dataset) == (model, name)]
        if error and np.isfinite(error[0]):
            texts[model] += f" ± {error[0]:.3f}"
        paper = _paper(model, score, name)
        texts[model] += "" if paper is None else f" ({paper:.3f})"
    return texts


def _paper(model: str, score: str, column: str) -> float | None:
    values = PAPER.get((model, AUROC if score.startswith("auroc") else RHO))
    return None if values is None else values[[*COLUMNS, "mean"].index(column)]


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.4f}"


_bold: Callable[[str], str] = "**{}**".format
_underlined: Callable[[str], str] = "<u>{}</u>".format
