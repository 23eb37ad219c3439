"""Finished runs that cost nothing, and the comparison that asks for them."""

from collections.abc import Sequence

import numpy as np

from devote.experiments.cells import write_record
from devote.experiments.commands import Compare
from devote.experiments.comparison import TrainingCell
from devote.loops.metrics_log import MetricsLog

WORDS = ["--envs", "deep_sea,size=6", "spiral", "--preset", "smoke", "--seeds", "3"]
ASKED = Compare(envs=("deep_sea,size=6", "spiral"), preset="smoke", seeds=3)


def pretend(cell: TrainingCell, values: Sequence[float], until: int | None = None) -> None:
    """A finished run directory with a made-up coverage."""
    cell.folder.mkdir(parents=True)
    steps = np.linspace(0, until or cell.run.steps, len(values) + 1)[1:].astype(int)
    columns = ("step", "explore/coverage", "train/n_updates", "time/time_elapsed")
    log = MetricsLog(cell.folder / "metrics.csv", columns)
    log.append(
        [
            dict(zip(columns, (int(step), value, 1, 2.0), strict=True))
            for step, value in zip(steps, values, strict=True)
        ]
    )
    write_record(cell, 2.0)
