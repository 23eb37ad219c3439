"""What each choice between the paper's text and the authors' code does to the table."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from devote.experiments.calibration import (
    authors_at,
    figure_of_cells,
    note,
    scores_of,
    study_at,
)
from devote.experiments.calibration_cell import cells_at
from devote.experiments.figure import Figure
from devote.loops.durable import atomic_write_text
from devote.regression.plan import Study
from devote.regression.scores import AUROC, RHO, Cell, over_sets
from devote.regression.table import REFERENCE, TABLE_MODELS, paper_mean
from devote.regression.tasks import AUTHORS, ENSEMBLE, GP

LABEL = "calibration_variants"
MODELS = tuple(model for model in TABLE_MODELS if model != REFERENCE)
FOURIER = tuple(model for model in MODELS if model.startswith("rfn"))
ALONE = {
    "readout": FOURIER,
    "trains": FOURIER,
    "init": MODELS,
    "ties": MODELS,
    "ensemble_loss": (ENSEMBLE,),
}
"""Settings that are changed to the authors' one at a time, and the models that they touch."""


def variant_studies(scale: str, root: Path) -> dict[str, Study]:
    """The study by variant: the paper's, each of the authors' choices alone, and all of them."""
    base = replace(study_at(scale, root), models=MODELS)
    studies = {"paper": base}
    for name, models in ALONE.items():
        variant = replace(base.variant, **{name: vars(AUTHORS)[name]})
        out = base.out.with_name(f"{base.out.name}-{name}")
        studies[name] = replace(base, variant=variant, models=models, out=out)
    return studies | {"authors": replace(authors_at(scale, root), models=MODELS)}


def calibration_variants(scale: str, root: Path) -> Figure:
    """Mean AUROC and correlation of every model by variant, on the datasets of the scale."""
    studies = variant_studies(scale, root)
    parts = {
        name: [cell for part in cells_at(study).values() for cell in part]
        for name, study in studies.items()
    }
    caption = note(studies["paper"], LABEL, scale)

    def draw(out: Path) -> list[Path]:
        found = {name: scores_of(study) for name, study in studies.items()}
        if not any(found.values()):
            return []
        datasets = studies["paper"].chosen_datasets()
        atomic_write_text(out / "table.md", f"{caption}\n\n{as_markdown(found, datasets)}")
        return [out / "table.md"]

    return figure_of_cells(LABEL, "Calibration by variant", scale, parts, draw, caption)


def as_markdown(found: dict[str, list[Cell]], datasets: Sequence[str]) -> str:
    """Two tables, the mean of the UCI sets and the GP task; variant by model."""
    uci = [name for name in datasets if name != GP]
    parts = ["Each entry: AUROC (misfits err against y) / correlation of |f - mu| and sigma.\n"]
    if uci:
        parts.append(_block(f"Mean of {', '.join(uci)}", found, uci))
    if GP in datasets:
        parts.append(_block("GP task", found, [GP]))
    return "\n".join(parts)


def _block(title: str, found: dict[str, list[Cell]], datasets: Sequence[str]) -> str:
    lines = [f"{title}\n", "| variant | " + " | ".join(MODELS) + " |"]
    lines.append("| --- " * (len(MODELS) + 1) + "|")
    for variant, cells in found.items():
        texts = [_entry(variant, cells, model, datasets) for model in MODELS]
        lines.append(f"| {variant} | " + " | ".join(texts) + " |")
    theirs = [[paper_mean(model, score, datasets) for score in (AUROC, RHO)] for model in MODELS]
    texts = [" / ".join("-" if v is None else f"{v:.3f}" for v in pair) for pair in theirs]
    lines.append("| printed in the paper | " + " | ".join(texts) + " |")
    return "\n".join(lines) + "\n"


def _entry(variant: str, cells: Sequence[Cell], model: str, datasets: Sequence[str]) -> str:
    if model not in ALONE.get(variant, MODELS):
        return "as paper"
    mine = {cell.dataset: cell for cell in cells if cell.model == model}
    if any(name not in mine for name in datasets):
        return "-"
    return " / ".join(
        _number(*over_sets([mine[name].estimate(score) for name in datasets])[:2])
        for score in (AUROC, RHO)
    )


def _number(mean: float, error: float) -> str:
    if np.isnan(mean):
        return "-"
    return f"{mean:.3f}" + (f" ± {error:.3f}" if np.isfinite(error) else "")
