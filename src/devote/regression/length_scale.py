"""A length scale from the training data alone."""

import numpy as np

from devote.measure.calibration import misfit_auroc
from devote.regression.data import gap
from devote.regression.models import LENGTHS, exact_posterior

CANDIDATES = tuple(model.size[0] for model in LENGTHS)
_NOISE = 0.1
_ROWS = 600
_GAPS = 5


def choose_length_scale(
    x: np.ndarray, y: np.ndarray, seed: int = 0, unit: float | None = None
) -> float:
    """The candidate with the best misfit AUROC on gaps that are cut into the training data.

    Gaps are cut along a few inputs, as in the experiments; an exact GP, which prior and corrector
    approximate, stands in for the ensemble. Candidates are in units of `unit`, by default the
    median spread of the inputs (1st to 99th percentile, without constant ones), so that scaling all
    inputs scales the choice. Ties go to the shorter length.
    """
    unit = _spread(x) if unit is None else unit
    generator = np.random.default_rng(seed)
    if len(x) > _ROWS:
        chosen = generator.choice(len(x), _ROWS, replace=False)
        x, y = x[chosen], y[chosen]
    deviation = float(np.std(y))
    if len(x) < 30 or deviation == 0:
        return CANDIDATES[0] * unit
    y = (y - np.mean(y)) / deviation
    inputs = generator.permutation(x.shape[1])[:_GAPS]
    scores = [_mean([_score(x, y, i, c * unit) for i in inputs]) for c in CANDIDATES]
    return CANDIDATES[int(np.argmax(scores))] * unit


def _spread(x: np.ndarray) -> float:
    """Median over inputs, without those of spread 0, such as rare dummies."""
    spreads = np.diff(np.percentile(x, [1, 99], axis=0), axis=0)[0]
    return float(np.median(spreads[spreads > 0])) if np.any(spreads > 0) else 1.0


def _mean(scores: list[float]) -> float:
    """Mean over the gaps with a misfit; 0 if there is none."""
    valid = [score for score in scores if np.isfinite(score)]
    return float(np.mean(valid)) if valid else 0.0


def _score(x: np.ndarray, y: np.ndarray, number: int, length_scale: float) -> float:
    train, inside, outside = gap(x, number)
    tested = np.concatenate([inside, outside])
    mean, std = exact_posterior(x[train], y[train], x[tested], length_scale, _NOISE)
    error, split = y[tested] - mean, len(inside)
    return misfit_auroc(error[:split], std[:split], error[split:], std[split:])
