"""The calibration study's figures and table: its cells are fits of one model to one dataset."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from devote.experiments.durations import in_words
from devote.experiments.figure import Figure
from devote.experiments.identity import digest
from devote.experiments.record import machine, read_record
from devote.loops.durable import atomic_write_text
from devote.regression import study as studies
from devote.regression import table as tables
from devote.regression.study import MEAN, PRESETS, Study
from devote.regression.tasks import GP
from devote.regression.uci import TABLES

FIGURE_MODELS = ("boot-ens", "mlp-100x2", "rfn-0.25")  # paper


@dataclass(frozen=True)
class CalibrationCell:
    """A model on all splits of a dataset."""

    study: Study
    dataset: str
    model: str

    @property
    def name(self) -> str:
        """Dataset and model."""
        return f"calibration {self.dataset} {self.model}"

    @property
    def identity(self) -> str:
        """Hash of settings, dataset and model."""
        return digest(self.study.identity() | {"dataset": self.dataset, "model": self.model})

    @property
    def record(self) -> Path:
        """Not among the results, which are found by their names."""
        return self.study.out / "records" / self.dataset / f"{self.model}.json"

    @property
    def needs(self) -> tuple["CalibrationCell", ...]:
        """Every model is judged around the separate mean."""
        return () if self.model == MEAN else (replace(self, model=MEAN),)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The same fit; then the same model; then any fit."""
        preset = f"calibration {self.study.preset}"
        return (f"{preset} {self.dataset} {self.model}", f"{preset} {self.model}", preset)

    @property
    def size(self) -> float:
        """Thousands of rows, times splits, times epochs."""
        rows = TABLES[self.dataset].shape[0] if self.dataset in TABLES else 150
        return rows * self.study.splits * self.study.training.epochs / 1000

    def finished(self) -> bool:
        """Whether the scores are there."""
        return studies.is_finished(self.study, self.dataset, self.model)

    def make(self) -> bool:
        """Fit, ask, score, write."""
        studies.compute(self.study, self.dataset, self.model)
        return True

    def progress(self) -> float:
        """Nothing is kept of a fit that was stopped."""
        return 0.0

    def seconds(self) -> None:
        """A fit is done in one sitting."""
        return

    def describe(self) -> Mapping[str, Any]:
        """Enough to do it again."""
        return {
            "command": f"python -m devote.regression.study {self.study.preset} "
            f"--datasets {self.dataset} --models {self.model}",
            "preset": self.study.preset,
            "seeds": list(range(self.study.splits)),
            "settings": self.study.identity(),
        }


def study_at(scale: str, root: Path) -> Study:
    """smoke: the GP task in seconds; desk: the paper's settings on small sets; paper: all sets."""
    preset = "smoke" if scale == "smoke" else "paper"
    study = replace(PRESETS[preset][1], out=root / "calibration" / preset)
    return replace(study, scope="fast") if scale == "desk" else study


def calibration_table(scale: str, root: Path) -> Figure:
    """tab:calibration_main: scores of every model on every dataset, beside the paper's."""
    return _figure("tab:calibration_main", "Calibration", scale, study_at(scale, root), _table)


def calibration_ablations(scale: str, root: Path) -> Figure:
    """Length scales of the RFN prior, widths and depths of the MLP prior."""
    study = replace(study_at(scale, root), rows="ablations")
    return _figure("calibration_ablations", "Calibration by prior", scale, study, _ablations)


def gp_calibration(scale: str, root: Path) -> Figure:
    """fig:gp-calibration: mean and band of three models on one draw of the GP task."""
    study = replace(study_at(scale, root), datasets=(GP,), models=FIGURE_MODELS)
    return _figure("fig:gp-calibration", "Uncertainty on a GP task", scale, study, _gp)


def prior_comparison(scale: str, root: Path) -> Figure:
    """fig:prior-comparison: functions drawn from a GP, an MLP prior and an RFN prior."""
    study = replace(study_at(scale, root), datasets=(GP,), models=())
    figure = _figure("fig:prior-comparison", "Prior functions", scale, study, _priors)
    return replace(figure, parts={})


def _figure(
    label: str, title: str, scale: str, study: Study, draw: Callable[[Study, str, Path], list[Path]]
) -> Figure:
    parts: dict[str, list[CalibrationCell]] = {}
    for dataset, model in studies.cells_of(study):
        parts.setdefault(dataset, []).append(CalibrationCell(study, dataset, model))

    def drawn(out: Path, command: str) -> list[Path]:
        out.mkdir(parents=True, exist_ok=True)
        note = f"{label}, scale {scale}, preset {study.preset}, {study.splits} splits or draws"
        paths = draw(study, note, out)
        cells = [cell for part in parts.values() for cell in part]
        if paths and label != "fig:prior-comparison":
            paths.append(_readme(cells, note, command, out))
        return paths

    return Figure(label, title, scale, Path("results") / label.split(":")[-1] / scale, parts, drawn)


def _table(study: Study, note: str, out: Path) -> list[Path]:
    asked = set(studies.cells_of(study))
    cells = [c for c in tables.collect(study.out) if (c.dataset, c.model) in asked]
    if not cells:
        return []
    text = f"{note}\n\n{tables.as_markdown(cells, study.preset)}"
    atomic_write_text(out / "table.md", text)
    atomic_write_text(out / "table.csv", tables.as_csv(cells))
    return [out / "table.md", out / "table.csv"]


def _ablations(study: Study, note: str, out: Path) -> list[Path]:
    from devote.figures import calibration as figures

    written = _table(study, note, out)
    kinds = ("rfn", "mlp") if written else ()
    return written + [
        figures.save(figures.ablation(out, kind), note, out / f"ablation-{kind}.png")
        for kind in kinds
    ]


def _gp(study: Study, note: str, out: Path) -> list[Path]:
    from devote.figures import calibration as figures

    if not all(studies.is_finished(study, GP, model) for model in FIGURE_MODELS):
        return []
    studies.write_drawings(study)
    drawn = figures.gp_calibration(study.out, FIGURE_MODELS)
    return [figures.save(drawn, note, out / "gp-calibration.png"), *_table(study, note, out)]


def _priors(study: Study, note: str, out: Path) -> list[Path]:
    from devote.figures import calibration as figures

    studies.write_drawings(study)
    return [figures.save(figures.prior_comparison(study.out), note, out / "prior-comparison.png")]


def _readme(cells: list[CalibrationCell], note: str, command: str, out: Path) -> Path:
    records = [read_record(cell.record) for cell in cells]
    known = [record for record in records if record is not None]
    machines = "; ".join(sorted({record["machine"] for record in known})) or machine()
    days = sorted({record["finished"] for record in known}) or ["unknown"]
    total = in_words(sum(record["seconds"] for record in known))
    text = (
        f"# {note}\n\n    {command}\n\n{len(known)} of {len(cells)} cells, finished {days[0]} to "
        f"{days[-1]} on {machines}, one core each: {total} of core time, without the separate "
        "means.\n"
    )
    atomic_write_text(out / "README.md", text)
    return out / "README.md"
