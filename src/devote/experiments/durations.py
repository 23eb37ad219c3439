"""Estimates of how long cells take, from earlier ones, and the progress board of a study."""

import csv
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Self

from rich.progress import BarColumn, Progress, TextColumn

from devote.experiments.cells import Cell, read_record
from devote.loops.progress import PlainConsole

MEASURED = "durations.csv"
"""Rows of no cells are counted: FLOPs of an update (`benchmarks/scaling.py`) at the 40 GFLOP/s that
measured cells of the desk preset reach on a core."""
RECORDS = ("cells/*/record.json", "calibration/*/records/*/*.json")
QUIET_SECONDS = 30.0  # between two lines where there is no terminal to redraw
ENOUGH = 0.05  # share of a cell after which its own pace tells its time


class Durations:
    """Median seconds per unit of work, by kind of cell."""

    def __init__(self) -> None:
        self._rates: dict[str, list[float]] = defaultdict(list)
        self._shipped: dict[str, tuple[float, int]] = {}

    def add(self, kinds: Iterable[str], size: float, seconds: float) -> None:
        """Add a finished cell."""
        if size > 0:
            for kind in kinds:
                self._rates[kind].append(seconds / size)

    def seconds(self, cell: Cell) -> float | None:
        """Expected seconds of a cell, by its most specific known kind; None if none is known."""
        for kind in cell.kinds:
            if kind in self._rates:
                return median(self._rates[kind]) * cell.size
            if kind in self._shipped:
                return self._shipped[kind][0] * cell.size
        return None

    @classmethod
    def known(cls, root: Path) -> "Durations":
        """Measurements below `root`, and those shipped with the package for other kinds."""
        durations = cls()
        with files("devote.experiments").joinpath(MEASURED).open() as file:
            durations._shipped = {
                row["kind"]: (float(row["seconds"]), int(row["cells"]))
                for row in csv.DictReader(file)
            }
        for path in [path for pattern in RECORDS for path in sorted(root.glob(pattern))]:
            if (record := read_record(path)) is not None:
                durations.add(record["kinds"], record["size"], record["seconds"])
        return durations

    def as_csv(self) -> str:
        """Kind, seconds per unit and cells; measured or shipped, whichever is of more cells."""
        rows = dict(self._shipped)
        for kind, rates in self._rates.items():
            if len(rates) >= rows.get(kind, (0.0, 0))[1]:
                rows[kind] = median(rates), len(rates)
        lines = [f"{kind},{rate:.4g},{count}\n" for kind, (rate, count) in sorted(rows.items())]
        return "kind,seconds,cells\n" + "".join(lines)


def time_left(work: Iterable[tuple[float | None, float]], cores: int) -> float | None:
    """Seconds until `cores` have finished cells given as (seconds or None, share done). An unknown
    cell counts as the mean of the others; None if all are unknown."""
    work = list(work)
    known = [seconds for seconds, _ in work if seconds is not None]
    if not known:
        return None
    usual = sum(known) / len(known)
    times = [(usual if seconds is None else seconds) * (1 - share) for seconds, share in work]
    return max(sum(times) / cores, max(times))


def in_words(seconds: float) -> str:
    """A duration for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    if seconds < 72 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:,.0f} days"


class Board:
    """A progress bar in a terminal, lines elsewhere."""

    def __init__(
        self, cells: Sequence[Cell], durations: Durations, cores: int, silent: bool = False
    ) -> None:
        self.open = {cell.identity: cell for cell in cells}
        self.total = len(cells)
        self.durations, self.cores = durations, cores
        self.console = PlainConsole(quiet=silent, highlight=False)
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
        """A cell starts or resumes."""
        self.at_start[cell.identity] = self.shares[cell.identity] = cell.progress()

    def done(self, cell: Cell, seconds: float) -> None:
        """A cell is finished; its time improves the estimates."""
        whole = cell.seconds()
        if whole is None and self.at_start[cell.identity] == 0:
            whole = seconds
        if whole is not None:
            self.durations.add(cell.kinds, cell.size, whole)
        self._close(cell)
        self._say(f"done     {cell.name} ({in_words(seconds)}); {self.left({})}")

    def found(self, cell: Cell) -> None:
        """A cell is finished that another process was running."""
        self._close(cell)
        self._say(f"done     {cell.name} (by another process); {self.left({})}")

    def failed(self, cell: Cell, reason: str, tail: str) -> None:
        """A cell ended without a result."""
        self.failures += 1
        self._close(cell)
        self._say(f"FAILED   {cell.name}: {reason}")
        if tail:
            self._say("".join(f"         | {line}\n" for line in tail.splitlines()).rstrip())

    def show(self, running: Mapping[str, float]) -> None:
        """Show progress; `running` has the seconds since each running cell started."""
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
        """Estimated time left for the study."""
        begun = self.at_start.keys() & self.open.keys()  # here, or by another runner
        self.shares |= {identity: self.open[identity].progress() for identity in begun}
        if not self.open:
            return "nothing left"
        work = [(cell, self.shares[i], running.get(i)) for i, cell in self.open.items()]
        seconds = time_left([(self._whole(*one), one[1]) for one in work], self.cores)
        return "time left not known yet" if seconds is None else f"about {in_words(seconds)} left"

    def _whole(self, cell: Cell, share: float, elapsed: float | None) -> float | None:
        """Seconds of a whole cell: by its own pace, else by earlier cells of its kind."""
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
