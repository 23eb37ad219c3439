"""Where a run keeps its checkpoints and metrics: a directory, or nowhere."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from devote.loops import checkpoint
from devote.loops.fused import RunState
from devote.loops.metrics_log import MetricsLog
from devote.loops.run_dir import claim_settings

CHECKPOINTS, METRICS = "checkpoints", "metrics.csv"
MAY_CHANGE = ("steps",)
"""Settings that two starts of one run may differ in."""

Row = dict[str, Any]
"""Metrics of one seed by name."""


@dataclass(frozen=True)
class Restored:
    """What an earlier sitting left."""

    step: int
    state: RunState
    seconds: float


class Store(Protocol):
    """Asked by a training in this order: open once, then append and save."""

    def open(self, shape: RunState, columns: tuple[str, ...]) -> Restored | None:
        """What is there of an earlier sitting, if anything."""
        ...

    def append(self, rows: list[Row]) -> None:
        """Keep metrics."""
        ...

    def save(self, step: int, state: RunState, seconds: float) -> None:
        """Keep everything that changes."""
        ...


class DirectoryStore:
    """A directory that the caller owns; `settings` identify the run.

    Those that `defaults` names are at their default and may be newer than the directory.
    """

    def __init__(
        self, directory: Path, settings: dict[str, Any], defaults: Collection[str] = ()
    ) -> None:
        self.directory = directory
        self.settings, self.defaults = settings, defaults
        self.log: MetricsLog

    def __str__(self) -> str:
        return str(self.directory)

    def open(self, shape: RunState, columns: tuple[str, ...]) -> Restored | None:
        """The newest checkpoint; metrics after it are dropped."""
        claim_settings(self.directory, self.settings, MAY_CHANGE, self.defaults)
        found = checkpoint.restore(self.directory / CHECKPOINTS, shape, exact=True)
        self.log = MetricsLog(self.directory / METRICS, columns)
        if found is None:
            self.log.truncate(-1)
            return None
        step, state, note = found
        self.log.truncate(step)
        return Restored(step, state, float(str(note["time_elapsed"])))

    def append(self, rows: list[Row]) -> None:
        """Add rows to the metrics."""
        self.log.append(rows)

    def save(self, step: int, state: RunState, seconds: float) -> None:
        """Write a checkpoint."""
        checkpoint.save(self.directory / CHECKPOINTS, step, state, {"time_elapsed": seconds})


class Nowhere:
    """Keeps nothing; the run lives in memory alone."""

    def __str__(self) -> str:
        return "memory"

    def open(self, shape: RunState, columns: tuple[str, ...]) -> None:
        """There is never anything."""
        return None

    def append(self, rows: list[Row]) -> None:
        """Forget."""

    def save(self, step: int, state: RunState, seconds: float) -> None:
        """Forget."""
