"""A cell, the unit of work of a study, and the record of a finished one."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from devote.core.durable import atomic_write_text
from devote.core.settings import read_fields

RECORD = dict(kinds=tuple[str, ...], size=float, seconds=float, finished=str, machine=str)
"""Fields of every record."""


class Cell(Protocol):
    """What the runner needs to know of a piece of work. Cells are sent to other processes."""

    @property
    def name(self) -> str:
        """For people."""

    @property
    def identity(self) -> str:
        """A hash of the work, fit for a file name."""

    @property
    def record(self) -> Path:
        """Path of the record, written when the cell is finished."""

    @property
    def needs(self) -> Sequence["Cell"]:
        """Cells that must be finished before."""

    @property
    def kinds(self) -> Sequence[str]:
        """Groups of cells that take about as long per unit of work, the most specific first."""

    @property
    def size(self) -> float:
        """Units of work."""

    def finished(self) -> bool:
        """Whether the result exists."""

    def outdated(self) -> bool:
        """Whether the directory holds a result of other settings."""

    def make(self) -> bool:
        """Do the work, from its checkpoint if there is one; False when a signal stopped it."""

    def progress(self) -> float:
        """The share of the work that is done, from 0 to 1."""

    def seconds(self) -> float | None:
        """How long a finished cell took in all its processes; None where only the last
        one's time is known."""

    def describe(self) -> Mapping[str, Any]:
        """Command, preset, seeds and settings, for the record."""


def machine() -> str:
    """Processor and number of cores, without names of computer or owner."""
    processor = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                processor = line.split(":", 1)[1].strip()
                break
    return f"{processor}, {os.cpu_count()} cores"


def write_record(cell: Cell, seconds: float, finished: date | None = None) -> None:
    """Record a finished cell atomically; `finished` is the date of one that was made earlier."""
    counted = cell.seconds()
    content = {
        "name": cell.name,
        "identity": cell.identity,
        "kinds": list(cell.kinds),
        "size": cell.size,
        "seconds": round(seconds if counted is None else counted, 1),
        "finished": (finished or date.today()).isoformat(),
        "machine": machine() if finished is None else "unknown",
        "versions": {name: version(name) for name in ("devote", "jax", "numpy")},
        **cell.describe(),
    }
    cell.record.parent.mkdir(parents=True, exist_ok=True)
    atomic_write_text(cell.record, json.dumps(content, indent=1) + "\n")


def read_record(path: Path, **kinds: Any) -> dict[str, Any] | None:
    """A record, None where there is none; `kinds` are the types of what the cell described."""
    if not path.is_file():
        return None
    return read_fields(path, RECORD | kinds, "delete the file to do the work again")
