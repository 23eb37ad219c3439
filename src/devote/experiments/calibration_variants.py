"""What each choice between the paper's text and the authors' code does to the table."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from devote.core.durable import atomic_write_text
from devote.experiments.calibration import (
    authors_at,
    figure_of_cells,
    note,
    refuse_less,
    scores_of,
    study_at,
)
from devote.experiments.calibration_cell import cells_at
from devote.experiments.figure import Figure
from devote.measure.calibration import over_sets
from devote.regression.cells import result_path
from devote.regression.plan import Study
from devote.regression.scores import AUROC, REFERENCE, RHO, Cell
from devote.regression.store import read_arrays
from devote.regression.table import TABLE_MODELS, paper_mean
from devote.regression.tasks import AUTHORS, ENSEMBLE, GP, judged

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
SHARE = "sigma_share"
EMPTY = "| - "
"""An entry of the table whose cells are not finished."""


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
        found = {
            name: [with_shares(study, cell) for cell in scores_of(study)]
            for name, study in studies.items()
        }
        if not any(found.values()):
            return []
        datasets, path = studies["paper"].chosen_datasets(), out / "table.md"
        text = f"{caption}\n\n{as_markdown(found, datasets)}"
        _require_no_less(path, text)
        atomic_write_text(path, text)
        return [path]

    return figure_of_cells(LABEL, "Calibration by variant", scale, parts, draw, caption)


def _require_no_less(path: Path, text: str) -> None:
    """Refuse to write a table over one with fewer empty entries."""
    lost = text.count(EMPTY) - path.read_text().count(EMPTY) if path.is_file() else 0
    if lost > 0:
        refuse_less(path, f"fewer, by {lost} of its entries")


def with_shares(study: Study, cell: Cell) -> Cell:
    """A cell with what its sigma keeps where there is data: by split the median inside the training
    distribution over the median in the gap."""
    std = read_arrays(result_path(study, cell.dataset, cell.model).with_suffix(".npz"))["std"]
    inside, outside = judged(cell.dataset)
    medians = [np.median(part, axis=1) for part in np.split(std, [inside, inside + outside], 1)[:2]]
    return cell._replace(splits={**cell.splits, SHARE: (medians[0] / medians[1]).tolist()})


def as_markdown(found: dict[str, list[Cell]], datasets: Sequence[str]) -> str:
    """Scores, then shares, of the UCI sets together and of the GP task; variant by model."""
    uci = [name for name in datasets if name != GP]
    sets = {f"Mean of {', '.join(uci)}": uci, "GP task": [GP] if GP in datasets else []}
    parts = ["Each entry: AUROC (misfits err against y) / correlation of |f - mu| and sigma.\n"]
    parts += [_block(title, found, names, (AUROC, RHO)) for title, names in sets.items() if names]
    parts.append(
        "Each entry: median sigma inside the training distribution over that in the gap.\n"
    )
    parts += [_block(title, found, names, (SHARE,)) for title, names in sets.items() if names]
    return "\n".join(parts)


def _block(
    title: str, found: dict[str, list[Cell]], datasets: Sequence[str], scores: Sequence[str]
) -> str:
    lines = [f"{title}\n", "| variant | " + " | ".join(MODELS) + " |"]
    lines.append("| --- " * (len(MODELS) + 1) + "|")
    for variant, cells in found.items():
        texts = [_entry(variant, cells, model, datasets, scores) for model in MODELS]
        lines.append(f"| {variant} | " + " | ".join(texts) + " |")
    if SHARE not in scores:
        theirs = [[paper_mean(model, score, datasets) for score in scores] for model in MODELS]
        texts = [" / ".join("-" if v is None else f"{v:.3f}" for v in pair) for pair in theirs]
        lines.append("| printed in the paper | " + " | ".join(texts) + " |")
    return "\n".join(lines) + "\n"


def _entry(
    variant: str, cells: Sequence[Cell], model: str, datasets: Sequence[str], scores: Sequence[str]
) -> str:
    if model not in ALONE.get(variant, MODELS):
        return "as paper"
    mine = {cell.dataset: cell for cell in cells if cell.model == model}
    if any(name not in mine for name in datasets):
        return "-"
    return " / ".join(
        _number(*over_sets([mine[name].estimate(score) for name in datasets])[:2])
        for score in scores
    )


def _number(mean: float, error: float) -> str:
    if np.isnan(mean):
        return "-"
    return f"{mean:.3f}" + (f" ± {error:.3f}" if np.isfinite(error) else "")
