"""A study of cells that cost nothing, here, on Ray or as a task of SLURM; run as a command."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from fake import RELEASE, FakeCell

COUNT = 12


def cells(folder: Path, pause: float) -> list[FakeCell]:
    return [FakeCell(folder, number, pause) for number in range(COUNT)]


def pace(folder: Path) -> float:
    """Seconds from one end of a cell to the next."""
    ends = [cell.result.stat().st_mtime for cell in cells(folder, 0.0)]
    return (max(ends) - min(ends)) / (COUNT - 1)


def release(folder: Path) -> None:
    """Let the cells that pause come to their end."""
    (folder / RELEASE).touch()


if __name__ == "__main__":
    folder, pause = Path(sys.argv[2]), float(sys.argv[3])
    if sys.argv[1] in ("local", "ray"):
        from devote.experiments.ray_engine import RayEngine
        from devote.experiments.runner import LocalEngine, run_cells

        engine = (
            RayEngine(folder / "work", 1, 0, None)
            if sys.argv[1] == "ray"
            else LocalEngine(folder / "work", 2)
        )
        outcome = run_cells(cells(folder, pause), folder, engine)
        print(outcome)
        sys.exit(1 if outcome.failures or outcome.stopped_by else 0)
    from devote.experiments.slurm import make_cell

    (mine,) = [cell for cell in cells(folder, pause) if cell.identity == sys.argv[-1]]
    make_cell(mine, folder, 1)
