"""The calibration study's figures and table: its cells are fits of one model to one dataset."""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from devote.core.durable import atomic_write_text
from devote.core.errors import UserError
from devote.experiments.calibration_cell import CalibrationCell, cells_at, what_they_took
from devote.experiments.figure import Figure
from devote.experiments.record import write_readme
from devote.regression import cells as files
from devote.regression import table as tables
from devote.regression.plan import PRESETS, Study, cells_of
from devote.regression.scores import Cell, read_cell
from devote.regression.tasks import AUTHORS, GP

FIGURE_MODELS = ("gp-exact", "boot-ens", "mlp-100x2", "rfn-0.25")  # paper, and the reference


def study_at(scale: str, root: Path) -> Study:
    """smoke: the GP task in seconds; desk: the paper's settings on small sets; paper: all sets."""
    preset = "smoke" if scale == "smoke" else "paper"
    study = replace(PRESETS[preset][1], out=root / "calibration" / preset)
    return replace(study, scope="fast") if scale == "desk" else study


def calibration_table(scale: str, root: Path) -> Figure:
    """tab:calibration_main: scores of every model on every dataset, beside the paper's."""
    return _figure("tab:calibration_main", "Calibration", scale, study_at(scale, root), _table)


def authors_at(scale: str, root: Path) -> Study:
    """The study at a scale with every setting of the authors' code."""
    base = study_at(scale, root)
    if scale == "smoke":
        variant = replace(AUTHORS, features=base.variant.features)
        return replace(base, variant=variant, out=base.out.with_name(f"{base.out.name}-authors"))
    return replace(base, preset="authors", variant=AUTHORS, out=base.out.with_name("authors"))


def calibration_authors(scale: str, root: Path) -> Figure:
    """The table once more, with the settings of the authors' code."""
    study = authors_at(scale, root)
    return _figure("calibration_authors", "Calibration, authors' settings", scale, study, _table)


def calibration_ablations(scale: str, root: Path) -> Figure:
    """Length scales of the RFN prior, widths and depths of the MLP prior."""
    study = replace(study_at(scale, root), rows="ablations")
    return _figure("calibration_ablations", "Calibration by prior", scale, study, _ablations)


def gp_calibration(scale: str, root: Path) -> Figure:
    """fig:gp-calibration: mean and band of three models and the exact GP on one draw."""
    study = replace(study_at(scale, root), datasets=(GP,), models=FIGURE_MODELS)
    return _figure("fig:gp-calibration", "Uncertainty on a GP task", scale, study, _gp)


def prior_comparison(scale: str, root: Path) -> Figure:
    """fig:prior-comparison: functions drawn from a GP, an MLP prior and an RFN prior."""
    study = study_at(scale, root)

    def drawn(out: Path, command: str) -> list[Path]:
        caption = note(study, "fig:prior-comparison", scale, "10 functions each")
        return [*_priors(study, caption, out), write_readme(out, caption, command)]

    out = Path("results/prior-comparison") / scale
    return Figure("fig:prior-comparison", "Prior functions", scale, out, {}, drawn)


def note(study: Study, label: str, scale: str, shown: str = "") -> str:
    """What is printed on a figure or table; `shown` where that is not every split."""
    shown = shown or f"{study.splits} splits or draws"
    return f"{label}, scale {scale}, preset {study.preset}, {shown}"


def figure_of_cells(
    label: str,
    title: str,
    scale: str,
    parts: Mapping[str, Sequence[CalibrationCell]],
    draw: Callable[[Path], list[Path]],
    caption: str,
) -> Figure:
    """A figure of calibration cells, with a README that says what they took."""
    everything = [cell for part in parts.values() for cell in part]

    def drawn(out: Path, command: str) -> list[Path]:
        out.mkdir(parents=True, exist_ok=True)
        paths = draw(out)
        if not paths:
            return []
        text = f"# {caption}\n\n    {command}\n\n{what_they_took(everything)}\n"
        atomic_write_text(out / "README.md", text)
        return [*paths, out / "README.md"]

    def outdated() -> list[str]:
        return [cell.name for cell in everything if cell.outdated()]

    out = Path("results") / label.split(":")[-1] / scale
    return Figure(label, title, scale, out, parts, drawn, outdated=outdated)


def _figure(
    label: str, title: str, scale: str, study: Study, draw: Callable[[Study, str, Path], list[Path]]
) -> Figure:
    caption = note(study, label, scale)

    def drawn(out: Path) -> list[Path]:
        return draw(study, caption, out)

    return figure_of_cells(label, title, scale, cells_at(study), drawn, caption)


def scores_of(study: Study) -> list[Cell]:
    """The finished cells that a study asks for, of its own settings only."""
    return [read_cell(result) for result in files.results_of(study, cells_of(study))]


def _table(study: Study, caption: str, out: Path) -> list[Path]:
    cells = scores_of(study)
    if not cells:
        return []
    _require_all_of(out / "table.csv", cells)
    text = f"{caption}\n\n{tables.as_markdown(cells, study.preset)}"
    atomic_write_text(out / "table.md", text)
    atomic_write_text(out / "table.csv", tables.as_csv(cells))
    return [out / "table.md", out / "table.csv"]


def _require_all_of(table: Path, cells: Sequence[Cell]) -> None:
    """Refuse to write a table over one that holds more."""
    if not table.is_file():
        return
    with open(table, newline="") as file:
        held = {(row["model"], row["dataset"]) for row in csv.DictReader(file)}
    here = {(cell.model, cell.dataset) for cell in cells}
    lost = sorted(cell for cell in held - here if cell[1] != "mean")
    if lost:
        refuse_less(table, f"all but {len(lost)}, such as {' on '.join(lost[0])}")


def refuse_less(table: Path, got: str) -> NoReturn:
    """A table stays as it is when there is less to write."""
    fix = "run them all, name another --out, or delete the table"
    raise UserError(f"on this disk every cell that is in {table}", got, fix)


def _ablations(study: Study, caption: str, out: Path) -> list[Path]:
    from devote.figures import calibration as figures

    written = _table(study, caption, out)
    kinds = ("rfn", "mlp") if written else ()
    return written + [
        figures.save(figures.ablation(out, kind), caption, out / f"ablation-{kind}.png")
        for kind in kinds
    ]


def _gp(study: Study, caption: str, out: Path) -> list[Path]:
    from devote.figures import calibration as figures

    if not all(files.is_finished(study, GP, model) for model in FIGURE_MODELS):
        return []
    written = _table(study, caption, out)
    files.write_drawings(study)
    shown = f"draw 0 of {study.splits}, bands of {figures.BAND:g} standard deviations"
    drawn = figures.gp_calibration(study.out, FIGURE_MODELS)
    path = out / "gp-calibration.png"
    return [figures.save(drawn, f"{caption}; {shown}", path), *written]


def _priors(study: Study, caption: str, out: Path) -> list[Path]:
    from devote.figures import calibration as figures

    out.mkdir(parents=True, exist_ok=True)
    files.write_drawings(study)
    drawn = figures.prior_comparison(study.out)
    return [figures.save(drawn, caption, out / "prior-comparison.png")]
