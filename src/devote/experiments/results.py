"""What a study has to show: from run directories where they are here, else from its own files."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from devote.core.errors import UserError
from devote.core.settings import require_known
from devote.experiments.record import read_record
from devote.experiments.study import Study
from devote.experiments.study_files import (
    ASIDE,
    RUNS,
    Entry,
    Key,
    RunLine,
    read_entries,
    write_entries,
)
from devote.experiments.training import METRICS, TrainingCell
from devote.measure.curves import Observations

COVERAGE, REACHABLE = "explore/coverage", "explore/coverage_reachable"
RETURN, EXPLORED = "eval/mean_reward", "rollout/ep_rew_mean"
DORMANT = "plasticity/dormant_frac"
KEPT = (COVERAGE, REACHABLE, EXPLORED, RETURN, DORMANT)
"""Metrics that go into the files of curves, where a task has them."""
WORDS = {
    COVERAGE: "state coverage",
    REACHABLE: "coverage of reachable states",
    RETURN: "return of the exploitation actor",
    EXPLORED: "return while exploring",
    DORMANT: "share of dormant units",
}
"""What readers call a metric."""
LAST_TENTH, SECOND_HALF = 0.9, 0.5


class Scores(NamedTuple):
    """A method on a task, by seed."""

    final: np.ndarray
    average: np.ndarray
    """Over the whole budget: it tells runs apart that end alike."""


@dataclass(frozen=True)
class Results:
    """All runs that a study asks for and that are known, each up to the study's budget."""

    shown: Mapping[Key, Entry]
    kept: Mapping[Key, Entry] = field(default_factory=dict)
    """All runs that its files held, and those shown: whole, where files hold more of a run."""
    elsewhere: frozenset[str] = frozenset()
    """Identities of those shown from the study's files, because they are not on this disk."""

    @property
    def lines(self) -> tuple[RunLine, ...]:
        """The runs shown."""
        return tuple(entry.line for entry in self.shown.values())

    @property
    def set_aside(self) -> tuple[RunLine, ...]:
        """Of other settings, seeds or methods, too short or without the metric: kept, not shown."""
        return tuple(entry.line for key, entry in self.kept.items() if key not in self.shown)

    def of(self, task: str, method: str) -> list[RunLine]:
        """The seeds of one method on one task."""
        return [line for line in self.lines if (line.task, line.method) == (task, method)]

    def observations(self, line: RunLine) -> Observations:
        """The curve of a run in its metric."""
        columns = self.shown[line.key].columns
        return Observations(columns["step"], columns[line.metric])

    def scores(self, task: str, method: str) -> Scores:
        """What the runs of a method came to; its logged values are evenly spaced."""
        lines = self.of(task, method)
        values = [self.observations(line).values for line in lines]
        averages = [v[np.isfinite(v)].mean() if np.isfinite(v).any() else np.nan for v in values]
        return Scores(np.array([line.final for line in lines]), np.array(averages))


def collect(study: Study, out: Path) -> Results:
    """Finished runs on this disk, and what earlier files of the study say of the others."""
    kept, shown, elsewhere = read_entries(out), {}, set()
    _require_preset(study, kept, out)
    for key, cell in study.runs().items():
        recorded = kept.get(key)
        if cell.finished():
            shown[key] = _read(study, key, cell)
            if recorded is None or not _more_of(recorded, shown[key]):
                kept[key] = shown[key]
        elif recorded is not None and not cell.outdated():
            part = _cut(study, cell, recorded)
            if part is not None:
                shown[key] = part
                elsewhere.add(cell.identity)
    return Results(_ordered(study, shown), _ordered(study, kept), frozenset(elsewhere))


def write(results: Results, out: Path) -> list[Path]:
    """Every run that is known; those not shown in a folder of their own, which holds all of them
    while runs move: a kill leaves each in one of both."""
    aside = [entry for key, entry in results.kept.items() if key not in results.shown]
    moves = bool(aside) or (out / ASIDE).is_dir()
    if moves:
        write_entries([*results.kept.values()], out / ASIDE)
    paths = write_entries([results.kept[key] for key in results.shown], out)
    if moves:
        write_entries(aside, out / ASIDE)
    return paths


def final_value(metric: str, steps: np.ndarray, values: np.ndarray) -> float:
    """What a run came to: the end of a coverage, else the mean over the last tenth, or the last
    value before it in the second half."""
    if metric.startswith(COVERAGE):
        return float(values[-1])
    known = np.isfinite(values)
    late = known & (steps >= LAST_TENTH * steps[-1])
    if late.any():
        return float(values[late].mean())
    recent = values[known & (steps >= SECOND_HALF * steps[-1])]
    return float(recent[-1]) if len(recent) else float("nan")


def metric_of(study: Study, columns: Mapping[str, np.ndarray]) -> str:
    """The study's metric; where it names none, coverage where there is one, else return: that of
    the exploitation actor, where it was evaluated."""
    if study.metric is not None:
        require_known([study.metric], columns, "metric")
        return study.metric
    if COVERAGE in columns:
        return COVERAGE
    evaluated = RETURN in columns and np.isfinite(columns[RETURN]).any()
    return RETURN if evaluated else EXPLORED


def metric_in_words(metric: str) -> str:
    """A metric as an axis or a sentence calls it."""
    return WORDS.get(metric, metric.split("/")[-1].replace("_", " "))


def _require_preset(study: Study, entries: Mapping[Key, Entry], out: Path) -> None:
    """Runs of two presets have the same names, so they have folders of their own."""
    others = {entry.line.preset for entry in entries.values()} - {study.scale.preset}
    if others:
        expected = f"runs of preset {study.scale.preset} in {out / RUNS}"
        raise UserError(expected, f"preset {', '.join(sorted(others))}", "name another --out")


def _ordered(study: Study, entries: Mapping[Key, Entry]) -> dict[Key, Entry]:
    """As the study has its tasks and methods, what it does not ask for last."""
    tasks = {task.name: place for place, task in enumerate(study.tasks)}
    methods = {name: place for place, name in enumerate(study.names())}

    def place(key: Key) -> tuple[int, str, int, str, int]:
        task, method, seed = key
        return tasks.get(task, len(tasks)), task, methods.get(method, len(methods)), method, seed

    return {key: entries[key] for key in sorted(entries, key=place)}


def _read(study: Study, key: Key, cell: TrainingCell) -> Entry:
    table, record = cell.metrics(), read_record(cell.record)
    assert record is not None
    if "step" not in table:
        fix = f"restore it, or delete {cell.folder} to run it again"
        raise UserError(f"the metrics of a finished run in {cell.folder / METRICS}", "none", fix)
    metric = metric_of(study, table)
    kept = [name for name in dict.fromkeys((*KEPT, metric)) if name in table]
    line = RunLine(
        task=key[0],
        method=key[1],
        seed=key[2],
        preset=cell.run.preset,
        steps=int(table["step"][-1]),
        metric=metric,
        final=round(final_value(metric, table["step"], table[metric]), 6),
        seconds=round(float(table["time/time_elapsed"][-1]), 1),
        finished=record["finished"],
        machine=record["machine"],
        identity=cell.identity,
        command=record["command"],
    )
    return Entry(line, {name: table[name] for name in ("step", "train/n_updates", *kept)})


def _more_of(recorded: Entry, here: Entry) -> bool:
    """Whether the files hold the same run, but more of it."""
    same = recorded.line.identity == here.line.identity
    return same and recorded.line.steps > here.line.steps


def _cut(study: Study, cell: TrainingCell, recorded: Entry) -> Entry | None:
    """A recorded run up to the steps that the study asks for; None where it is another run."""
    line, columns = recorded
    reached = np.flatnonzero(columns["step"] >= cell.run.steps)
    known = study.metric is None or study.metric in columns
    if line.identity != cell.identity or not len(reached) or not known:
        return None
    mine = {name: column[: int(reached[0]) + 1] for name, column in columns.items()}
    metric, steps = metric_of(study, mine), int(mine["step"][-1])
    if (metric, steps) == (line.metric, line.steps):
        return Entry(line, mine)  # as recorded, for the files of curves have fewer digits
    final = round(final_value(metric, mine["step"], mine[metric]), 6)
    seconds = round(line.seconds * steps / line.steps, 1)
    return Entry(replace(line, metric=metric, steps=steps, final=final, seconds=seconds), mine)
