"""What a study has to show: from run directories where they are here, else from its own files."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from devote.core.durable import atomic_write_text
from devote.core.errors import UserError
from devote.experiments.changes import require_known
from devote.experiments.record import read_record
from devote.experiments.study import Study, Task
from devote.experiments.training import METRICS, TrainingCell
from devote.measure.curves import Observations

Key = tuple[str, str, int]
"""Task, method and seed."""
RUNS, ASIDE = "runs.csv", "set_aside"
COVERAGE, RETURN = "explore/coverage", "rollout/ep_rew_mean"
KEPT = (COVERAGE, "explore/coverage_reachable", RETURN, "eval/mean_reward")
"""Metrics that go into the files of curves, where a task has them."""
LAST_TENTH = 0.9


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
    """The last value of a coverage; of any other metric the mean over the last tenth."""
    seconds: float
    finished: str
    machine: str
    identity: str
    command: str


class Scores(NamedTuple):
    """A method on a task, by seed."""

    final: np.ndarray
    average: np.ndarray
    """Over the whole budget: it tells runs apart that end alike."""


@dataclass(frozen=True)
class Results:
    """All runs that a study asks for and that are known, and their curves."""

    lines: tuple[RunLine, ...]
    curves: Mapping[Key, Mapping[str, np.ndarray]]
    """(task, method, seed) to columns, `step` among them; also of what is set aside."""
    elsewhere: int = 0
    """Runs taken from the study's files, because they are not on this disk."""
    set_aside: tuple[RunLine, ...] = ()
    """Recorded with other settings, fewer steps or without the metric: kept, but not shown."""

    def of(self, task: str, method: str) -> list[RunLine]:
        """The seeds of one method on one task."""
        return [line for line in self.lines if (line.task, line.method) == (task, method)]

    def observations(self, line: RunLine) -> Observations:
        """The curve of a run in its metric."""
        columns = self.curves[line.task, line.method, line.seed]
        return Observations(columns["step"], columns[line.metric])

    def scores(self, task: str, method: str) -> Scores:
        """What the runs of a method came to; its logged values are evenly spaced."""
        lines = self.of(task, method)
        values = [self.observations(line).values for line in lines]
        averages = [v[np.isfinite(v)].mean() if np.isfinite(v).any() else np.nan for v in values]
        return Scores(np.array([line.final for line in lines]), np.array(averages))


def collect(study: Study, out: Path) -> Results:
    """Finished runs on this disk, and what earlier files of the study say of the others."""
    lines: dict[Key, RunLine] = {}
    curves: dict[Key, Any] = {}
    aside: dict[Key, RunLine] = {}
    recorded, columns = _recorded(study, out)
    runs = study.runs()
    for key, line in recorded.items():
        mine = key in runs and not runs[key].outdated()
        found = _cut(study, runs[key], line, columns[key]) if mine else None
        (aside if found is None else lines)[key], curves[key] = found or (line, columns[key])
    elsewhere = set(lines)
    for key, cell in runs.items():
        if cell.finished():
            lines[key], curves[key] = _read(study, key, cell)
            elsewhere.discard(key)
            aside.pop(key, None)
    return Results(_ordered(study, lines), curves, len(elsewhere), _ordered(study, aside))


def write(results: Results, out: Path) -> list[Path]:
    """One line per run, and the curves of every task; what is set aside in a folder of its own."""
    if results.set_aside or (out / ASIDE).is_dir():
        _write(results.set_aside, results.curves, out / ASIDE)
    return _write(results.lines, results.curves, out)


def _write(lines: Sequence[RunLine], curves: Mapping[Key, Any], out: Path) -> list[Path]:
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / RUNS]
    atomic_write_text(paths[0], _text([asdict(line) for line in lines]))
    for task in dict.fromkeys(line.task for line in lines):
        rows: list[dict[str, Any]] = []
        for line in lines:
            if line.task == task:
                columns = curves[line.task, line.method, line.seed]
                for values in zip(*columns.values(), strict=True):
                    cells = map(_number, values)
                    row = dict(zip(columns, cells, strict=True))
                    rows.append({"method": line.method, "seed": line.seed} | row)
        paths.append(out / f"{task}.csv")
        atomic_write_text(paths[-1], _text(rows))
    return paths


def _ordered(study: Study, lines: Mapping[Key, RunLine]) -> tuple[RunLine, ...]:
    tasks, methods = [task.name for task in study.tasks], study.names()
    keys = sorted(lines, key=lambda k: (tasks.index(k[0]), methods.index(k[1]), k[2]))
    return tuple(lines[key] for key in keys)


def final_value(metric: str, steps: np.ndarray, values: np.ndarray) -> float:
    """What a run came to: the end of a coverage, else the mean over the last tenth."""
    if metric.startswith(COVERAGE):
        return float(values[-1])
    late = values[(steps >= LAST_TENTH * steps[-1]) & np.isfinite(values)]
    return float(late.mean()) if len(late) else float("nan")


def metric_of(study: Study, columns: Mapping[str, Any]) -> str:
    """The study's metric; coverage where there is one, else return, where it names none."""
    if study.metric is None:
        return COVERAGE if COVERAGE in columns else RETURN
    require_known([study.metric], columns, "metric")
    return study.metric


def _read(study: Study, key: Key, cell: TrainingCell) -> tuple[RunLine, dict[str, np.ndarray]]:
    table, record = cell.metrics(), read_record(cell.record)
    assert record is not None
    if "step" not in table:
        fix = f"restore it, or delete {cell.folder} to run it again"
        raise UserError(f"the metrics of a finished run in {cell.folder / METRICS}", "none", fix)
    metric = metric_of(study, table)
    kept = [name for name in dict.fromkeys((*KEPT, metric)) if name in table]
    columns = {name: table[name] for name in ("step", "train/n_updates", *kept)}
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
    return line, columns


def _cut(
    study: Study, cell: TrainingCell, line: RunLine, columns: Mapping[str, np.ndarray]
) -> tuple[RunLine, dict[str, np.ndarray]] | None:
    """A recorded run up to the steps that the study asks for; None where it is another run."""
    reached = np.flatnonzero(columns["step"] >= cell.run.steps)
    known = study.metric is None or study.metric in columns
    if line.identity != cell.identity or not len(reached) or not known:
        return None
    mine = {name: column[: int(reached[0]) + 1] for name, column in columns.items()}
    metric, steps = metric_of(study, mine), int(mine["step"][-1])
    if (metric, steps) == (line.metric, line.steps):
        return line, mine  # as recorded, for the files of curves have fewer digits
    final = round(final_value(metric, mine["step"], mine[metric]), 6)
    seconds = round(line.seconds * steps / line.steps, 1)
    return replace(line, metric=metric, steps=steps, final=final, seconds=seconds), mine


def _recorded(study: Study, out: Path) -> tuple[dict[Key, RunLine], dict[Key, Any]]:
    """Runs that the study's files hold and that the study still asks for."""
    lines: dict[Key, RunLine] = {}
    curves: dict[Key, Any] = {}
    for folder in (out / ASIDE, out):
        try:
            found = _earlier(study, folder)
        except (KeyError, ValueError, IndexError, FileNotFoundError) as error:
            fix = f"restore them, or delete {folder / RUNS} to go by the runs on this disk alone"
            got = f"{type(error).__name__}: {error}"
            raise UserError(
                f"{RUNS} and a file of curves per task in {folder}", got, fix
            ) from error
        lines, curves = lines | found[0], curves | found[1]
    return lines, curves


def _earlier(study: Study, out: Path) -> tuple[dict[Key, RunLine], dict[Key, Any]]:
    """Runs that the study's files hold and that the study still asks for."""
    lines: dict[Key, RunLine] = {}
    curves: dict[Key, Any] = {}
    if not (out / RUNS).is_file():
        return lines, curves
    asked = {task.name: task for task in study.tasks}
    tables: dict[str, list[dict[str, str]]] = {}
    for row in _rows(out / RUNS):
        line = _line(row)
        key = (line.task, line.method, line.seed)
        if _asked(study, asked, line):
            table = tables.setdefault(line.task, _rows(out / f"{line.task}.csv"))
            mine = [r for r in table if (r["method"], r["seed"]) == (line.method, row["seed"])]
            names = [name for name in mine[0] if name not in ("method", "seed")]
            curves[key] = {n: np.array([float(r[n] or "nan") for r in mine]) for n in names}
            lines[key] = line
    return lines, curves


def _asked(study: Study, tasks: Mapping[str, Task], line: RunLine) -> bool:
    task = tasks.get(line.task)
    if task is None or line.method not in study.names() or line.preset != study.scale.preset:
        return False
    return line.seed in study.seeds(task)


def _line(row: Mapping[str, str]) -> RunLine:
    texts = ("task", "method", "preset", "metric", "finished", "machine", "identity", "command")
    return RunLine(
        seed=int(row["seed"]),
        steps=int(row["steps"]),
        final=float(row["final"]),
        seconds=float(row["seconds"]),
        **{name: row[name] for name in texts},
    )


def _rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def _text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV; a column that only some have is empty for the others."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _number(value: float) -> str:
    if np.isnan(value):
        return ""
    return str(int(value)) if value == int(value) and abs(value) > 1 else f"{value:.5f}"
