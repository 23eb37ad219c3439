"""A cell of the calibration study for the runner, and what all its cells together took."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from devote.experiments.durations import in_words
from devote.experiments.record import machine, read_record
from devote.regression import cells, plan
from devote.regression.plan import Study
from devote.regression.uci import TABLES


@dataclass(frozen=True)
class CalibrationCell:
    """A model on all splits of a dataset."""

    study: Study
    dataset: str
    model: str

    @property
    def name(self) -> str:
        """Where it goes, dataset and model."""
        return f"calibration {self.study.out.name} {self.dataset} {self.model}"

    @property
    def identity(self) -> str:
        """The name of its place, and the hash of settings, dataset and model: studies in different
        places share no results, though a cell may have the same settings in both."""
        return f"{self.study.out.name}-{plan.identity(self.study, self.dataset, self.model)}"

    @property
    def record(self) -> Path:
        """Not among the results, which are found by their names."""
        return self.study.out / "records" / self.dataset / f"{self.model}.json"

    @property
    def needs(self) -> tuple["CalibrationCell", ...]:
        """The separate mean; for the automatic length the cells it is put together from."""
        return tuple(replace(self, model=model) for model in plan.needs(self.model))

    @property
    def kinds(self) -> tuple[str, ...]:
        """The same fit; then the same model; then any fit."""
        variant = f"calibration {self.study.out.name}"
        own = (f"{variant} {self.dataset} {self.model}", f"{variant} {self.model}")
        return (*own, f"calibration {self.study.preset}")

    @property
    def size(self) -> float:
        """Thousands of rows, times splits, times epochs, in units of an ensemble; 0 for no fit."""
        if not cells.stages_of(self.dataset, self.model):
            return 0.0
        rows = TABLES[self.dataset].shape[0] if self.dataset in TABLES else 150
        nets = 1 if self.model == plan.MEAN else self.study.members
        share = nets / self.study.members
        return rows * self.study.splits * self.study.training.epochs * share / 1000

    def finished(self) -> bool:
        """Whether the scores are there."""
        return cells.is_finished(self.study, self.dataset, self.model)

    def outdated(self) -> bool:
        """Whether scores of other settings are in the way."""
        return cells.is_outdated(self.study, self.dataset, self.model)

    def make(self) -> bool:
        """Fit, ask, score, write."""
        cells.compute(self.study, self.dataset, self.model)
        return True

    def progress(self) -> float:
        """Share of the epochs that are on disk."""
        return cells.share(self.study, self.dataset, self.model)

    def seconds(self) -> float | None:
        """Time of all sittings, as far as it was kept."""
        result = self.result()
        return None if result is None else result["seconds"]

    def result(self) -> dict[str, Any] | None:
        """The scores and how they were made."""
        return cells.read_result(self.study, self.dataset, self.model)

    def describe(self) -> Mapping[str, Any]:
        """Enough to do it again."""
        return {
            "command": plan.command(self.study, self.dataset, self.model),
            "preset": self.study.preset,
            "seeds": list(range(self.study.splits)),
            "settings": self.study.settings(self.model),
        }


def cells_at(study: Study) -> dict[str, list[CalibrationCell]]:
    """The cells that a study asks for, by dataset."""
    parts: dict[str, list[CalibrationCell]] = {}
    for dataset, model in plan.cells_of(study):
        parts.setdefault(dataset, []).append(CalibrationCell(study, dataset, model))
    return parts


def what_they_took(asked: Sequence[CalibrationCell]) -> str:
    """How many cells are there, when and where they were made, and how long it took."""
    everything = {cell.identity: cell for cell in _with_needs(asked)}
    results = [result for cell in everything.values() if (result := cell.result()) is not None]
    there = sum(cell.finished() for cell in asked)
    records = [r for cell in everything.values() if (r := read_record(cell.record)) is not None]
    machines = "; ".join(sorted({record["machine"] for record in records})) or machine()
    days = sorted({record["finished"] for record in records}) or ["unknown"]
    period = " to ".join(dict.fromkeys((days[0], days[-1])))
    processor = in_words(sum(result["cpu_seconds"] for result in results))
    seconds, cores = wall_time([tuple(s) for result in results for s in result["sittings"]])
    return (
        f"{there} of {len(asked)} cells, finished {period} on {machines}. "
        f"With the separate means and all that they need ({len(results)} fits and compositions): "
        f"{processor} of processor time, {in_words(seconds)} of wall time on "
        f"{cores} core{'s' if cores > 1 else ''}."
    )


def wall_time(sittings: Sequence[tuple[float, ...]]) -> tuple[float, int]:
    """Seconds in which at least one sitting went on, and the most that went on at once."""
    events = sorted([(start, 1) for start, _ in sittings] + [(end, -1) for _, end in sittings])
    total, running, most, since = 0.0, 0, 0, 0.0
    for moment, change in events:
        if running:
            total += moment - since
        running, since = running + change, moment
        most = max(most, running)
    return total, most


def _with_needs(asked: Iterable[CalibrationCell]) -> list[CalibrationCell]:
    return [one for cell in asked for one in (*_with_needs(cell.needs), cell)]
