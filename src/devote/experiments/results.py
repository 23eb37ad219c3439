"""What a study has to show: from run directories where they are here, else from its own files, a
line per run and the curves of every task, which outlive the runs."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from devote.core.durable import atomic_write_text
from devote.core.errors import UserError
from devote.core.settings import require_known
from devote.experiments.cells import read_record
from devote.experiments.comparison import Key, Study, TrainingCell
from devote.loops.run_dir import METRICS
from devote.measure.curves import SeedCurve

RUNS, ASIDE = "runs.csv", "set_aside"
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


@dataclass(frozen=True)
class RunLine:
    """One run of a study: what came out, and how it was made."""

    task: str
    method: str
    seed: int
    preset: str
    steps: int
    metric: str
    final: float
    """The last value of a coverage; of any other metric the mean over the last tenth, or the last
    value before it in the second half."""
    seconds: float
    finished: str
    machine: str
    identity: str
    command: str

    @property
    def key(self) -> Key:
        """What it is called within its study."""
        return self.task, self.method, self.seed


class RecordedRun(NamedTuple):
    """A run with its curves, by the name of their column; `step` is among them."""

    line: RunLine
    columns: Mapping[str, np.ndarray]


class Scores(NamedTuple):
    """A method on a task, by seed."""

    final: np.ndarray
    average: np.ndarray
    """Over the whole budget: it tells runs apart that end alike."""


@dataclass(frozen=True)
class Results:
    """All runs that a study asks for and that are known, each up to the study's budget."""

    shown: Mapping[Key, RecordedRun]
    kept: Mapping[Key, RecordedRun] = field(default_factory=dict)
    """All runs that its files held, and those shown: whole, where files hold more of a run."""
    elsewhere: frozenset[str] = frozenset()
    """Identities of those shown from the study's files, because they are not on this disk."""

    @property
    def lines(self) -> tuple[RunLine, ...]:
        """The runs shown."""
        return tuple(run.line for run in self.shown.values())

    @property
    def set_aside(self) -> tuple[RunLine, ...]:
        """Of other settings, seeds or methods, too short or without the metric: kept, not shown."""
        return tuple(run.line for key, run in self.kept.items() if key not in self.shown)

    def of(self, task: str, method: str) -> list[RunLine]:
        """The seeds of one method on one task."""
        return [line for line in self.lines if (line.task, line.method) == (task, method)]

    def curve(self, line: RunLine) -> SeedCurve:
        """The curve of a run in its metric."""
        columns = self.shown[line.key].columns
        return SeedCurve(columns["step"], columns[line.metric])

    def scores(self, task: str, method: str) -> Scores:
        """What the runs of a method came to; its logged values are evenly spaced."""
        lines = self.of(task, method)
        values = [self.curve(line).values for line in lines]
        averages = [v[np.isfinite(v)].mean() if np.isfinite(v).any() else np.nan for v in values]
        return Scores(np.array([line.final for line in lines]), np.array(averages))


def collect(study: Study, out: Path) -> Results:
    """Finished runs on this disk, and what earlier files of the study say of the others."""
    kept, shown, elsewhere = read_files(out), {}, set()
    presets = {run.line.preset for run in kept.values()} - {study.scale.preset}
    if presets:  # runs of two presets have the same names, so they have folders of their own
        expected = f"runs of preset {study.scale.preset} in {out / RUNS}"
        raise UserError(expected, f"preset {', '.join(sorted(presets))}", "name another --out")
    for key, cell in study.runs().items():
        recorded = kept.get(key)
        if cell.finished():
            shown[key] = here = _from_disk(study, key, cell)
            same = recorded is not None and recorded.line.identity == here.line.identity
            if not (recorded and same and recorded.line.steps > here.line.steps):
                kept[key] = here
        elif recorded is not None and not cell.outdated():
            part = _cut(study, cell, recorded)
            if part is not None:
                shown[key] = part
                elsewhere.add(cell.identity)
    return Results(_ordered(study, shown), _ordered(study, kept), frozenset(elsewhere))


def write(results: Results, out: Path) -> list[Path]:
    """Every run that is known; those not shown in a folder of their own, which holds all of them
    while runs move: a kill leaves each in one of both."""
    aside = [run for key, run in results.kept.items() if key not in results.shown]
    moves = bool(aside) or (out / ASIDE).is_dir()
    if moves:
        write_files([*results.kept.values()], out / ASIDE)
    paths = write_files([results.kept[key] for key in results.shown], out)
    if moves:
        write_files(aside, out / ASIDE)
    return paths


def read_files(out: Path) -> dict[Key, RecordedRun]:
    """All that the files hold; what is set aside gives way to a run of the same name."""
    runs: dict[Key, RecordedRun] = {}
    for folder in (out / ASIDE, out):
        try:
            runs |= {run.line.key: run for run in _read(folder)}
        except (KeyError, ValueError, IndexError, FileNotFoundError) as error:
            fix = f"restore them, or delete {folder / RUNS} to go by the runs on this disk alone"
            got = f"{type(error).__name__}: {error}"
            raise UserError(
                f"{RUNS} and a file of curves per task in {folder}", got, fix
            ) from error
    return runs


def write_files(runs: Sequence[RecordedRun], out: Path) -> list[Path]:
    """A line is there only while its curve is: lines that go leave first, new ones come last."""
    out.mkdir(parents=True, exist_ok=True)
    tasks = dict.fromkeys(run.line.task for run in runs)
    lines = [asdict(run.line) for run in runs]
    old = _rows(out / RUNS) if (out / RUNS).is_file() else []
    new = [{name: str(value) for name, value in line.items()} for line in lines]
    staying = [row for row in old if any(row.items() <= other.items() for other in new)]
    if len(staying) < len(old):
        atomic_write_text(out / RUNS, csv_text(staying))
    paths = []
    for task in tasks:
        rows = [row for run in runs if run.line.task == task for row in _curve(run)]
        paths.append(out / f"{task}.csv")
        atomic_write_text(paths[-1], csv_text(rows))
    atomic_write_text(out / RUNS, csv_text(lines))
    for task in {row["task"] for row in old} - tasks.keys():
        (out / f"{task}.csv").unlink(missing_ok=True)
    return [out / RUNS, *paths]


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


def _curve(run: RecordedRun) -> Iterable[dict[str, Any]]:
    """A row per logged step, as it is written."""
    name = {"method": run.line.method, "seed": run.line.seed}
    for values in zip(*run.columns.values(), strict=True):
        yield name | dict(zip(run.columns, map(_number, values), strict=True))


def _number(value: float) -> str:
    if np.isnan(value):
        return ""
    whole = np.isfinite(value) and value == int(value)
    return str(int(value)) if whole else f"{value:.6g}"


def _read(folder: Path) -> Iterable[RecordedRun]:
    if not (folder / RUNS).is_file():
        return
    tables: dict[str, list[dict[str, str]]] = {}
    for row in _rows(folder / RUNS):
        line = RunLine(**{entry.name: entry.type(row[entry.name]) for entry in fields(RunLine)})  # type: ignore[operator]
        if line.task not in tables:
            tables[line.task] = _rows(folder / f"{line.task}.csv")
        mine = [
            r for r in tables[line.task] if (r["method"], r["seed"]) == (line.method, row["seed"])
        ]
        names = [name for name in mine[0] if name not in ("method", "seed")]
        yield RecordedRun(line, {n: np.array([float(r[n] or "nan") for r in mine]) for n in names})


def _rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV; a column that only some have is empty for the others."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _ordered(study: Study, runs: Mapping[Key, RecordedRun]) -> dict[Key, RecordedRun]:
    """As the study has its tasks and methods, what it does not ask for last."""
    tasks = {task.name: place for place, task in enumerate(study.tasks)}
    methods = {name: place for place, name in enumerate(study.names())}

    def place(key: Key) -> tuple[int, str, int, str, int]:
        task, method, seed = key
        return tasks.get(task, len(tasks)), task, methods.get(method, len(methods)), method, seed

    return {key: runs[key] for key in sorted(runs, key=place)}


def _from_disk(study: Study, key: Key, cell: TrainingCell) -> RecordedRun:
    table, record = cell.metrics(), read_record(cell.record)
    assert record is not None
    if "step" not in table:
        fix = f"restore it, or delete {cell.folder} to run it again"
        raise UserError(f"the metrics of a finished run in {cell.folder / METRICS}", "none", fix)
    metric = metric_of(study, table)
    kept = [name for name in dict.fromkeys((*KEPT, metric)) if name in table]
    line = RunLine(
        *key,
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
    return RecordedRun(line, {name: table[name] for name in ("step", "train/n_updates", *kept)})


def _cut(study: Study, cell: TrainingCell, recorded: RecordedRun) -> RecordedRun | None:
    """A recorded run up to the steps that the study asks for; None where it is another run."""
    line, columns = recorded
    reached = np.flatnonzero(columns["step"] >= cell.run.steps)
    known = study.metric is None or study.metric in columns
    if line.identity != cell.identity or not len(reached) or not known:
        return None
    mine = {name: column[: int(reached[0]) + 1] for name, column in columns.items()}
    metric, steps = metric_of(study, mine), int(mine["step"][-1])
    if (metric, steps) == (line.metric, line.steps):
        return RecordedRun(line, mine)  # as recorded, for the files of curves have fewer digits
    final = round(final_value(metric, mine["step"], mine[metric]), 6)
    seconds = round(line.seconds * steps / line.steps, 1)
    return RecordedRun(
        replace(line, metric=metric, steps=steps, final=final, seconds=seconds), mine
    )
