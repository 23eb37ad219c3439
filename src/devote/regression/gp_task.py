"""The synthetic task: a function drawn from a GP, seen at three clusters of points."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from devote.core.errors import UserError
from devote.regression.splits import Points, Split


@dataclass(frozen=True)
class GpTask:
    """Paper, appendix D.2, "Data and splits"; the noise is a standard deviation."""

    length_scale: float = 1.0
    noise: float = 0.1
    low: float = 0.0
    high: float = 10.0
    clusters: int = 3
    cluster_size: int = 50
    radius: float = 0.1
    outside: int = 250
    grid: int = 1000


PAPER = GpTask()


class GpDraw(NamedTuple):
    """One function: where it is observed and judged, and what it is on a grid."""

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
    """Values at `x` of a function from a GP with an RBF kernel of amplitude one."""
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
