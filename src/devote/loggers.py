"""TensorBoard and W&B, with the names of `metrics.csv`, which is written in any case. Both are
callbacks: `agent.learn(steps, callback=TensorBoard("tb"))`."""

import hashlib
import math
from importlib import import_module
from pathlib import Path
from typing import Any

from devote.core.errors import extra

Row = dict[str, Any]


def _numbers(row: Row) -> dict[str, float]:
    """The metrics of a row that have a value."""
    told = {name: float(value) for name, value in row.items() if name not in ("step", "seed")}
    return {name: value for name, value in told.items() if math.isfinite(value)}


class TensorBoard:
    """Writes events to a folder per seed; a resumed run replaces the events that it repeats."""

    def __init__(self, directory: str | Path) -> None:
        with extra("tensorboard"):
            self._library: Any = import_module("tensorboardX")
        self.directory = Path(directory)
        self._writers: dict[int, Any] = {}

    def __call__(self, row: Row) -> None:
        """One row of metrics."""
        step, seed = int(row["step"]), int(row.get("seed", 0))
        if seed not in self._writers:
            folder, suffix = str(self.directory / f"seed_{seed}"), f".{step}"
            make = self._library.SummaryWriter
            self._writers[seed] = make(folder, purge_step=step, filename_suffix=suffix)
        for name, value in _numbers(row).items():
            self._writers[seed].add_scalar(name, value, step)
        self._writers[seed].flush()

    def on_end(self, model: Any = None) -> None:
        """Close the files."""
        while self._writers:
            self._writers.popitem()[1].close()


class Wandb:
    """A W&B run per seed, offline if WANDB_MODE says so; or one of `library`, such as Trackio,
    which takes the same calls."""

    def __init__(
        self,
        project: str = "devote",
        name: str = "run",
        directory: str | Path = ".",
        library: Any = None,
    ) -> None:
        with extra("wandb"):
            self.library = library or import_module("wandb")
        self.own = {"dir": str(directory), "reinit": "create_new"} if library is None else {}
        self.project, self.name, self.place = project, name, str(Path(directory).resolve())
        self._runs: dict[int, Any] = {}

    def __call__(self, row: Row) -> None:
        """One row of metrics."""
        seed = int(row.get("seed", 0))
        if seed not in self._runs:
            own, name = dict(self.own), f"{self.name} seed {seed}"
            if own:  # the same run when the training is resumed
                own["id"] = hashlib.sha256(f"{self.place} {name}".encode()).hexdigest()[:16]
            begin = self.library.init
            self._runs[seed] = begin(project=self.project, name=name, resume="allow", **own)
        self._runs[seed].log(_numbers(row), step=int(row["step"]))

    def on_end(self, model: Any = None) -> None:
        """Finish the runs."""
        while self._runs:
            self._runs.popitem()[1].finish()
