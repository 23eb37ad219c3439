"""Statistics of few runs: interquartile means, bootstraps, performance profiles, exact shifts.

Scores are arrays with axes (run, task); a single task is a column.
"""

from collections.abc import Callable
from math import comb
from typing import NamedTuple

import numpy as np

from devote.core.errors import UserError

FEWEST = 3  # minimum number of runs for an interval


class Interval(NamedTuple):
    """A value and its interval; the ends are NaN if there is none."""

    value: float
    low: float
    high: float


class Shift(NamedTuple):
    """Difference between two methods, with an exact, distribution-free interval."""

    value: float
    low: float
    high: float
    level: float  # coverage probability of the interval; 0 if there is none


def iqm(scores: np.ndarray) -> np.ndarray:
    """Interquartile mean over runs and tasks, the last two axes; NaN if a score is missing."""
    scores = np.asarray(scores, float)
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    outside = flat.shape[-1] // 4
    middle = flat[..., outside : flat.shape[-1] - outside].mean(axis=-1)
    # NaN is sorted last, so it would be trimmed as the best score
    return np.where(np.isnan(flat[..., -1]), np.nan, middle)


def stratified_bootstrap(
    *samples: np.ndarray,
    statistic: Callable[..., np.ndarray],
    level: float = 0.95,
    draws: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Percentile interval of a statistic; runs are resampled within each task."""
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


def performance_profile(
    scores: np.ndarray, thresholds: np.ndarray, draws: int = 2_000, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Share of runs above each threshold, mean over tasks, and its standard error by the same
    bootstrap (Agarwal et al., 2021); no error below three runs."""
    scores = _two_axes(scores)
    above = scores[..., None] > thresholds  # (run, task, threshold)
    if len(scores) < FEWEST:
        return above.mean(axis=(0, 1)), np.full(len(thresholds), np.nan)
    generator = np.random.default_rng(seed)
    drawn = [
        above[generator.integers(len(scores), size=scores.shape), np.arange(scores.shape[1])]
        for _ in range(draws)
    ]
    shares = np.stack([one.mean(axis=(0, 1)) for one in drawn])
    return above.mean(axis=(0, 1)), shares.std(axis=0)


def probability_of_improvement(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Probability that a run of `mine` beats one of `theirs`, ties as a half, mean over tasks."""
    mine, theirs = np.asarray(mine, float), np.asarray(theirs, float)
    difference = mine[..., :, None, :] - theirs[..., None, :, :]
    return np.asarray((np.sign(difference).mean(axis=(-3, -2)) / 2 + 0.5).mean(axis=-1))


def shift(mine: np.ndarray, theirs: np.ndarray, level: float = 0.95) -> Shift:
    """Median of all pairwise differences (Hodges-Lehmann), with the interval of the rank-sum test.

    If there are too few runs for the level, the widest interval is given with its own level.
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
    """Number of orderings of the runs for each value of the Mann-Whitney statistic."""
    # recursion on the largest run: it is mine and beats all of theirs, or theirs and beats none
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
