"""Work that is done once, whoever is killed meanwhile: what a cell is, and how one that is finished
is recorded."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from devote.core.durable import atomic_write_text
from devote.core.errors import UserError

TIMED = {"kinds", "size", "seconds"}
"""What every record has, whatever its cell describes."""


class Cell(Protocol):
    """What the runner needs to know of a piece of work; it travels to a process of its own."""

    @property
    def name(self) -> str:
        """What a person reads."""

    @property
    def identity(self) -> str:
        """The same for the same work, in every process; fit for a file name."""

    @property
    def record(self) -> Path:
        """Where it is written down how and when the work was done."""

    @property
    def needs(self) -> Sequence["Cell"]:
        """Cells that must be finished before."""

    @property
    def kinds(self) -> Sequence[str]:
        """Groups of cells that take about as long per unit of work, the closest first."""

    @property
    def size(self) -> float:
        """Units of work."""

    def finished(self) -> bool:
        """Whether the result is there."""

    def outdated(self) -> bool:
        """Whether a result of other settings is in the place of this one."""

    def make(self) -> bool:
        """Do the work, or go on with it; False when a signal stopped it before the end."""

    def progress(self) -> float:
        """The share of the work that is on disk, from 0 to 1."""

    def seconds(self) -> float | None:
        """How long a finished cell took in all processes that worked on it; None where that is not
        kept, and the last one's time counts."""

    def describe(self) -> Mapping[str, Any]:
        """Command, preset, seeds and settings, for the record."""


def machine() -> str:
    """Processor and cores; nothing that names the computer or its owner."""
    processor = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                processor = line.split(":", 1)[1].strip()
                break
    return f"{processor}, {os.cpu_count()} cores"


def write_record(cell: Cell, seconds: float, finished: date | None = None) -> None:
    """Note that a cell is finished, in one step; on another day only what was made before."""
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


def read_record(path: Path) -> dict[str, Any] | None:
    """What `write_record` wrote, if it is there."""
    if not path.is_file():
        return None
    fix = "delete the file to do the work again"
    try:
        content = json.loads(path.read_text())
    except ValueError as error:
        raise UserError(f"JSON in {path}", error, fix) from error
    if not (isinstance(content, dict) and content.keys() >= TIMED):
        raise UserError(f"a record with {', '.join(sorted(TIMED))} in {path}", "none", fix)
    return content
