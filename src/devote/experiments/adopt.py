"""Finished runs of `devote train` become cells: `python -m devote.experiments.adopt DIR ...`."""

import os
import sys
from datetime import date
from pathlib import Path

from devote.core.errors import UserError
from devote.experiments.cells import write_record
from devote.experiments.comparison import TrainingCell
from devote.loops import checkpoint
from devote.loops.metrics_log import last_step
from devote.loops.run_dir import CHECKPOINTS, METRICS, SETTINGS, require_sealed
from devote.saved import saved_run

ROOT = Path("runs")


def adopt(folder: Path, root: Path = ROOT) -> TrainingCell | None:
    """Link a finished run directory to the place where studies look; None if it is not finished."""
    run = saved_run(folder)
    if run.seeds > 1:
        fix = "studies have a run for every seed"
        raise UserError(f"a run of one seed in {folder}", f"{run.seeds} in one program", fix)
    cell = TrainingCell(run, root)
    if not _complete(folder, cell.run.steps):
        return None
    if cell.finished():
        return cell
    cell.folder.parent.mkdir(parents=True, exist_ok=True)
    if not cell.folder.exists():
        os.symlink(os.path.relpath(folder, cell.folder.parent), cell.folder)
    if not cell.folder.samefile(folder):
        got = f"one that is not finished, in {cell.folder}"
        raise UserError("no other run in the place of this one", got, "move one of them away")
    write_record(cell, 0.0, date.fromtimestamp((folder / METRICS).stat().st_mtime))
    return cell


def _complete(folder: Path, steps: int) -> bool:
    """Whether the last line of the metrics and a checkpoint are at the end of the run."""
    if not (folder / METRICS).is_file():
        return False
    last = int(last_step(folder / METRICS))
    found = checkpoint.newest(folder / CHECKPOINTS)
    if last < steps or found is None or found[0].name != f"step_{last:09d}":
        return False
    require_sealed(folder / METRICS, found[1], last)
    return True


def main() -> None:
    """Adopt every finished run below the given directories."""
    for top in map(Path, sys.argv[1:]):
        for path in sorted(top.rglob(SETTINGS)):
            try:
                cell = adopt(path.parent)
            except UserError as error:
                print(f"{path.parent}: {error}")
                continue
            print(f"{path.parent}: {'not finished' if cell is None else cell.folder}")


if __name__ == "__main__":
    main()
