"""What few runs allow to say: interquartile means, bootstrap intervals, exact shifts.

Scores are arrays with the axes (run, task), in this order everywhere; a single task is a column.
"""

from collections.abc import Callable
from math import comb
from typing import NamedTuple

import numpy as np

from devote.core.errors import UserError

FEWEST = 3
"""Runs below which no interval is given."""


class Interval(NamedTuple):
    """A value and the interval around it; NaN ends where there is none."""

    value: float
    low: float
    high: float


class Shift(NamedTuple):
    """By how much one method is above another, with an exact, distribution-free interval."""

    value: float
    low: float
    high: float
    level: float
    """The probability with which the interval holds the true shift; 0 where there is none."""


def iqm(scores: np.ndarray) -> np.ndarray:
    """Mean of the middle half of all runs and tasks, over the last two axes; none without all."""
    scores = np.asarray(scores, float)
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    outside = flat.shape[-1] // 4
    middle = flat[..., outside : flat.shape[-1] - outside].mean(axis=-1)
    # sorted last, a missing score would be taken for the best and trimmed
    return np.where(np.isnan(flat[..., -1]), np.nan, middle)


def stratified_bootstrap(
    *samples: np.ndarray,
    statistic: Callable[..., np.ndarray],
    level: float = 0.95,
    draws: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Percentile interval of a statistic; runs are drawn anew within each task."""
    samples = tuple(_two_axes(scores) for scores in samples)
    value = float(statistic(*samples))
    if np.isnan(value) or min(scores.shape[0] for scores in samples) < FEWEST:
        return Interval(value, np.nan, np.nan)
    generator = np.random.default_rng(seed)
    drawn = []
    for scores in samples:
        runs, tasks = scores.shape
        chosen = generator.integers(runs, size=(draws, runs, tasks))
        drawn.append(scores[chosen, np.arange(tasks)])
    tail = 100 * (1 - level) / 2
    low, high = np.percentile(statistic(*drawn), [tail, 100 - tail])
    return Interval(value, float(low), float(high))


def probability_of_improvement(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Chance that a run of mine beats a run of theirs, ties half, mean over tasks."""
    mine, theirs = np.asarray(mine, float), np.asarray(theirs, float)
    difference = mine[..., :, None, :] - theirs[..., None, :, :]
    return np.asarray((np.sign(difference).mean(axis=(-3, -2)) / 2 + 0.5).mean(axis=-1))


def shift(mine: np.ndarray, theirs: np.ndarray, level: float = 0.95) -> Shift:
    """Median of all differences of two runs, and the interval that the rank-sum test allows.

    Where so few runs cannot give the level, the widest interval comes with the level it has.
    """
    mine, theirs = np.asarray(mine, float), np.asarray(theirs, float)
    differences = np.sort((mine[:, None] - theirs[None, :]).ravel())
    value = float(np.median(differences))
    if min(len(mine), len(theirs)) < FEWEST:
        return Shift(value, np.nan, np.nan, 0.0)
    # P(U < k) for both tails; the interval from the k-th smallest to the k-th largest difference
    below = np.cumsum(_rank_sum_counts(len(mine), len(theirs))) / comb(
        len(mine) + len(theirs), len(mine)
    )
    k = max(1, int(np.searchsorted(below, (1 - level) / 2 + 1e-12, side="right")))
    return Shift(
        value, float(differences[k - 1]), float(differences[-k]), float(1 - 2 * below[k - 1])
    )


def _rank_sum_counts(mine: int, theirs: int) -> np.ndarray:
    """How many orders of the runs give each value of the Mann-Whitney statistic."""
    # The largest run of all is mine and beats all of theirs, or it is theirs and beats nobody.
    table = {(0, n): np.ones(1) for n in range(theirs + 1)}
    table |= {(m, 0): np.ones(1) for m in range(mine + 1)}
    for m in range(1, mine + 1):
        for n in range(1, theirs + 1):
            counts = np.zeros(m * n + 1)
            counts[n:] += table[m - 1, n]
            counts[: m * (n - 1) + 1] += table[m, n - 1]
            table[m, n] = counts
    return table[mine, theirs]


def _two_axes(scores: np.ndarray) -> np.ndarray:
    scores = np.asarray(scores, float)
    if scores.ndim != 2:
        raise UserError(
            "scores with the axes (run, task)", f"shape {scores.shape}", "write scores[:, None]"
        )
    return scores
