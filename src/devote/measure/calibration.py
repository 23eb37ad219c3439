"""Does the uncertainty rise where the prediction is wrong? Paper, appendix D.2, "Metrics"."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from devote.core.errors import UserError


class Estimate(NamedTuple):
    """A mean over splits, its standard error, and how many splits had a value."""

    mean: float
    error: float
    splits: int


def auroc(negative: np.ndarray, positive: np.ndarray) -> float:
    """Probability that a positive scores above a negative, ties count half; NaN if one is empty."""
    negative, positive = _vector(negative, "scores"), _vector(positive, "scores")
    if not (negative.size and positive.size):
        return float("nan")
    ordered = np.sort(negative)
    below = np.searchsorted(ordered, positive, "left")
    not_above = np.searchsorted(ordered, positive, "right")
    return float((below + not_above).mean() / (2 * negative.size))


def misfit(
    inside_error: np.ndarray, outside_error: np.ndarray, quantile: float = 0.9
) -> np.ndarray:
    """Which points out of distribution err by more than that quantile of the errors inside."""
    return _vector(outside_error, "errors") > np.quantile(_vector(inside_error, "errors"), quantile)


def misfit_auroc(
    inside_error: np.ndarray,
    inside_std: np.ndarray,
    outside_error: np.ndarray,
    outside_std: np.ndarray,
) -> float:
    """AUROC of the standard deviation for points inside against misfit points outside."""
    _, inside_std = _pair(inside_error, inside_std)
    _, outside_std = _pair(outside_error, outside_std)
    wrong = misfit(np.abs(inside_error), np.abs(outside_error))
    return auroc(inside_std, outside_std[wrong])


def correlation(error: np.ndarray, std: np.ndarray) -> float:
    """Pearson correlation of absolute error and standard deviation; NaN if one is constant."""
    error, std = _pair(error, std)
    error = np.abs(error)
    if not error.size or np.ptp(error) == 0 or np.ptp(std) == 0:
        return float("nan")
    return float(np.corrcoef(error, std)[0, 1])


def over_splits(values: Sequence[float]) -> Estimate:
    """Mean and standard error (sample deviation over root n) of the splits that have a value."""
    finite = np.asarray([v for v in values if np.isfinite(v)], np.float64)
    if not finite.size:
        return Estimate(float("nan"), float("nan"), 0)
    error = finite.std(ddof=1) / np.sqrt(finite.size) if finite.size > 1 else float("nan")
    return Estimate(float(finite.mean()), float(error), int(finite.size))


def over_sets(estimates: Sequence[Estimate]) -> Estimate:
    """Mean of the means of independent datasets, with its standard error."""
    if not estimates:
        return Estimate(float("nan"), float("nan"), 0)
    means, errors = np.array([(e.mean, e.error) for e in estimates]).T
    error = float(np.sqrt(np.sum(errors**2)) / len(estimates))
    return Estimate(float(np.mean(means)), error, len(estimates))


def reliability(
    target: np.ndarray, mean: np.ndarray, std: np.ndarray, levels: np.ndarray
) -> np.ndarray:
    """Share of targets inside the central normal interval of each level."""
    error = np.abs(_vector(target, "targets") - mean)
    return (error[:, None] <= np.outer(std, _normal_half_widths(levels))).mean(axis=0)


def sample_reliability(target: np.ndarray, samples: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Share of targets inside the central interval of each level of the samples' quantiles.

    Of n independent samples the k-th smallest is the quantile k / (n + 1), so that a target drawn
    like them is covered as often as claimed. All n cover (n - 1) / (n + 1), and no level more.
    """
    low = np.quantile(samples, (1 - levels) / 2, axis=0, method="weibull")
    high = np.quantile(samples, (1 + levels) / 2, axis=0, method="weibull")
    return ((low <= target) & (target <= high)).mean(axis=1)


def _normal_half_widths(levels: np.ndarray) -> np.ndarray:
    from statistics import NormalDist

    return np.array([NormalDist().inv_cdf(0.5 + level / 2) for level in levels])


def _pair(error: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    error, std = _vector(error, "errors"), _vector(std, "standard deviations")
    if error.shape != std.shape:
        raise UserError("as many errors as deviations", (error.size, std.size), "pair them")
    return error, std


def _vector(values: np.ndarray, name: str) -> np.ndarray:
    values = np.asarray(values, np.float64)
    if values.ndim != 1:
        raise UserError(f"a vector of {name}", f"shape {values.shape}", "flatten or select it")
    if not np.all(np.isfinite(values)):
        raise UserError(f"finite {name}", "NaN or infinity", "look at the model that made them")
    return values
