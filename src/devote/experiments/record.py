"""How, when and where a result was made, written beside it."""

import json
import os
import platform
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from devote.core.durable import atomic_write_text
from devote.core.errors import UserError
from devote.experiments.cell import Cell

TIMED = {"kinds", "size", "seconds"}
"""What every record has, whatever its cell describes."""


def machine() -> str:
    """Processor and cores; nothing that names the computer or its owner."""
    return f"{_processor()}, {os.cpu_count()} cores"


def write_readme(out: Path, caption: str, command: str) -> Path:
    """What a figure without cells of its own is, and how, when and where it was made."""
    made = f"Made {date.today().isoformat()} on {machine()}."
    atomic_write_text(out / "README.md", f"# {caption}\n\n    {command}\n\n{made}\n")
    return out / "README.md"


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
    try:
        content = json.loads(path.read_text())
    except ValueError as error:
        raise UserError(f"JSON in {path}", error, "delete the file to do the work again") from error
    if not (isinstance(content, dict) and content.keys() >= TIMED):
        fix = "delete the file to do the work again"
        raise UserError(f"a record with {', '.join(sorted(TIMED))} in {path}", "none", fix)
    return content


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
