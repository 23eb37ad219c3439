"""One piece of work that is done once, whatever happens to the process that does it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol


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

    def make(self) -> bool:
        """Do the work, or go on with it; False when a signal stopped it before the end."""

    def progress(self) -> float:
        """The share of the work that is on disk, from 0 to 1."""

    def seconds(self) -> float | None:
        """How long a finished cell took over all sittings; None for the last sitting's time."""

    def describe(self) -> Mapping[str, Any]:
        """Command, preset, seeds and settings, for the record."""
