"""Training and test data: gap splits of a table, and draws of a GP."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from devote.core.errors import UserError
from devote.regression import uci

GP = "gp"
"""The synthetic dataset; all others are UCI tables."""
Ties = Literal["rows", "quicksort"]
"""Order of equal inputs: that of the rows, the same on every machine; or that of NumPy's unstable
sort, as in the authors' code, which depends on the processor."""


class Points(NamedTuple):
    """Inputs, observed targets and the reference function at the inputs."""

    x: np.ndarray
    y: np.ndarray
    f: np.ndarray


class Split(NamedTuple):
    """Training rows, and test rows in and out of their distribution."""

    train: Points
    inside: Points
    outside: Points


class Dataset(NamedTuple):
    """Splits, and the inputs at which models predict: inside, outside, then a grid."""

    splits: list[Split]
    queries: list[np.ndarray]

    @property
    def digest(self) -> str:
        """Hash of these inputs in order; cells with the same hash can be combined."""
        return hashlib.sha256(b"".join(x.tobytes() for x in self.queries)).hexdigest()


def unit_scale(table: np.ndarray) -> np.ndarray:
    """Every column by its 1st and 99th percentile, clipped to [0, 1] (paper, appendix D.2)."""
    low, high = np.percentile(table, [1, 99], axis=0)
    if np.any(high <= low):
        columns = np.flatnonzero(high <= low).tolist()
        raise UserError("columns that vary", f"columns {columns} without spread", "drop them")
    return np.clip((table - low) / (high - low), 0.0, 1.0)


def gap(
    x: np.ndarray, number: int, ties: Ties = "rows"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row numbers for training, for testing inside and in the gap: the middle third along one input
    is the gap, and a tenth of the rest is held out."""
    rows = len(x)
    if rows < 6:
        raise UserError("at least 6 rows for a gap split", rows, "use a larger table")
    kind: Literal["stable", "quicksort"] = "stable" if ties == "rows" else "quicksort"
    order = np.argsort(x[:, number % x.shape[1]], kind=kind)
    gap_rows = order[rows // 3 : 2 * rows // 3]
    rest = np.concatenate([order[: rows // 3], order[2 * rows // 3 :]])
    rest = np.random.default_rng(number).permutation(rest)
    tested = max(1, round(0.1 * len(rest)))
    return rest[tested:], rest[:tested], gap_rows


def scaled_table(name: str, folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and target of a UCI table in the paper's scaling."""
    table = unit_scale(uci.load(name, folder))
    return table[:, :-1], table[:, -1]


def gap_dataset(
    x: np.ndarray, y: np.ndarray, f: np.ndarray, count: int = 10, ties: Ties = "rows"
) -> Dataset:
    """Gap splits of a table with its reference; split s has its gap along input s mod D."""
    splits = [
        Split(*(Points(x[rows], y[rows], f[rows]) for rows in gap(x, number, ties)))
        for number in range(count)
    ]
    return Dataset(splits, [np.concatenate([s.inside.x, s.outside.x]) for s in splits])


def tested_rows(dataset: str) -> tuple[int, int]:
    """How many test rows a split has inside the training distribution, and outside; every cell's
    predictions start with them, in this order."""
    if dataset == GP:
        return PAPER.clusters * PAPER.cluster_size, PAPER.outside
    _, inside, outside = gap(np.zeros((uci.TABLES[dataset].shape[0], 1)), 0)
    return len(inside), len(outside)


@dataclass(frozen=True)
class GpTask:
    """A function drawn from a GP, observed with noise at clusters of points: paper, appendix D.2,
    "Data and splits"."""

    length_scale: float = 1.0
    noise: float = 0.1  # standard deviation
    low: float = 0.0
    high: float = 10.0
    clusters: int = 3
    cluster_size: int = 50
    radius: float = 0.1
    outside: int = 250
    grid: int = 1000


PAPER = GpTask()


class GpDraw(NamedTuple):
    """One function: its split, and its values on a grid."""

    split: Split
    grid_x: np.ndarray
    grid_f: np.ndarray


def draw_task(seed: int, task: GpTask = PAPER) -> GpDraw:
    """The task with anchors, points, function and noise drawn from `seed`."""
    generator = np.random.default_rng(seed)
    anchors = generator.uniform(task.low, task.high, task.clusters)
    grid = np.linspace(task.low, task.high, task.grid)
    parts = [
        _around(generator, anchors, task),
        _around(generator, anchors, task),
        generator.uniform(task.low, task.high, task.outside),
        grid,
    ]
    x = np.concatenate(parts)
    f = draw_function(generator, x, task.length_scale)
    y = f + task.noise * generator.normal(size=f.shape)
    ends = np.cumsum([len(part) for part in parts])[:-1]
    pieces = [np.split(values, ends) for values in (x[:, None], y, f)]
    train, inside, outside, _ = (Points(*piece) for piece in zip(*pieces, strict=True))
    return GpDraw(Split(train, inside, outside), grid, pieces[2][3])


def draw_function(generator: np.random.Generator, x: np.ndarray, length_scale: float) -> np.ndarray:
    """Values at `x` of a draw from a GP with an RBF kernel of amplitude one."""
    kernel = np.exp(-0.5 * ((x[:, None] - x) / length_scale) ** 2)
    normal = generator.normal(size=len(x))
    for jitter in (1e-6, 1e-5, 1e-4, 1e-3):
        try:
            return np.linalg.cholesky(kernel + jitter * np.eye(len(x))) @ normal
        except np.linalg.LinAlgError:
            continue
    raise UserError("a kernel that can be factorised", f"length {length_scale}", "shorten it")


def _around(generator: np.random.Generator, anchors: np.ndarray, task: GpTask) -> np.ndarray:
    offsets = generator.uniform(-task.radius, task.radius, (len(anchors), task.cluster_size))
    return (anchors[:, None] + offsets).ravel()


def gp_dataset(count: int) -> Dataset:
    """Draws of the GP task."""
    draws = [draw_task(seed) for seed in range(count)]
    queries = [
        np.concatenate([d.split.inside.x, d.split.outside.x, d.grid_x[:, None]]) for d in draws
    ]
    return Dataset([draw.split for draw in draws], queries)


def gp_arrays(count: int) -> dict[str, np.ndarray]:
    """The functions of the GP task on the grid and their observations, for a figure."""
    draws = [draw_task(seed) for seed in range(count)]
    return {
        "grid": draws[0].grid_x,
        "f": np.stack([draw.grid_f for draw in draws]),
        "x": np.stack([draw.split.train.x[:, 0] for draw in draws]),
        "y": np.stack([draw.split.train.y for draw in draws]),
    }
