"""What a model is trained on and where it is judged."""

from typing import Literal, NamedTuple

import numpy as np

from devote.core.errors import UserError

Ties = Literal["rows", "quicksort"]
"""Equal values along a discrete input: in row order, the same on every machine, or as NumPy's
unstable sort leaves them, as in the authors' code; that depends on the processor."""


class Points(NamedTuple):
    """Inputs, observed targets and the reference function at the inputs."""

    x: np.ndarray
    y: np.ndarray
    f: np.ndarray


class Split(NamedTuple):
    """Training rows, and evaluation rows in and out of their distribution."""

    train: Points
    inside: Points
    outside: Points


def unit_scale(table: np.ndarray) -> np.ndarray:
    """Every column by its 1st and 99th percentile, clipped to [0, 1] (paper, appendix D.2)."""
    low, high = np.percentile(table, [1, 99], axis=0)
    if np.any(high <= low):
        columns = np.flatnonzero(high <= low).tolist()
        raise UserError("columns that vary", f"columns {columns} without spread", "drop them")
    return np.clip((table - low) / (high - low), 0.0, 1.0)


def gap_splits(
    x: np.ndarray, y: np.ndarray, f: np.ndarray, count: int = 10, ties: Ties = "rows"
) -> list[Split]:
    """Split s: the middle third along input s mod D is held out; a tenth of the rest judges."""
    points = Points(x, y, f)
    return [Split(*(_take(points, rows) for rows in gap(x, s, ties))) for s in range(count)]


def gap(
    x: np.ndarray, number: int, ties: Ties = "rows"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row numbers for training, for judging inside, and in the gap."""
    rows = len(x)
    if rows < 6:
        raise UserError("at least 6 rows for a gap split", rows, "use a larger table")
    kind: Literal["stable", "quicksort"] = "stable" if ties == "rows" else "quicksort"
    order = np.argsort(x[:, number % x.shape[1]], kind=kind)
    gap_rows = order[rows // 3 : 2 * rows // 3]
    rest = np.concatenate([order[: rows // 3], order[2 * rows // 3 :]])
    rest = np.random.default_rng(number).permutation(rest)
    judged = max(1, round(0.1 * len(rest)))
    return rest[judged:], rest[:judged], gap_rows


def _take(points: Points, rows: np.ndarray) -> Points:
    return Points(points.x[rows], points.y[rows], points.f[rows])
