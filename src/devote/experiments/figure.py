"""A figure or table as a value: the work it needs and how it is drawn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from devote.core.errors import UserError
from devote.experiments.cell import Cell

Draw = Callable[[Path, str], list[Path]]
"""From the results there are to files: (directory, command that was typed) -> what was written."""


@dataclass(frozen=True)
class Figure:
    """One figure or table at one scale."""

    label: str
    """The paper's, or a name of our own."""
    title: str
    scale: str
    out: Path
    """Where it is written by default."""
    parts: Mapping[str, Sequence[Cell]]
    """The work by task, so that a part of it can be asked for."""
    draw: Draw
    missing: tuple[str, ...] = ()
    """Agents and tasks that it asks for and that the library does not have yet."""
    outdated: Callable[[], list[str]] = list
    """Names of cells whose place holds a result of other settings."""
    recorded: Callable[[Path], frozenset[str]] = lambda out: frozenset()
    """Identities of cells that are not on this disk, but in the files of a directory; damaged
    files, or those of another scale, are refused."""

    def cells(self, only: Sequence[str] = ()) -> list[Cell]:
        """The cells of the named parts, or all."""
        unknown = [name for name in only if name not in self.parts]
        if unknown:
            expected = f"parts of {self.label}: {', '.join(self.parts)}"
            raise UserError(expected, ", ".join(unknown), "correct the names after --only")
        return [cell for part in only or self.parts for cell in self.parts[part]]
