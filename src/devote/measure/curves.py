"""Learning curves over seeds, aggregated as in the paper."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from devote.core.errors import UserError

BINS = 500  # paper
WINDOW = 50  # paper


class SeedCurve(NamedTuple):
    """The values that one seed logged."""

    steps: np.ndarray
    values: np.ndarray


class Curve(NamedTuple):
    """A method in one environment; NaN where undefined."""

    steps: np.ndarray  # right edges of the bins
    mean: np.ndarray
    error: np.ndarray  # standard error over seeds; NaN for a single seed


def aggregate(
    methods: Mapping[str, Sequence[SeedCurve]],
    budget: float,
    bins: int = BINS,
    window: int = WINDOW,
) -> dict[str, Curve]:
    """Bin, interpolate, average over seeds and smooth; end where any method ends."""
    steps = budget * np.arange(1, bins + 1) / bins
    curves = {}
    for name, seeds in methods.items():
        if not seeds:
            raise UserError("at least one seed of every method", f"none of {name}", "leave it out")
        binned = np.stack([interpolated(bin_means(seed, budget, bins)) for seed in seeds])
        mean, error = over_seeds(binned)
        curves[name] = Curve(steps, smoothed(mean, window), smoothed(error, window))
    return cut(curves)


def evaluations(seeds: Sequence[SeedCurve], most: int = 25) -> Curve | None:
    """Mean and standard error at every evaluation, where all seeds have the same few; else None."""
    seen = [np.isfinite(seed.values) for seed in seeds]
    steps = [np.asarray(seed.steps)[mine] for seed, mine in zip(seeds, seen, strict=True)]
    if not 0 < len(steps[0]) <= most or any(not np.array_equal(steps[0], s) for s in steps):
        return None
    values = [np.asarray(seed.values)[mine] for seed, mine in zip(seeds, seen, strict=True)]
    return Curve(steps[0], *over_seeds(np.stack(values)))


def bin_means(seed: SeedCurve, budget: float, bins: int = BINS) -> np.ndarray:
    """Mean of the values in each bin (i, i + 1] * budget / bins; NaN in empty ones."""
    steps, values = np.asarray(seed.steps, float), np.asarray(seed.values, float)
    counted = np.isfinite(values) & (steps >= 0) & (steps <= budget)
    # the tolerance keeps a step on an edge in the bin that ends there, despite rounding
    place = np.ceil(steps[counted] * bins / budget - 1e-9).astype(int) - 1
    place = np.maximum(place, 0)  # step 0 is in the first bin
    total = np.bincount(place, values[counted], minlength=bins)
    count = np.bincount(place, minlength=bins)
    return np.divide(total, count, out=np.full(bins, np.nan), where=count > 0)


def interpolated(curve: np.ndarray) -> np.ndarray:
    """Linear interpolation of empty bins between observed ones; the others stay empty."""
    seen = np.flatnonzero(np.isfinite(curve))
    if seen.size == 0:
        return curve
    inner = np.arange(seen[0], seen[-1] + 1)
    result = curve.copy()
    result[inner] = np.interp(inner, seen, curve[seen])
    return result


def over_seeds(curves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error over the first axis, defined where every seed is."""
    mean = curves.mean(axis=0)
    if len(curves) < 2:
        return mean, np.full_like(mean, np.nan)
    return mean, curves.std(axis=0, ddof=1) / np.sqrt(len(curves))


def smoothed(curve: np.ndarray, window: int = WINDOW) -> np.ndarray:
    """Causal moving average over the defined bins among the last `window`."""
    defined = np.isfinite(curve)
    total = np.concatenate([[0.0], np.cumsum(np.where(defined, curve, 0.0))])
    count = np.concatenate([[0], np.cumsum(defined)])
    end = np.arange(1, len(curve) + 1)
    start = np.maximum(end - window, 0)
    held = count[end] - count[start]
    means = np.divide(total[end] - total[start], held, out=np.zeros(len(curve)), where=held > 0)
    return np.where(defined, means, np.nan)


def cut(curves: Mapping[str, Curve]) -> dict[str, Curve]:
    """End all curves at the last bin where all means and standard errors are defined; curves that
    are defined nowhere are dropped."""
    defined = {name: bins for name, curve in curves.items() if (bins := _defined(curve)).any()}
    if not defined:
        return {}
    together = np.flatnonzero(np.all(list(defined.values()), axis=0))
    last = int(together[-1]) + 1 if together.size else 0
    return {name: Curve(*(part[:last] for part in curves[name])) for name in defined}


def over_tasks(tasks: Sequence[Mapping[str, Curve]]) -> dict[str, Curve]:
    """Mean over tasks, with equal weights, of the methods that all tasks have; steps are shares of
    the budgets."""
    methods = [name for name in tasks[0] if all(name in task for task in tasks)]
    bins = min((len(task[name].steps) for task in tasks for name in methods), default=0)
    share = np.arange(1, bins + 1) / BINS
    found = {}
    for name in methods:
        means, errors = (np.stack([task[name][part][:bins] for task in tasks]) for part in (1, 2))
        error = np.sqrt(np.sum(errors**2, axis=0)) / len(tasks)
        found[name] = Curve(share, means.mean(axis=0), error)
    return found


def _defined(curve: Curve) -> np.ndarray:
    alone = np.isnan(curve.error).all()  # a single seed
    return np.isfinite(curve.mean) & (alone | np.isfinite(curve.error))
