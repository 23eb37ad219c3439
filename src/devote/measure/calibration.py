"""Does the uncertainty rise where the prediction is wrong? Paper, appendix D.2, "Metrics", and a
calibration report for anybody's model."""

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
    half_widths = np.array([NormalDist().inv_cdf(0.5 + level / 2) for level in levels])
    return (error[:, None] <= np.outer(std, half_widths)).mean(axis=0)


def sample_reliability(target: np.ndarray, samples: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Share of targets inside the central interval of each level of the samples' quantiles.

    Of n independent samples the k-th smallest is the quantile k / (n + 1), so that a target drawn
    like them is covered as often as claimed. All n cover (n - 1) / (n + 1), and no level more.
    """
    low = np.quantile(samples, (1 - levels) / 2, axis=0, method="weibull")
    high = np.quantile(samples, (1 + levels) / 2, axis=0, method="weibull")
    return ((low <= target) & (target <= high)).mean(axis=1)


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


Predict = Callable[[np.ndarray], Any]
"""Inputs `(rows, inputs)` to a pair (mean, standard deviation) of vectors, or to an array of
samples `(samples, rows)`."""


class Prediction(NamedTuple):
    """Mean and standard deviation, and the samples where the model gave samples."""

    mean: np.ndarray
    std: np.ndarray
    samples: np.ndarray | None


class Slice(NamedTuple):
    """A walk along one input, the others resting at their medians."""

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
        """Everything as numbers and lists, ready for JSON: a number that is not there is None."""
        numbers = {n: v if np.isfinite(v) else None for n, v in self.numbers.items()}
        return {
            **numbers,
            "levels": self.levels.tolist(),
            "inside_coverage": self.inside_coverage.tolist(),
            "outside_coverage": self.outside_coverage.tolist(),
            "slices": [
                {"input": s.name, "x": s.x.tolist(), "mean": s.mean.tolist(), "std": s.std.tolist()}
                for s in self.slices
            ],
        }


def calibration_report(
    predict: Predict,
    in_distribution: tuple[np.ndarray, np.ndarray],
    out_of_distribution: tuple[np.ndarray, np.ndarray],
    slices: Iterable[int] = (),
    names: Sequence[str] | None = None,
    slice_points: int = 100,
) -> CalibrationReport:
    """How a model's uncertainty behaves where it has data (held out) and where it has none.

    Both sets are pairs (inputs, targets). The coverage is of targets by the model's intervals: a
    model without a term for observation noise covers less than it claims, also when its epistemic
    part is right.
    """
    inside_x, inside_y = _points(in_distribution, "in_distribution")
    outside_x, outside_y = _points(out_of_distribution, "out_of_distribution")
    if inside_x.shape[1] != outside_x.shape[1]:
        widths = (inside_x.shape[1], outside_x.shape[1])
        raise UserError("as many inputs in both sets", widths, "pass the same columns")
    if not callable(predict):
        fix = "pass its method, e.g. lambda x: model.predict(x, return_std=True)"
        raise UserError("a callable `predict`", type(predict).__name__, fix)
    walks = _checked_slices(slices, slice_points, inside_x.shape[1])
    if names is not None and len(names) != inside_x.shape[1]:
        raise UserError(f"{inside_x.shape[1]} names", len(names), "name every input")
    inside, outside = ask(predict, inside_x), ask(predict, outside_x)
    inside_error, outside_error = np.abs(inside_y - inside.mean), np.abs(outside_y - outside.mean)
    levels = np.linspace(0.05, 0.95, 19)
    inside_coverage = _coverage(inside_y, inside, levels)
    outside_coverage = _coverage(outside_y, outside, levels)
    error, std = np.append(inside_error, outside_error), np.append(inside.std, outside.std)
    numbers = {
        "auroc": misfit_auroc(inside_error, inside.std, outside_error, outside.std),
        "correlation": correlation(error, std),
        "misfit_share": float(misfit(inside_error, outside_error).mean()),
        "inside_sharpness": float(inside.std.mean()),
        "outside_sharpness": float(outside.std.mean()),
        "inside_rmse": float(np.sqrt(np.mean(inside_error**2))),
        "outside_rmse": float(np.sqrt(np.mean(outside_error**2))),
        "inside_miscoverage": float(np.abs(inside_coverage - levels).mean()),
        "outside_miscoverage": float(np.abs(outside_coverage - levels).mean()),
    }
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


def ask(predict: Predict, x: np.ndarray) -> Prediction:
    """What a model says at some inputs, whichever of the two forms it answers in."""
    answer = predict(x)
    if isinstance(answer, list):
        # [mean, std] would pass for two samples
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
    """Before the model is asked, which may take long."""
    walks = tuple(slices) if isinstance(slices, Iterable) else (None,)
    if not all(isinstance(i, Integral) and 0 <= i < inputs for i in walks):
        expected = f"slices as numbers of inputs, each a slice input from 0 to {inputs - 1}"
        raise UserError(expected, repr(slices), "choose others, e.g. slices=(0,)")
    if not (isinstance(points, Integral) and points >= 2):
        raise UserError("at least 2 points of a slice", repr(points), "raise `slice_points`")
    return walks


def _coverage(target: np.ndarray, given: Prediction, levels: np.ndarray) -> np.ndarray:
    if given.samples is None:
        return reliability(target, given.mean, given.std, levels)
    return sample_reliability(target, given.samples, levels)


def _walk(
    predict: Predict, x: np.ndarray, index: int, names: Sequence[str] | None, points: int
) -> Slice:
    along = np.linspace(x[:, index].min(), x[:, index].max(), points)
    rows = np.tile(np.median(x, axis=0), (points, 1))
    rows[:, index] = along
    given = ask(predict, rows)
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
