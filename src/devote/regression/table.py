"""Scores of the models over splits and datasets, and our calibration table beside the paper's."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from devote.measure.calibration import Estimate, correlation, misfit_auroc, over_sets, over_splits
from devote.regression.data import GP, Dataset, Split
from devote.regression.models import AUTO, ENSEMBLE, LENGTHS, REFERENCE, ModelSpec, parse_model
from devote.regression.uci import TABLES

UCI = tuple(TABLES)
COLUMNS = (*UCI, GP)
MLP_PRIOR = ModelSpec("mlp", (100, 2))
TABLE_MODELS = (ENSEMBLE, MLP_PRIOR, *LENGTHS[:2], REFERENCE)
AUROC, RHO, POOLED = "auroc_y", "rho_f", "pooled_rho_f"
"""Our headline scores: misfits by the error against y, and the correlation with |f - mu|."""
BLOCKS = (
    ("AUROC, misfit OOD (misfits err against y)", AUROC),
    ("Correlation of |f - mu| and sigma", RHO),
    ("Other choice: AUROC, misfits err against f", "auroc_f"),
    ("Other choice: correlation of |y - mu| and sigma", "rho_y"),
    ("Other choice: one correlation of |f - mu| and sigma over the points of all splits", POOLED),
)
PAPER = {
    (ENSEMBLE, AUROC): (0.762, 0.896, 0.575, 0.993, 0.633, 0.557, 0.532, 0.922, 0.931, 0.734),
    (ENSEMBLE, RHO): (0.365, 0.487, 0.104, 0.617, 0.158, 0.005, 0.134, 0.565, 0.410, 0.304),
    (MLP_PRIOR, AUROC): (0.869, 0.816, 0.537, 1.0, 0.632, 0.608, 0.621, 0.907, 0.995, 0.749),
    (MLP_PRIOR, RHO): (0.308, 0.148, 0.057, 0.552, 0.027, -0.012, 0.182, 0.155, 0.393, 0.177),
    (LENGTHS[0], AUROC): (0.924, 0.847, 0.603, 1.0, 0.779, 0.907, 0.720, 0.976, 0.997, 0.844),
    (LENGTHS[0], RHO): (0.303, 0.068, 0.029, 0.662, 0.039, 0.015, 0.140, 0.147, 0.596, 0.176),
    (LENGTHS[1], AUROC): (0.884, 0.856, 0.593, 1.0, 0.699, 0.802, 0.625, 0.956, 0.997, 0.802),
    (LENGTHS[1], RHO): (0.292, 0.114, 0.079, 0.646, 0.024, 0.012, 0.176, 0.184, 0.681, 0.191),
}
"""Table "calibration_main", in the order of `COLUMNS`, then the mean without gp."""


def score(data: Dataset, mean: np.ndarray, std: np.ndarray) -> list[dict[str, float]]:
    """Per split: AUROC and correlation, with errors against the observations y and against f."""
    rows = []
    for split, mu, sigma in zip(data.splits, mean, std, strict=True):
        count, scores = len(split.inside.y), {}
        for name in ("y", "f"):
            error, tested = _errors(split, name, mu), sigma[: count + len(split.outside.y)]
            scores[f"auroc_{name}"] = misfit_auroc(
                error[:count], tested[:count], error[count:], tested[count:]
            )
            scores[f"rho_{name}"] = correlation(error, tested)
        rows.append(scores)
    return rows


def pooled(data: Dataset, mean: np.ndarray, std: np.ndarray) -> dict[str, float]:
    """One correlation over the points of all splits, with errors against y and against f."""
    found = {}
    for name in ("y", "f"):
        errors = [_errors(split, name, mu) for split, mu in zip(data.splits, mean, strict=True)]
        sigmas = [sigma[: len(error)] for sigma, error in zip(std, errors, strict=True)]
        found[f"rho_{name}"] = correlation(np.concatenate(errors), np.concatenate(sigmas))
    return found


def _errors(split: Split, name: str, mean: np.ndarray) -> np.ndarray:
    """Errors of a mean against y or f, at the points inside, then outside."""
    target = np.concatenate([getattr(points, name) for points in (split.inside, split.outside)])
    return target - mean[: len(target)]


class ModelScores(NamedTuple):
    """All scores of a model on a dataset."""

    model: ModelSpec
    dataset: str
    splits: Mapping[str, Sequence[float]]
    seconds: float = 0.0
    pooled: Mapping[str, float] = {}
    """Scores over the points of all splits."""
    lengths: Sequence[float] = ()
    """The automatic length scale's choice in every split."""

    def estimate(self, score: str) -> Estimate:
        """Over the splits that have a value; NaN for an unknown score."""
        if score in self.pooled:
            return Estimate(self.pooled[score], float("nan"), self.num_splits)
        return over_splits(self.splits.get(score, ()))

    @property
    def num_splits(self) -> int:
        """Number of splits, with a value or without."""
        return len(next(iter(self.splits.values()), ()))


def read_scores(result: Mapping[str, Any]) -> ModelScores:
    """The scores in a cell's file."""
    nan, rows = float("nan"), result["splits"]
    splits = {name: [nan if row[name] is None else row[name] for row in rows] for name in rows[0]}
    pooled = {f"pooled_{n}": nan if v is None else v for n, v in result["pooled"].items()}
    lengths = result.get("lengths", ())
    return ModelScores(
        parse_model(result["model"]), result["dataset"], splits, result["seconds"], pooled, lengths
    )


class RecordedScores(NamedTuple):
    """The estimates of a model on a dataset, as in a table."""

    model: ModelSpec
    dataset: str
    estimates: Mapping[str, Estimate]

    def estimate(self, score: str) -> Estimate:
        """As `ModelScores.estimate`."""
        return self.estimates.get(score, Estimate(float("nan"), float("nan"), 0))


def read_csv(text: str) -> list[RecordedScores]:
    """The estimates in a `table.csv`."""
    found: dict[tuple[str, str], dict[str, Estimate]] = {}
    for row in csv.DictReader(io.StringIO(text)):
        mean, error = (float(row[name] or "nan") for name in ("mean", "standard_error"))
        scores = found.setdefault((row["model"], row["dataset"]), {})
        scores[row["score"]] = Estimate(mean, error, int(row["splits"]))
    return [RecordedScores(parse_model(m), d, e) for (m, d), e in found.items() if d in COLUMNS]


def find(cells: Sequence[ModelScores], model: ModelSpec, score: str, column: str) -> Estimate:
    """A model's score on a dataset, or for "mean" over all UCI sets of the cells."""
    found = {c.dataset: c.estimate(score) for c in cells if c.model == model}
    nothing = Estimate(float("nan"), float("nan"), 0)
    if column == "mean":
        there = {cell.dataset for cell in cells}
        return over_sets([found.get(name, nothing) for name in UCI if name in there])
    return found.get(column, nothing)


def regret(cells: Sequence[ModelScores], score: str = AUROC) -> dict[str, Estimate]:
    """How far the automatic length is below the best fixed one, per dataset, and "mean" over the
    UCI sets. The best has the highest mean; the standard error is that of the paired difference."""
    found = {(c.model, c.dataset): np.asarray(c.splits[score]) for c in cells if c.splits}
    complete = [n for n in COLUMNS if all((m, n) in found for m in (*LENGTHS, AUTO))]
    regrets = {}
    for name in complete:
        means = {m: over_splits(found[m, name].tolist()).mean for m in LENGTHS}
        best = max(LENGTHS, key=lambda m: np.nan_to_num(means[m], nan=-np.inf))
        regrets[name] = over_splits((found[best, name] - found[AUTO, name]).tolist())
    sets = [regrets[name] for name in complete if name in UCI]
    return regrets | ({"mean": over_sets(sets)} if sets else {})


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table, without final newline."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def as_csv(cells: Sequence[ModelScores]) -> str:
    """One line per model, dataset and score: ours, standard error, the paper's."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["model", "dataset", "score", "mean", "standard_error", "splits", "paper"])
    for cell in cells:
        for score in (*cell.splits, *cell.pooled):
            estimate = cell.estimate(score)
            paper = None if "separate" in score else _paper(cell.model, score, cell.dataset)
            row = [cell.model, cell.dataset, score, *map(_number, estimate[:2]), estimate.splits]
            writer.writerow([*row, "" if paper is None else paper])
    for name, lost in regret(cells).items():
        writer.writerow([AUTO, name, f"regret_{AUROC}", *map(_number, lost[:2]), lost.splits, ""])
    return text.getvalue()


def splits_csv(cells: Sequence[ModelScores]) -> str:
    """Every score of every split, from which each entry of the table can be recomputed."""
    lines = ["model,dataset,score,split,value"]
    for cell in cells:
        for name, values in cell.splits.items():
            start = f"{cell.model},{cell.dataset},{name}"
            lines += [f"{start},{split},{_number(value)}" for split, value in enumerate(values)]
    return "\n".join(lines) + "\n"


def as_markdown(cells: Sequence[ModelScores], preset: str) -> str:
    """Ours (paper's); our best model in a column is bold, the second underlined."""
    names = {cell.model for cell in cells}
    others = sorted(names - set(TABLE_MODELS), key=_order)
    models = [m for m in TABLE_MODELS if m in names] + others
    there = [name for name in COLUMNS if any(cell.dataset == name for cell in cells)]
    sets = _sets(cells)
    over = "the eight UCI sets" if len(sets) == len(UCI) else ", ".join(sets)
    parts = [
        f"Preset `{preset}`. Ours ± standard error over splits (paper). (n=7): only so many splits "
        f"have a value.{f' The mean is over {over}.' if sets else ''}\n"
    ]
    columns = [*there, *(["mean"] if sets else [])]
    for title, score in BLOCKS:
        texts = [_column(cells, models, score, name) for name in columns]
        rows = [[model, *(column[model] for column in texts)] for model in models]
        parts.append(f"\n{title}\n\n{markdown_table(['model', *columns], rows)}\n")
    seconds = sum(cell.seconds for cell in cells)
    parts += [_regrets(cells), f"\n{len(cells)} cells, {seconds:.0f} s of fitting and scoring.\n"]
    return "".join(parts)


def _sets(cells: Sequence[ModelScores]) -> list[str]:
    """The UCI sets among the cells."""
    return [name for name in UCI if any(cell.dataset == name for cell in cells)]


def _order(model: ModelSpec) -> tuple[str, list[float]]:
    """By kind, then by depth and width, or by length, the automatic one last."""
    return model.kind, [*reversed(model.size)] or [float("inf")]


def _regrets(cells: Sequence[ModelScores]) -> str:
    """The automatic length scale's choices and regret; empty if there are none."""
    lost = regret(cells)
    if not lost:
        return ""
    chosen = {cell.dataset: cell.lengths for cell in cells if cell.model == AUTO}
    rows = []
    for name, estimate in lost.items():
        label = f"mean of {estimate.splits} UCI sets" if name == "mean" else name
        lengths = ", ".join(f"{length:g}" for length in chosen.get(name, ()))
        rows.append((label, with_error(estimate), lengths))
    table = markdown_table(("set", "regret", "chosen in the splits"), rows)
    return f"\nAUROC that the automatic length scale loses against the best fixed one\n\n{table}\n"


def _column(
    cells: Sequence[ModelScores], models: list[ModelSpec], score: str, name: str
) -> dict[ModelSpec, str]:
    """Entries of one column, the best two marked."""
    ours = {model: find(cells, model, score, name) for model in models}
    sets = _sets(cells) if name == "mean" else [name]
    counts = {cell.model: cell.num_splits for cell in cells if cell.dataset == name}
    rivals = [m for m in models if not np.isnan(ours[m].mean) and m != REFERENCE]
    ranked = sorted(rivals, key=lambda m: -ours[m].mean)
    marks = dict(zip(ranked, ("**{}**", "<u>{}</u>"), strict=False))
    texts = {m: with_error(estimate, marks.get(m, "{}")) for m, estimate in ours.items()}
    for model, estimate in ours.items():
        if estimate.splits < counts.get(model, 0):
            texts[model] += f" (n={estimate.splits})"
        paper = paper_mean(model, score, sets)
        texts[model] += "" if paper is None else f" ({paper:.3f})"
    return texts


def with_error(estimate: Estimate, mark: str = "{}") -> str:
    """The mean with its standard error, if they exist."""
    mean = "-" if np.isnan(estimate.mean) else f"{estimate.mean:.3f}"
    error = f" ± {estimate.error:.3f}" if np.isfinite(estimate.error) else ""
    return mark.format(mean) + error


def _paper(model: ModelSpec, score: str, column: str) -> float | None:
    values = PAPER.get((model, AUROC if score.startswith("auroc") else RHO))
    return None if values is None else values[[*COLUMNS, "mean"].index(column)]


def paper_mean(model: ModelSpec, score: str, sets: Sequence[str]) -> float | None:
    """The paper's mean of the eight UCI sets as printed, or of its columns for fewer sets."""
    if set(sets) == set(UCI):
        return _paper(model, score, "mean")
    values = [_paper(model, score, name) for name in sets]
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.4f}"
