"""Metrics of a run in a CSV file that survives a crash and that a resumed run continues."""

import csv
import hashlib
import io
import os
from collections.abc import Sequence
from numbers import Integral, Real
from pathlib import Path

import numpy as np

from devote.core.durable import atomic_write_text, naming
from devote.core.errors import UserError

Cell = float | int | str
LONGEST_LINE = 1 << 16  # bytes


class MetricsLog:
    """Appends rows of named metrics under a header that never changes."""

    def __init__(self, path: Path, columns: tuple[str, ...]) -> None:
        if "step" not in columns or len(set(columns)) != len(columns):
            raise UserError("different columns, `step` among them", columns, "name each one once")
        self.path = path
        self.columns = columns
        if not path.exists() or path.stat().st_size == 0:
            atomic_write_text(path, _line(columns))
        self._require_header()
        os.truncate(path, len(_complete(path)))

    def append(self, rows: list[dict[str, Cell]]) -> None:
        """Add rows, on disk when this returns; a missing metric is an empty cell."""
        text = "".join(_line(self._cells(row)) for row in rows)
        # not mode "a", which would create a deleted log again without its header
        with naming(self.path), open(self.path, "r+b") as file:
            end = file.seek(0, os.SEEK_END)
            try:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                os.truncate(self.path, end)
                raise

    def seal(self) -> str:
        """A digest of the header and all complete rows."""
        return hashlib.sha256(_complete(self.path)).hexdigest()

    def truncate(self, step: int) -> None:
        """Drop the rows after `step` and an incomplete last line."""
        atomic_write_text(self.path, _until(self.path, step))

    def _require_header(self) -> None:
        header = _rows(self.path)[0]
        if tuple(header) != self.columns:
            got = f"{', '.join(header):.500}"
            fix = "resume with the version that began the log, or use a new run directory"
            raise UserError(f"columns {', '.join(self.columns)} in {self.path}", got, fix)

    def _cells(self, row: dict[str, Cell]) -> list[str]:
        unknown = sorted(row.keys() - set(self.columns))
        if unknown:
            fix = f"add it to the columns of {self.path.name}"
            raise UserError(f"metrics among {', '.join(self.columns)}", ", ".join(unknown), fix)
        if "step" not in row:
            raise UserError("a `step` in every row", ", ".join(row), "add it")
        return [_cell(name, row[name]) if name in row else "" for name in self.columns]


def seal_of(path: Path, step: int) -> str:
    """What `seal` returned when `step` was the last row."""
    return hashlib.sha256(_until(path, step).encode()).hexdigest()


def read(path: Path) -> dict[str, np.ndarray]:
    """Columns by name: floats, NaN for empty cells; strings if a cell is not a number."""
    header, *rows = _rows(path)
    table = {name: _column([row[index] for row in rows]) for index, name in enumerate(header)}
    step = table.get("step", np.array("none"))
    if step.dtype.kind != "f" or not np.isfinite(step).all():
        raise UserError(f"numbers in column step of {path}", step, "restore it from a copy")
    return table


def last_step(path: Path) -> float:
    """The step of the last row, 0 without rows or if it cannot be read."""
    try:
        return float(last_row(path).get("step", 0.0))
    except ValueError:
        return 0.0


def last_row(path: Path) -> dict[str, str]:
    """Cells of the last row by column, empty without rows or if they cannot be read; only the two
    ends of the file are read."""
    with open(path, "rb") as file:
        header = file.readline()
        start = file.tell()
        file.seek(max(start, file.seek(0, os.SEEK_END) - LONGEST_LINE))
        complete, _, _ = file.read().rpartition(b"\n")
    try:
        names, *rows = csv.reader([line.decode() for line in (header, *complete.splitlines()[-1:])])
        return dict(zip(names, rows[-1], strict=True)) if rows else {}
    except (ValueError, csv.Error):
        return {}


def _complete(path: Path) -> bytes:
    """A log without an incomplete last line, which a kill or a full disk leaves."""
    data = path.read_bytes()
    return data[: data.rfind(b"\n") + 1]


def _until(path: Path, step: float) -> str:
    """Header and rows of a log up to a step."""
    header, *rows = _rows(path)
    column = header.index("step") if "step" in header else 0
    try:
        kept = [row for row in rows if float(row[column]) <= step]
    except ValueError as error:
        fix = "restore it from a copy"
        raise UserError(f"numbers in column step of {path}", error, fix) from error
    return "".join(map(_line, [header, *kept]))


def _rows(path: Path) -> list[list[str]]:
    """Header and rows of a log."""
    try:
        rows = list(csv.reader(io.StringIO(_complete(path).decode(), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(
            f"CSV in {path}", error, "restore it from a copy, or move it away"
        ) from error
    if not rows:
        raise UserError(f"a header in {path}", "no complete line", "restore it from a copy")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            fix = f"delete line {number} of {path}"
            raise UserError(f"{len(rows[0])} cells in every line", len(row), fix)
    return rows


def _line(cells: Sequence[str]) -> str:
    line = io.StringIO(newline="")
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()


def _cell(name: str, value: Cell) -> str:
    # the repr of a NumPy scalar is not a number
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        return repr(float(value))
    if isinstance(value, str) and "\n" not in value and "\r" not in value:
        return value
    raise UserError(f"a number or one line of text for {name}", repr(value), "convert it")


def _column(cells: list[str]) -> np.ndarray:
    try:
        return np.array([float(cell) if cell else np.nan for cell in cells])
    except ValueError:
        return np.array(cells)
