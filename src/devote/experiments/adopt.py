"""Finished runs of `devote train` become cells: `python -m devote.experiments.adopt DIR ...`."""

import json
import os
import sys
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from devote.experiments.record import write_record
from devote.experiments.training import METRICS, TrainingCell
from devote.loops.metrics_log import read
from devote.loops.run_dir import SETTINGS
from devote.loops.train import CHECKPOINTS
from devote.presets import PRESETS
from devote.run import Run

ROOT = Path("runs")


def adopt(folder: Path, root: Path = ROOT) -> TrainingCell | None:
    """Link a finished run directory to the place where studies look; None if it is not finished."""
    cell = TrainingCell(run_of(json.loads((folder / SETTINGS).read_text())), root)
    if not _complete(folder, cell.run.steps):
        return None
    cell.folder.parent.mkdir(parents=True, exist_ok=True)
    if not cell.folder.exists():
        os.symlink(os.path.relpath(folder, cell.folder.parent), cell.folder)
    if not cell.finished():
        write_record(cell, 0.0)
    return cell


def run_of(saved: dict[str, Any]) -> Run:
    """The run that saved settings describe; a setting that is newer than them is the preset's."""
    base = PRESETS[saved["preset"]](saved["env_name"], saved["agent_name"])
    return _restored(base, saved)


def _restored(settings: Any, saved: dict[str, Any]) -> Any:
    values: dict[str, Any] = {}
    for entry in fields(settings):
        value = getattr(settings, entry.name)
        if entry.name in saved:
            found = saved[entry.name]
            values[entry.name] = _restored(value, found) if is_dataclass(value) else found
    return replace(settings, **values)


def _complete(folder: Path, steps: int) -> bool:
    """Whether the last line of the metrics and a checkpoint are at the end of the run."""
    table = read(folder / METRICS)
    last = int(table["step"][-1]) if len(table["step"]) else 0
    return last >= steps and (folder / CHECKPOINTS / f"step_{last:09d}").is_dir()


def main() -> None:
    """Adopt every finished run below the given directories."""
    for top in map(Path, sys.argv[1:]):
        for path in sorted(top.rglob(SETTINGS)):
            cell = adopt(path.parent)
            print(f"{path.parent}: {'not finished' if cell is None else cell.folder}")


if __name__ == "__main__":
    main()
