"""The results of a study: from run directories on this disk, else from the files of the study (a
line per run, and the curves of every task), which outlive the runs."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from devote.core.durable import atomic_write_text
from devote.core.errors import UserError
from devote.core.settings import require_known
from devote.experiments.comparison import Key, Study, TrainingCell
from devote.measure.curves import SeedCurve

RUNS, ASIDE = "runs.csv", "set_aside"
COVERAGE, REACHABLE = "explore/coverage", "explore/coverage_reachable"
RETURN, EXPLORED = "eval/mean_reward", "rollout/ep_rew_mean"
DORMANT = "plasticity/dormant_frac"
SUCCESS, NORMALISED = "eval/success_rate", "eval/normalised_return"
LAST_DORMANT, RANK = "plasticity/dormant_last", "plasticity/effective_rank"
SHARES = (SUCCESS,)
LENGTH = "epistemic/length_scale"
KEPT = (COVERAGE, REACHABLE, EXPLORED, RETURN, DORMANT, LENGTH)
"""Metrics in the files of curves, where a task has them."""
WORDS = {
    COVERAGE: "state coverage",
    REACHABLE: "coverage of reachable states",
    RETURN: "return of the exploitation actor",
    EXPLORED: "return while exploring",
    DORMANT: "dormant units (0.05)",
    LAST_DORMANT: "dormant in last layer (0.025)",
    RANK: "effective rank, last layer",
    SUCCESS: "share of complete episodes solved",
    NORMALISED: "return / bonus for success",
}
"""Metrics for readers."""
LAST_TENTH, SECOND_HALF = 0.9, 0.5
TAKEN = ("runs", "table")  # file names that no task may have


@dataclass(frozen=True)
class RunLine:
    """A run of a study: its final value, and how it was made."""

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
        """Task, method and seed."""
        return self.task, self.method, self.seed


class RecordedRun(NamedTuple):
    """A run with its curves by column, `step` included."""

    line: RunLine
    columns: Mapping[str, np.ndarray]


class Scores(NamedTuple):
    """A method on a task, by seed."""

    final: np.ndarray
    average: np.ndarray  # over the whole budget; tells runs apart that end alike


@dataclass(frozen=True)
class Results:
    """The known runs of a study, each up to the study's budget."""

    shown: Mapping[Key, RecordedRun]
    kept: Mapping[Key, RecordedRun] = field(default_factory=dict)
    """All runs in its files and those shown; whole, where the files hold more steps of a run."""
    elsewhere: frozenset[str] = frozenset()
    """Identities of the runs that are shown from files, not from this disk."""

    @property
    def lines(self) -> tuple[RunLine, ...]:
        """The runs shown."""
        return tuple(run.line for run in self.shown.values())

    @property
    def set_aside(self) -> tuple[RunLine, ...]:
        """Runs of other settings, seeds or methods, or too short: kept, not shown."""
        return tuple(run.line for key, run in self.kept.items() if key not in self.shown)

    def of(self, task: str, method: str) -> list[RunLine]:
        """The seeds of one method on one task."""
        return [line for line in self.lines if (line.task, line.method) == (task, method)]

    def curve(self, line: RunLine, metric: str | None = None) -> SeedCurve:
        """The curve of a run in its metric or another one; NaN where it is not known."""
        columns = self.shown[line.key].columns
        unknown = np.full(len(columns["step"]), np.nan)
        return SeedCurve(columns["step"], columns.get(metric or line.metric, unknown))

    def scores(self, task: str, method: str, metric: str | None = None) -> Scores:
        """Scores of a method's runs, in the study's metric or another one."""
        lines = self.of(task, method)
        curves = [self.curve(line, metric) for line in lines]
        known = [curve.values[np.isfinite(curve.values)] for curve in curves]
        averages = [values.mean() if len(values) else np.nan for values in known]  # evenly spaced
        ends = [line.final for line in lines]
        if metric is not None:
            ends = [final_value(metric, curve.steps, curve.values) for curve in curves]
        return Scores(np.array(ends), np.array(averages))


def collect(study: Study, out: Path) -> Results:
    """Finished runs on this disk, and those that are in the files of the study."""
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
    """Write all known runs; those not shown go to a folder of their own. It holds all of them while
    runs move, so that a kill loses none."""
    aside = [run for key, run in results.kept.items() if key not in results.shown]
    moves = bool(aside) or (out / ASIDE).is_dir()
    if moves:
        write_files([*results.kept.values()], out / ASIDE)
    paths = write_files([results.kept[key] for key in results.shown], out)
    if moves:
        write_files(aside, out / ASIDE)
    return paths


def read_files(out: Path) -> dict[Key, RecordedRun]:
    """All runs in the files; one that is set aside yields to a shown one of the same key."""
    runs: dict[Key, RecordedRun] = {}
    for folder in (out / ASIDE, out):
        try:
            runs |= {run.line.key: run for run in _read(folder)}
        except (KeyError, ValueError, IndexError, csv.Error, FileNotFoundError) as error:
            fix = f"restore them, or delete {folder / RUNS} to go by the runs on this disk alone"
            got = f"{type(error).__name__}: {error}"
            raise UserError(
                f"{RUNS} and a file of curves per task in {folder}", got, fix
            ) from error
    return runs


def write_files(runs: Sequence[RecordedRun], out: Path) -> list[Path]:
    """Write lines and curves such that a kill never leaves a line without its curve."""
    out.mkdir(parents=True, exist_ok=True)
    tasks = dict.fromkeys(run.line.task for run in runs)
    lines = [asdict(run.line) for run in runs]
    old = _rows(out / RUNS) if (out / RUNS).is_file() else []
    new = [{name: str(value) for name, value in line.items()} for line in lines]
    staying = [row for row in old if any(row.items() <= other.items() for other in new)]
    if len(staying) < len(old):
        atomic_write_text(out / RUNS, csv_text(staying))
    paths = [_curves(out, task) for task in tasks]
    for task, path in zip(tasks, paths, strict=True):
        rows = [row for run in runs if run.line.task == task for row in _curve(run)]
        atomic_write_text(path, csv_text(rows))
    atomic_write_text(out / RUNS, csv_text(lines))
    for task in {row["task"] for row in old} - tasks.keys():
        _curves(out, task).unlink(missing_ok=True)
    return [out / RUNS, *paths]


def _curves(folder: Path, task: str) -> Path:
    """The file of a task's curves; names with path separators and the like are refused."""
    if not re.fullmatch(r"[\w+-][\w.+-]{0,199}", task) or task in TAKEN:
        expected = "tasks whose names are letters, digits and _ + - ."
        raise UserError(expected, f"{task!r:.80}", f"restore {folder / RUNS}")
    return folder / f"{task}.csv"


def final_value(metric: str, steps: np.ndarray, values: np.ndarray) -> float:
    """The final value of a run: the last one of a coverage, else the mean over the last tenth of
    the steps, or the last value before it in the second half."""
    if metric.startswith(COVERAGE):
        return float(values[-1])
    known = np.isfinite(values)
    late, recent = (values[known & (steps >= s * steps[-1])] for s in (LAST_TENTH, SECOND_HALF))
    return float(late.mean() if len(late) else recent[-1] if len(recent) else np.nan)


def metric_of(study: Study, columns: Mapping[str, np.ndarray]) -> str:
    """The study's metric, by default coverage where there is one, else the evaluation return, else
    the return while exploring."""
    if study.metric is not None:
        require_known([study.metric], columns, "metric")
        return study.metric
    if COVERAGE in columns:
        return COVERAGE
    evaluated = RETURN in columns and np.isfinite(columns[RETURN]).any()
    return RETURN if evaluated else EXPLORED


def metric_in_words(metric: str) -> str:
    """A metric as named on axes and in sentences."""
    return WORDS.get(metric, metric.split("/")[-1].replace("_", " "))


def _curve(run: RecordedRun) -> Iterable[dict[str, Any]]:
    """A row per logged step."""
    name = {"method": run.line.method, "seed": run.line.seed}
    for values in zip(*run.columns.values(), strict=True):
        yield name | dict(zip(run.columns, map(_number, values), strict=True))


def _number(value: float) -> str:
    whole = np.isfinite(value) and value == int(value)
    return "" if np.isnan(value) else str(int(value)) if whole else f"{value:.6g}"


def _read(folder: Path) -> Iterable[RecordedRun]:
    if not (folder / RUNS).is_file():
        return
    tables: dict[str, list[dict[str, str]]] = {}
    for row in _rows(folder / RUNS):
        line = RunLine(**{entry.name: entry.type(row[entry.name]) for entry in fields(RunLine)})  # type: ignore[operator]
        if line.task not in tables:
            tables[line.task] = _rows(_curves(folder, line.task))
        own = line.method, row["seed"]
        mine = [r for r in tables[line.task] if (r["method"], r["seed"]) == own]
        names = [name for name in mine[0] if name not in ("method", "seed")]
        columns = {n: np.array([float(r[n] or "nan") for r in mine]) for n in names}
        if not (np.isfinite(columns["step"]).all() and line.metric in columns and line.steps > 0):
            raise ValueError(f"no steps or no {line.metric!r:.80} of {line.key!r:.80}")
        yield RecordedRun(line, columns)


def _rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    if any(None in row or None in row.values() for row in rows):
        raise ValueError(f"a line of {path.name} with more or fewer cells than others")
    return rows


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV; missing columns are empty."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _ordered(study: Study, runs: Mapping[Key, RecordedRun]) -> dict[Key, RecordedRun]:
    """Sorted as the study's tasks and methods, all others last."""
    tasks = {task.name: place for place, task in enumerate(study.tasks)}
    methods = {name: place for place, name in enumerate(study.names())}

    def place(key: Key) -> tuple[int, str, int, str, int]:
        task, method, seed = key
        return tasks.get(task, len(tasks)), task, methods.get(method, len(methods)), method, seed

    return {key: runs[key] for key in sorted(runs, key=place)}


def _from_disk(study: Study, key: Key, cell: TrainingCell) -> RecordedRun:
    table, record = cell.whole_metrics(), cell.recorded()
    assert record is not None
    bonus = next(task.bonus for task in study.tasks if task.name == key[0])
    if bonus is not None and RETURN in table:
        table[NORMALISED] = table[RETURN] / bonus
    metric = metric_of(study, table)
    kept = [name for name in dict.fromkeys((*KEPT, *study.beside, metric)) if name in table]
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
    """A recorded run, cut to the study's steps; None where it does not match."""
    line, columns = recorded
    reached = np.flatnonzero(columns["step"] >= cell.run.steps)
    known = study.metric is None or study.metric in columns
    if line.identity != cell.identity or not len(reached) or not known:
        return None
    mine = {name: column[: int(reached[0]) + 1] for name, column in columns.items()}
    metric, steps = metric_of(study, mine), int(mine["step"][-1])
    if metric not in mine:
        return None
    if (metric, steps) != (line.metric, line.steps):  # else the line: curves have fewer digits
        final = round(final_value(metric, mine["step"], mine[metric]), 6)
        seconds = round(line.seconds * steps / line.steps, 1)
        line = replace(line, metric=metric, steps=steps, final=final, seconds=seconds)
    return RecordedRun(line, mine)
