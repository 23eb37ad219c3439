"""The paper's calibration table with ours beside it."""

import csv
import io
from collections.abc import Callable, Sequence

import numpy as np

from devote.measure.calibration import Estimate
from devote.regression.scores import (
    AUROC,
    AUTO,
    COLUMNS,
    POOLED,
    REFERENCE,
    RHO,
    UCI,
    Cell,
    find,
    regret,
)

TABLE_MODELS = ("boot-ens", "mlp-100x2", "rfn-0.25", "rfn-0.5", REFERENCE)
_BLOCKS = (
    ("AUROC, misfit OOD (misfits err against y)", AUROC),
    ("Correlation of |f - mu| and sigma", RHO),
    ("Other choice: AUROC, misfits err against f", "auroc_f"),
    ("Other choice: correlation of |y - mu| and sigma", "rho_y"),
    ("Other choice: one correlation of |f - mu| and sigma over the points of all splits", POOLED),
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


def as_csv(cells: Sequence[Cell]) -> str:
    """One line per model, dataset and score: ours, its standard error, the paper's."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["model", "dataset", "score", "mean", "standard_error", "splits", "paper"])
    for cell in cells:
        for score in cell.scores:
            estimate = cell.estimate(score)
            paper = None if "separate" in score else _paper(cell.model, score, cell.dataset)
            row = [cell.model, cell.dataset, score, *map(_number, estimate[:2]), estimate.splits]
            writer.writerow([*row, "" if paper is None else paper])
    for name, lost in regret(cells).items():
        writer.writerow([AUTO, name, f"regret_{AUROC}", *map(_number, lost[:2]), lost.splits, ""])
    return text.getvalue()


def as_markdown(cells: Sequence[Cell], preset: str) -> str:
    """Ours (paper's); bold is the best of ours in a column, underlined the second."""
    names = {cell.model for cell in cells}
    others = sorted(names - set(TABLE_MODELS), key=_by_size)
    models = [m for m in TABLE_MODELS if m in names] + others
    there = [name for name in COLUMNS if any(cell.dataset == name for cell in cells)]
    sets = _sets(cells)
    over = "the eight UCI sets" if len(sets) == len(UCI) else ", ".join(sets)
    parts = [
        f"Preset `{preset}`. Ours ± standard error over splits (paper). (n=7): only so many splits "
        f"have a value.{f' The mean is over {over}.' if sets else ''}\n"
    ]
    columns = [*there, *(["mean"] if sets else [])]
    for title, score in _BLOCKS:
        lines = [f"\n{title}\n", *_header(["model", *columns])]
        texts = [_column(cells, models, score, name) for name in columns]
        lines += [f"| {m} | " + " | ".join(c[m] for c in texts) + " |" for m in models]
        parts.append("\n".join(lines) + "\n")
    seconds = sum(cell.seconds for cell in cells)
    parts += [_regrets(cells), f"\n{len(cells)} cells, {seconds:.0f} s of fitting and scoring.\n"]
    return "".join(parts)


def _sets(cells: Sequence[Cell]) -> list[str]:
    """The UCI sets that there are cells of."""
    return [name for name in UCI if any(cell.dataset == name for cell in cells)]


def _by_size(model: str) -> tuple[str, list[float], str]:
    """Kinds apart; within one by depth and width, or by length, and the rest last."""
    kind, _, size = model.partition("-")
    try:
        return kind, [float(part) for part in reversed(size.split("x"))], model
    except ValueError:
        return kind, [float("inf")], model


def _regrets(cells: Sequence[Cell]) -> str:
    """What the automatic length scale chose and what that cost; nothing where it is not known."""
    lost = regret(cells)
    if not lost:
        return ""
    chosen = {cell.dataset: cell.lengths for cell in cells if cell.model == AUTO}
    lines = ["\nAUROC that the automatic length scale loses against the best fixed one\n"]
    lines += _header(["set", "regret", "chosen in the splits"])
    for name, estimate in lost.items():
        label = f"mean of {estimate.splits} UCI sets" if name == "mean" else name
        lengths = ", ".join(f"{length:g}" for length in chosen.get(name, ()))
        lines.append(f"| {label} | {_text(estimate)}{_error(estimate)} | {lengths} |")
    return "\n".join(lines) + "\n"


def _header(names: list[str]) -> list[str]:
    return ["| " + " | ".join(names) + " |", "| --- " * len(names) + "|"]


def _column(cells: Sequence[Cell], models: list[str], score: str, name: str) -> dict[str, str]:
    """Texts of one column, marked."""
    ours = {model: find(cells, model, score, name) for model in models}
    sets = _sets(cells) if name == "mean" else [name]
    asked = {cell.model: cell.asked for cell in cells if cell.dataset == name}
    texts = {model: _text(estimate) for model, estimate in ours.items()}
    rivals = [m for m in models if texts[m] != "-" and m != REFERENCE]
    ranked = sorted(rivals, key=lambda m: -ours[m].mean)
    for model, mark in zip(ranked[:2], (_bold, _underlined), strict=False):
        texts[model] = mark(texts[model])
    for model, estimate in ours.items():
        texts[model] += _error(estimate)
        if estimate.splits < asked.get(model, 0):
            texts[model] += f" (n={estimate.splits})"
        paper = paper_mean(model, score, sets)
        texts[model] += "" if paper is None else f" ({paper:.3f})"
    return texts


def _text(estimate: Estimate) -> str:
    return "-" if np.isnan(estimate.mean) else f"{estimate.mean:.3f}"


def _error(estimate: Estimate) -> str:
    return f" ± {estimate.error:.3f}" if np.isfinite(estimate.error) else ""


def _paper(model: str, score: str, column: str) -> float | None:
    values = PAPER.get((model, AUROC if score.startswith("auroc") else RHO))
    return None if values is None else values[[*COLUMNS, "mean"].index(column)]


def paper_mean(model: str, score: str, sets: Sequence[str]) -> float | None:
    """The paper's own mean of the eight UCI sets, or that of its columns for fewer sets."""
    if set(sets) == set(UCI):
        return _paper(model, score, "mean")
    values = [_paper(model, score, name) for name in sets]
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.4f}"


_bold: Callable[[str], str] = "**{}**".format
_underlined: Callable[[str], str] = "<u>{}</u>".format
