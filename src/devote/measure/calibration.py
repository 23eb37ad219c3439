"""Is a predicted uncertainty calibrated? The paper's scores (appendix D.2, "Metrics"), the field's
(CRPS, likelihood, interval score, sparsification, FPR95), and a report for any model."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from devote.core.errors import UserError


class Estimate(NamedTuple):
    """A mean over splits, its standard error, and how many splits had a value."""

    mean: float
    error: float
    splits: int


def auroc(negative: np.ndarray, positive: np.ndarray) -> float:
    """Probability that a positive scores above a negative, ties as a half; NaN if one is empty."""
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
    """The points out of distribution with an error above that quantile of the errors inside."""
    return _vector(outside_error, "errors") > np.quantile(_vector(inside_error, "errors"), quantile)


def misfit_auroc(
    inside_error: np.ndarray,
    inside_std: np.ndarray,
    outside_error: np.ndarray,
    outside_std: np.ndarray,
) -> float:
    """AUROC of the standard deviation: points inside against the misfits outside."""
    inside_error, inside_std = _pair(inside_error, inside_std)
    outside_error, outside_std = _pair(outside_error, outside_std)
    return auroc(inside_std, outside_std[misfit(np.abs(inside_error), np.abs(outside_error))])


def correlation(error: np.ndarray, std: np.ndarray) -> float:
    """Pearson correlation of absolute error and standard deviation; NaN if one is constant."""
    error, std = _pair(error, std)
    error = np.abs(error)
    if not error.size or np.ptp(error) == 0 or np.ptp(std) == 0:
        return float("nan")
    return float(np.corrcoef(error, std)[0, 1])


def over_splits(values: Sequence[float]) -> Estimate:
    """Mean and standard error (sample deviation / sqrt(n)) of the splits that have a value."""
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


def normal_intervals(
    mean: np.ndarray, std: np.ndarray, levels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the central normal interval of each level, `(levels, points)`."""
    half_widths = np.array([NormalDist().inv_cdf(0.5 + level / 2) for level in levels])
    half = np.outer(half_widths, std)
    return mean - half, mean + half


def sample_intervals(samples: np.ndarray, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the central interval of each level by the samples' quantiles, `(levels, points)`.

    The k-th smallest of n samples is the quantile k / (n + 1): a target from the same distribution
    is then covered as often as claimed, up to (n - 1) / (n + 1), which all samples cover.
    """
    low, high = (
        np.quantile(samples, (1 + sign * levels) / 2, axis=0, method="weibull") for sign in (-1, 1)
    )
    return low, high


def reliability(target: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Share of targets inside the intervals of each level."""
    return ((low <= target) & (target <= high)).mean(axis=1)


def crps(target: np.ndarray, mean: np.ndarray, std: np.ndarray) -> float:
    """Continuous ranked probability score of normal predictions, mean over points; lower is better,
    as in all scores below."""
    error = np.abs(target - mean)
    z = _ratio(error, std)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    inside = np.vectorize(math.erf, otypes=[float])(z / math.sqrt(2))
    value = error * inside + std * (2 * density - 1 / math.sqrt(math.pi))
    return float(np.where(std > 0, value, error).mean())


def sample_crps(target: np.ndarray, samples: np.ndarray) -> float:
    """The fair CRPS of samples `(samples, points)`: unbiased, however few samples there are."""
    n = len(samples)
    weights = 2 * np.arange(1, n + 1) - n - 1
    spread = weights @ np.sort(samples, axis=0) / (n * (n - 1))
    return float((np.abs(samples - target).mean(axis=0) - spread).mean())


def nll(target: np.ndarray, mean: np.ndarray, std: np.ndarray) -> float:
    """Negative log likelihood of normal predictions, mean over points; infinite if any deviation
    is 0."""
    if not np.all(std > 0):
        return math.inf
    z = _ratio(target - mean, std)
    return float((z**2 / 2 + np.log(std) + math.log(2 * math.pi) / 2).mean())


def interval_score(
    target: np.ndarray, low: np.ndarray, high: np.ndarray, levels: np.ndarray
) -> float:
    """Width of central intervals `(levels, points)` plus 2 / (1 - level) times the distance by
    which targets miss them (Gneiting and Raftery, 2007), mean over points and levels."""
    missed = np.maximum(low - target, 0) + np.maximum(target - high, 0)
    return float((high - low + missed * (2 / (1 - levels))[:, None]).mean())


def sparsification_error(error: np.ndarray, std: np.ndarray) -> float:
    """AUSE: the area between two curves of the mean absolute error of the points that are left when
    the least certain, or the most wrong, are removed first, as a share of the error of all points.
    Equally certain points are removed together."""
    error = np.abs(error)
    if not error.sum():
        return math.nan
    _, group, count = np.unique(std, return_inverse=True, return_counts=True)
    shared = (np.bincount(group, error) / count)[group]
    left = np.arange(1, len(error) + 1)
    kept = np.cumsum(shared[np.argsort(std, kind="stable")]) / left
    best = np.cumsum(np.sort(error)) / left
    return float((kept - best).mean() / error.mean())


def fpr95(inside: np.ndarray, outside: np.ndarray) -> float:
    """False positive rate among points inside at the threshold on the deviation that detects 95 %
    of the points outside."""
    threshold = np.sort(outside)[::-1][math.ceil(0.95 * len(outside)) - 1]
    return float((inside >= threshold).mean())


def _ratio(error: np.ndarray, std: np.ndarray) -> np.ndarray:
    return np.divide(error, std, out=np.zeros_like(error), where=std > 0)


def _pair(error: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    error, std = _vector(error, "errors"), _vector(std, "standard deviations")
    if error.shape != std.shape:
        raise UserError("one deviation per error", (error.size, std.size), "pair them")
    return error, std


def _vector(values: np.ndarray, name: str) -> np.ndarray:
    values = np.asarray(values, np.float64)
    if values.ndim != 1:
        raise UserError(f"a vector of {name}", f"shape {values.shape}", "flatten or select it")
    if not np.all(np.isfinite(values)):
        raise UserError(f"finite {name}", "NaN or infinity", "look at the model that made them")
    return values


Predict = Callable[[np.ndarray], Any]
"""Maps inputs `(rows, inputs)` to a tuple (mean, standard deviation) of vectors, or to samples
`(samples, rows)`."""


class Prediction(NamedTuple):
    """Mean, standard deviation and, if the model returned samples, these."""

    mean: np.ndarray
    std: np.ndarray
    samples: np.ndarray | None


class Slice(NamedTuple):
    """Predictions along one input, with the others at their medians."""

    name: str
    x: np.ndarray
    mean: np.ndarray
    std: np.ndarray


@dataclass(frozen=True, eq=False)
class CalibrationReport:
    """Numbers, curves and slices; `figures.calibration_plots.draw_report` draws it."""

    numbers: dict[str, float]
    levels: np.ndarray
    inside_coverage: np.ndarray
    """Share of observations in the central interval of each level; `outside_coverage` likewise."""
    outside_coverage: np.ndarray
    inside_error: np.ndarray
    inside_std: np.ndarray
    outside_error: np.ndarray
    outside_std: np.ndarray
    slices: tuple[Slice, ...]

    def as_dict(self) -> dict[str, Any]:
        """Numbers and lists, ready for JSON; NaN and infinity become None."""
        numbers = {n: v if np.isfinite(v) else None for n, v in self.numbers.items()}
        curves = ("levels", "inside_coverage", "outside_coverage")
        slices = [
            {"input": s.name} | {n: getattr(s, n).tolist() for n in ("x", "mean", "std")}
            for s in self.slices
        ]
        return numbers | {n: getattr(self, n).tolist() for n in curves} | {"slices": slices}


def calibration_report(
    predict: Predict,
    in_distribution: tuple[np.ndarray, np.ndarray],
    out_of_distribution: tuple[np.ndarray, np.ndarray],
    slices: Iterable[int] = (),
    names: Sequence[str] | None = None,
    slice_points: int = 100,
) -> CalibrationReport:
    """How a model's uncertainty behaves on held-out data and out of distribution.

    Both sets are pairs (inputs, targets). Coverage is of targets by the model's intervals: a model
    without a term for observation noise covers less than it claims even if its epistemic part is
    right.
    """
    inside_x, inside_y = _points(in_distribution, "in_distribution")
    outside_x, outside_y = _points(out_of_distribution, "out_of_distribution")
    if inside_x.shape[1] != outside_x.shape[1]:
        widths = (inside_x.shape[1], outside_x.shape[1])
        raise UserError("the same number of inputs in both sets", widths, "pass the same columns")
    if not callable(predict):
        fix = "pass its method, e.g. lambda x: model.predict(x, return_std=True)"
        raise UserError("a callable `predict`", type(predict).__name__, fix)
    walks = _checked_slices(slices, slice_points, inside_x.shape[1])
    if names is not None and len(names) != inside_x.shape[1]:
        raise UserError(f"{inside_x.shape[1]} names", len(names), "name every input")
    inside, outside = _predicted(predict, inside_x), _predicted(predict, outside_x)
    inside_error, outside_error = np.abs(inside_y - inside.mean), np.abs(outside_y - outside.mean)
    levels = np.linspace(0.05, 0.95, 19)
    inside_coverage, inside_scores = _scored(inside_y, inside, levels)
    outside_coverage, outside_scores = _scored(outside_y, outside, levels)
    error, std = np.append(inside_error, outside_error), np.append(inside.std, outside.std)
    numbers = {
        "auroc": misfit_auroc(inside_error, inside.std, outside_error, outside.std),
        "correlation": correlation(error, std),
        "sparsification_error": sparsification_error(error, std),
        "fpr95": fpr95(inside.std, outside.std),
        "misfit_share": float(misfit(inside_error, outside_error).mean()),
    }
    for name in inside_scores:
        numbers |= {f"inside_{name}": inside_scores[name], f"outside_{name}": outside_scores[name]}
    everywhere = np.concatenate([inside_x, outside_x])
    return CalibrationReport(
        numbers,
        levels,
        inside_coverage,
        outside_coverage,
        inside_error,
        inside.std,
        outside_error,
        outside.std,
        tuple(_walk(predict, everywhere, i, names, slice_points) for i in walks),
    )


def _predicted(predict: Predict, x: np.ndarray) -> Prediction:
    """The model's predictions at some inputs, in either form, checked."""
    answer = predict(x)
    if isinstance(answer, list):
        # [mean, std] would be taken for two samples
        raise UserError("a tuple (mean, std) or an array of samples", "a list", "return a tuple")
    if isinstance(answer, tuple):
        if len(answer) != 2:
            raise UserError("(mean, std)", f"a tuple of {len(answer)}", "return two vectors")
        mean, std = (np.asarray(part, np.float64) for part in answer)
        if mean.shape != (len(x),) or std.shape != (len(x),):
            raise UserError(
                f"mean and std of shape ({len(x)},)", (mean.shape, std.shape), "return vectors"
            )
        if np.any(std < 0):
            raise UserError("standard deviations of at least 0", std.min(), "correct the model")
        _check_finite(mean, std)
        return Prediction(mean, std, None)
    samples = np.asarray(answer, np.float64)
    if samples.ndim != 2 or samples.shape[1] != len(x) or len(samples) < 3:
        # two rows are more likely a stacked mean and std than two samples
        raise UserError(
            f"a tuple (mean, std), or at least 3 samples of shape (samples, {len(x)})",
            f"an array of shape {samples.shape}",
            "put the samples on the first axis",
        )
    _check_finite(samples)
    return Prediction(samples.mean(axis=0), samples.std(axis=0), samples)


def _check_finite(*answers: np.ndarray) -> None:
    if not all(np.isfinite(answer).all() for answer in answers):
        fix = "look at the model that made them"
        raise UserError("finite answers of `predict`", "NaN or infinity", fix)


def _checked_slices(slices: Iterable[int], points: int, inputs: int) -> tuple[int, ...]:
    """Checked before the model is called, which may take long."""
    walks = tuple(slices) if isinstance(slices, Iterable) else (None,)
    if not all(isinstance(i, Integral) and 0 <= i < inputs for i in walks):
        expected = f"slices as numbers of inputs, each a slice input from 0 to {inputs - 1}"
        raise UserError(expected, repr(slices), "choose others, e.g. slices=(0,)")
    if not (isinstance(points, Integral) and points >= 2):
        raise UserError("at least 2 points of a slice", repr(points), "raise `slice_points`")
    return walks


def _scored(
    target: np.ndarray, given: Prediction, levels: np.ndarray
) -> tuple[np.ndarray, dict[str, float]]:
    """Coverage by level, and the scores of the whole distribution: that of the samples if there are
    any, else a normal one; the likelihood is always of a normal distribution."""
    if given.samples is None:
        low, high = normal_intervals(given.mean, given.std, levels)
        score = crps(target, given.mean, given.std)
    else:
        low, high = sample_intervals(given.samples, levels)
        score = sample_crps(target, given.samples)
    coverage = reliability(target, low, high)
    return coverage, {
        "sharpness": float(given.std.mean()),
        "rmse": float(np.sqrt(np.mean((target - given.mean) ** 2))),
        "miscoverage": float(np.abs(coverage - levels).mean()),
        "crps": score,
        "nll": nll(target, given.mean, given.std),
        "interval_score": interval_score(target, low, high, levels),
    }


def _walk(
    predict: Predict, x: np.ndarray, index: int, names: Sequence[str] | None, points: int
) -> Slice:
    along = np.linspace(x[:, index].min(), x[:, index].max(), points)
    rows = np.tile(np.median(x, axis=0), (points, 1))
    rows[:, index] = along
    given = _predicted(predict, rows)
    return Slice(names[index] if names else f"input {index}", along, given.mean, given.std)


def _points(points: tuple[np.ndarray, np.ndarray], name: str) -> tuple[np.ndarray, np.ndarray]:
    if not (isinstance(points, tuple | list) and len(points) == 2):
        fix = "pass a tuple of both"
        raise UserError(f"{name} = (inputs, targets)", type(points).__name__, fix)
    x, y = (np.asarray(part, np.float64) for part in points)
    if x.ndim != 2 or y.shape != (len(x),) or not len(x):
        raise UserError(
            f"{name} = inputs (rows, inputs) and targets (rows,)", (x.shape, y.shape), "reshape"
        )
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise UserError(f"finite values in {name}", "NaN or infinity", "drop or fill those rows")
    return x, y
