"""How long work takes, from work that was done; and the board that shows a study's time left."""

import csv
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from devote.experiments.cells import Cell, read_record

MEASURED = "durations.csv"
RECORDS = ("cells/*/record.json", "calibration/*/records/*/*.json")
QUIET_SECONDS = 30.0  # between two lines where there is no terminal to redraw
ENOUGH = 0.05  # share of a cell after which its own pace tells its time


class Durations:
    """Seconds per unit of work of each kind of cell: the median of what was seen."""

    def __init__(self) -> None:
        self._rates: dict[str, list[float]] = defaultdict(list)
        self._shipped: dict[str, tuple[float, int]] = {}

    def add(self, kinds: Iterable[str], size: float, seconds: float) -> None:
        """A finished cell."""
        if size > 0:
            for kind in kinds:
                self._rates[kind].append(seconds / size)

    def seconds(self, cell: Cell) -> float | None:
        """Expected time of a whole cell, by the closest kind that was seen; None if none was."""
        for kind in cell.kinds:
            if kind in self._rates:
                return median(self._rates[kind]) * cell.size
            if kind in self._shipped:
                return self._shipped[kind][0] * cell.size
        return None

    @classmethod
    def known(cls, root: Path) -> "Durations":
        """What was measured below `root`, and else what came with the package."""
        durations = cls()
        with files("devote.experiments").joinpath(MEASURED).open() as file:
            durations._shipped = {
                row["kind"]: (float(row["seconds"]), int(row["cells"]))
                for row in csv.DictReader(file)
            }
        for pattern in RECORDS:
            for path in sorted(root.glob(pattern)):
                if (record := read_record(path)) is not None:
                    durations.add(record["kinds"], record["size"], record["seconds"])
        return durations

    def as_csv(self) -> str:
        """What was measured here or came with the package, whichever is of more cells: kind,
        seconds per unit, cells."""
        rows = dict(self._shipped)
        for kind, rates in self._rates.items():
            if len(rates) >= rows.get(kind, (0.0, 0))[1]:
                rows[kind] = median(rates), len(rates)
        lines = [f"{kind},{rate:.4g},{count}\n" for kind, (rate, count) in sorted(rows.items())]
        return "kind,seconds,cells\n" + "".join(lines)


def expected(cells: Iterable[Cell], durations: Durations, cores: int) -> tuple[float, int]:
    """Seconds that unfinished cells take on some cores, and how many nobody can say of."""
    total, unknown = 0.0, 0
    for cell in cells:
        seconds = durations.seconds(cell)
        if seconds is None:
            unknown += 1
        else:
            total += seconds * (1 - cell.progress())
    return total / cores, unknown


def in_words(seconds: float) -> str:
    """A duration as one would say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


class Board:
    """A bar in a terminal, lines elsewhere."""

    def __init__(
        self, cells: Sequence[Cell], durations: Durations, cores: int, silent: bool = False
    ) -> None:
        self.open = {cell.identity: cell for cell in cells}
        self.total = len(cells)
        self.durations, self.cores = durations, cores
        self.console = Console(quiet=silent, highlight=False)
        self.shares = {cell.identity: cell.progress() for cell in cells}
        self.at_start: dict[str, float] = {}
        self.first: dict[str, tuple[float, float]] = {}  # seconds and share at the first progress
        self.failures = 0
        self._last_line = time.monotonic()
        self._bar = Progress(
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f}  {task.fields[detail]}"),
            console=self.console,
            transient=True,
        )
        self._task = self._bar.add_task("", total=self.total, detail="")

    def __enter__(self) -> Self:
        if self.total:
            self._say(f"{self.total} to do, {self.left({})}")
        if self.console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def started(self, cell: Cell) -> None:
        """A cell begins, or goes on from where it was."""
        self.at_start[cell.identity] = self.shares[cell.identity] = cell.progress()

    def done(self, cell: Cell, seconds: float) -> None:
        """A cell is finished; what it took tells about its like."""
        whole = cell.seconds()
        if whole is None and self.at_start[cell.identity] == 0:
            whole = seconds
        if whole is not None:
            self.durations.add(cell.kinds, cell.size, whole)
        self._close(cell)
        self._say(f"done     {cell.name} ({in_words(seconds)}); {self.left({})}")

    def found(self, cell: Cell) -> None:
        """A cell that another process was at is finished."""
        self._close(cell)
        self._say(f"done     {cell.name} (by another process); {self.left({})}")

    def failed(self, cell: Cell, reason: str, tail: str) -> None:
        """A cell ended without its result."""
        self.failures += 1
        self._close(cell)
        self._say(f"FAILED   {cell.name}: {reason}")
        if tail:
            self._say("".join(f"         | {line}\n" for line in tail.splitlines()).rstrip())

    def show(self, running: Mapping[str, float]) -> None:
        """Where the running cells are, by identity the seconds since they began."""
        if not self.console.is_terminal and time.monotonic() - self._last_line < QUIET_SECONDS:
            return
        cells = [self.open[identity] for identity in running if identity in self.open]
        left = self.left(running)
        shares = ", ".join(f"{cell.name} {self.shares[cell.identity]:.0%}" for cell in cells)
        failed = f"{self.failures} failed, " if self.failures else ""
        detail = f"{failed}{left}  {shares}"
        done = self._done()
        self._bar.update(self._task, completed=done, detail=detail)
        if not self.console.is_terminal and cells:
            self._say(f"{done}/{self.total} done, {detail}")

    def left(self, running: Mapping[str, float]) -> str:
        """Time left for the whole, as far as anybody can say."""
        begun = self.at_start.keys() & self.open.keys()  # here, or by another runner
        self.shares |= {identity: self.open[identity].progress() for identity in begun}
        shares = self.shares
        wholes = {i: self._whole(c, shares[i], running.get(i)) for i, c in self.open.items()}
        known = [seconds for seconds in wholes.values() if seconds is not None]
        if not self.open:
            return "nothing left"
        if not known:
            return "time left not known yet"
        # What nobody has measured is taken to be like the rest.
        usual = sum(known) / len(known)
        times = [
            (usual if whole is None else whole) * (1 - shares[i]) for i, whole in wholes.items()
        ]
        return f"about {in_words(max(sum(times) / self.cores, max(times)))} left"

    def _whole(self, cell: Cell, share: float, elapsed: float | None) -> float | None:
        """Seconds of a cell from start to end: by its own pace, else by those of its like."""
        if elapsed is not None and share > self.at_start.get(cell.identity, 0.0):
            # what came before the first sign of progress is mostly compilation
            since, first = self.first.setdefault(cell.identity, (elapsed, share))
            if share - first > ENOUGH:
                return (elapsed - since) / (share - first)
        return self.durations.seconds(cell)

    def _close(self, cell: Cell) -> None:
        self.open.pop(cell.identity, None)
        self._bar.update(self._task, completed=self._done())

    def _done(self) -> int:
        return self.total - len(self.open) - self.failures

    def _say(self, text: str) -> None:
        self._last_line = time.monotonic()
        self.console.print(text, markup=False, soft_wrap=True)


if __name__ == "__main__":  # ship what was measured below ./runs
    Path(__file__).with_name(MEASURED).write_text(Durations.known(Path("runs")).as_csv())
