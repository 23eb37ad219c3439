"""How long work takes, from work that was done."""

import csv
from collections import defaultdict
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from statistics import median

from devote.experiments.cell import Cell
from devote.experiments.record import read_record

MEASURED = "durations.csv"
RECORDS = ("cells/*/record.json", "calibration/*/records/*/*.json")


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


if __name__ == "__main__":  # ship what was measured below ./runs
    Path(__file__).with_name(MEASURED).write_text(Durations.known(Path("runs")).as_csv())
