"""The files of a study: a line per run, and the curves of every task. They outlive the runs."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from devote.core.durable import atomic_write_text
from devote.core.errors import UserError

Key = tuple[str, str, int]
"""Task, method and seed."""
RUNS, ASIDE = "runs.csv", "set_aside"


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


class Entry(NamedTuple):
    """A run with its curves, by the name of their column; `step` is among them."""

    line: RunLine
    columns: Mapping[str, np.ndarray]


def read_entries(out: Path) -> dict[Key, Entry]:
    """All that the files hold; what is set aside gives way to a run of the same name."""
    entries: dict[Key, Entry] = {}
    for folder in (out / ASIDE, out):
        try:
            entries |= {entry.line.key: entry for entry in _read(folder)}
        except (KeyError, ValueError, IndexError, FileNotFoundError) as error:
            fix = f"restore them, or delete {folder / RUNS} to go by the runs on this disk alone"
            got = f"{type(error).__name__}: {error}"
            raise UserError(
                f"{RUNS} and a file of curves per task in {folder}", got, fix
            ) from error
    return entries


def write_entries(entries: Sequence[Entry], out: Path) -> list[Path]:
    """A line is there only while its curve is: lines that go leave first, new ones come last."""
    out.mkdir(parents=True, exist_ok=True)
    tasks = dict.fromkeys(entry.line.task for entry in entries)
    lines = [asdict(entry.line) for entry in entries]
    old = _rows(out / RUNS) if (out / RUNS).is_file() else []
    new = [{name: str(value) for name, value in line.items()} for line in lines]
    staying = [row for row in old if any(row.items() <= other.items() for other in new)]
    if len(staying) < len(old):
        atomic_write_text(out / RUNS, _text(staying))
    paths = []
    for task in tasks:
        rows = [row for entry in entries if entry.line.task == task for row in _curve(entry)]
        paths.append(out / f"{task}.csv")
        atomic_write_text(paths[-1], _text(rows))
    atomic_write_text(out / RUNS, _text(lines))
    for task in {row["task"] for row in old} - tasks.keys():
        (out / f"{task}.csv").unlink(missing_ok=True)
    return [out / RUNS, *paths]


def _curve(entry: Entry) -> Iterable[dict[str, Any]]:
    name = {"method": entry.line.method, "seed": entry.line.seed}
    for values in zip(*entry.columns.values(), strict=True):
        yield name | dict(zip(entry.columns, map(_number, values), strict=True))


def _read(folder: Path) -> Iterable[Entry]:
    if not (folder / RUNS).is_file():
        return
    tables: dict[str, list[dict[str, str]]] = {}
    for row in _rows(folder / RUNS):
        line = _line(row)
        if line.task not in tables:
            tables[line.task] = _rows(folder / f"{line.task}.csv")
        mine = [
            r for r in tables[line.task] if (r["method"], r["seed"]) == (line.method, row["seed"])
        ]
        names = [name for name in mine[0] if name not in ("method", "seed")]
        yield Entry(line, {n: np.array([float(r[n] or "nan") for r in mine]) for n in names})


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
    whole = np.isfinite(value) and value == int(value)
    return str(int(value)) if whole else f"{value:.6g}"
