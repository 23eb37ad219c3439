"""One real training as a cell, and a runner of it that can be killed."""

import sys
from dataclasses import replace
from pathlib import Path

from devote.experiments.comparison import TrainingCell
from devote.experiments.runner import LocalEngine, run_cells
from devote.presets import PRESETS

STEPS = 8_000  # ten checkpoints


def cell(root: Path) -> TrainingCell:
    return TrainingCell(replace(PRESETS["smoke"]("deep_sea", "sac"), steps=STEPS), root)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    engine = LocalEngine(folder / "work", 1)
    outcome = run_cells([cell(folder)], folder, engine, silent=True)
    print(outcome)
    sys.exit(0 if outcome.finished == 1 else 1)
