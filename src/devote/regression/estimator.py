"""Prior-corrector ensembles as a scikit-learn regressor."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data

from devote.core.errors import UserError, not_among
from devote.regression.length_scale import choose_length_scale
from devote.regression.models import Pairs, fit_mean, fit_pairs, residuals, spread
from devote.regression.priors import MLP, RFN, Prior, at_least
from devote.regression.training import FitSettings, evaluate

_REACH = 1e6
"""Largest input in length scales: beyond it, single precision resolves angles to about 0.1 only."""


class EpistemicRegressor(RegressorMixin, BaseEstimator):
    """Predicts a mean, and an epistemic standard deviation that shrinks only where there is data.

    Inputs are not rescaled: do that first, e.g. in a `Pipeline`. The target is standardised
    internally. Far from all data the standard deviation is 1 to 1.4 times that of the target with
    an RFN prior (prior plus untrained corrector); with an MLP prior it may be much smaller.

    Parameters
    ----------
    prior : RFN | MLP | None
        What the correctors learn to cancel; by default `RFN()`.
    members : int
        Number of prior-corrector pairs.
    epochs, batch_size, rate
        Training of the mean and of the correctors with Adam.
    random_state : int | RandomState | None
        Seed of priors, initialisations and batches.
    """

    def __init__(
        self,
        prior: Prior | None = None,
        *,
        members: int = 10,
        epochs: int = 500,
        batch_size: int = 256,
        rate: float = 1e-3,
        random_state: Any = None,
    ) -> None:
        self.prior = prior
        self.members = members
        self.epochs = epochs
        self.batch_size = batch_size
        self.rate = rate
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "EpistemicRegressor":  # noqa: N803
        """Fit the mean to the targets and the correctors to the priors; all or nothing."""
        x, target = check_X_y(X, y, y_numeric=True, dtype=np.float64, estimator=self)
        target = np.asarray(target, np.float64)
        settings = FitSettings(self.epochs, self.batch_size, self.rate)
        prior = self._checked_prior()
        self._check_rows(x)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if isinstance(prior, RFN) and prior.length_scale == "auto":
            prior = replace(prior, length_scale=choose_length_scale(x, target, seed))
        _check_reach(x, prior)
        shift, scale = _shift_and_scale(target)
        mean_net = fit_mean([x], [(target - shift) / scale], settings, [seed])
        pairs = fit_pairs(prior, [x], self.members, settings, [seed])
        _check_networks(mean_net, pairs)
        validate_data(self, X, skip_check_array=True)
        self.prior_ = prior
        self.target_shift_, self.target_scale_ = shift, scale
        self.mean_net_, self.pairs_ = jax.tree.map(np.asarray, (mean_net, pairs))
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:  # noqa: N803
        """The mean and, with `return_std`, the epistemic standard deviation."""
        x = self._checked_inputs(X)
        mean = self._mean(x)
        return (mean, self.target_scale_ * spread(self._residuals(x))) if return_std else mean

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:  # noqa: N803
        """Sampled functions `(rows, n_samples)`: the mean plus c + g of randomly chosen members."""
        x = self._checked_inputs(X)
        if not at_least(1, n_samples):
            raise UserError("a whole number of samples", repr(n_samples), "ask for at least 1")
        members = self._residuals(x)
        chosen = check_random_state(random_state).randint(len(members), size=n_samples)
        return (self._mean(x) + self.target_scale_ * members[chosen]).T

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """As in scikit-learn; the prior's settings are called `prior__length_scale` and so on."""
        params = super().get_params(deep)
        if deep and isinstance(self.prior, RFN | MLP):
            params |= {f"prior__{name}": value for name, value in vars(self.prior).items()}
        return params

    def set_params(self, **params: Any) -> "EpistemicRegressor":
        """As in scikit-learn; `prior__length_scale=1.0` replaces the prior by one of length 1."""
        own = {name: value for name, value in params.items() if not name.startswith("prior__")}
        super().set_params(**own)
        inner = {n.removeprefix("prior__"): v for n, v in params.items() if n not in own}
        if inner:
            prior = self._checked_prior()
            for name in inner:
                if name not in vars(prior):
                    raise not_among("the setting of the prior", name, list(vars(prior)))
            self.prior = replace(prior, **inner)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return "pairs_" in vars(self)

    def _mean(self, x: np.ndarray) -> np.ndarray:
        output = evaluate(self.mean_net_, [x])[0][0].astype(np.float64)
        return self.target_shift_ + self.target_scale_ * output

    def _residuals(self, x: np.ndarray) -> np.ndarray:
        return residuals(Pairs(*self.pairs_), [x])[0].astype(np.float64)

    def _checked_inputs(self, X: Any) -> np.ndarray:  # noqa: N803
        check_is_fitted(self)
        x = validate_data(self, X, reset=False, dtype=np.float64)
        _check_reach(x, self.prior_)
        return x

    def _checked_prior(self) -> Prior:
        prior = RFN() if self.prior is None else self.prior
        if not isinstance(prior, RFN | MLP):
            raise UserError("a prior RFN(...) or MLP(...)", repr(prior), "pass one of them")
        return prior

    def _check_rows(self, x: np.ndarray) -> None:
        if not at_least(2, self.members):
            raise UserError("at least 2 members", repr(self.members), "a spread needs two")
        if len(x) < self.members:
            raise UserError(
                f"at least as many rows as members ({self.members})",
                f"n_samples = {len(x)}",
                "give more rows or fewer members",
            )
        with np.errstate(over="ignore"):
            single = x.astype(np.float32)
        constant = np.flatnonzero(single.max(axis=0) == single.min(axis=0)).tolist()
        if constant:
            raise UserError(
                "inputs that vary in single precision",
                f"constant columns {constant}",
                "drop them, e.g. with VarianceThreshold in a Pipeline; if they vary a little, "
                "scale the inputs first, e.g. with StandardScaler",
            )


def _shift_and_scale(target: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation of the target; 1 for a constant one."""
    if np.ptp(target) == 0:
        return float(target[0]), 1.0
    with np.errstate(over="ignore"):
        shift, scale = float(target.mean()), float(target.std())
    if not (np.isfinite(shift) and 0 < scale < np.inf):
        got = f"a target from {target.min():g} to {target.max():g}"
        raise UserError("a target whose variance is a number", got, "rescale it")
    return shift, scale


def _check_networks(*networks: Any) -> None:
    """Refuse networks that diverged."""
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(networks)):
        fix = "lower `rate`, or scale the inputs, e.g. with StandardScaler in a Pipeline"
        raise UserError("a fit that ends in finite weights", "NaN or infinity", fix)


def _check_reach(x: np.ndarray, prior: Prior) -> None:
    """Refuse inputs so large that single precision cannot resolve the prior there."""
    limit = float(np.finfo(np.float32).max)
    if isinstance(prior, RFN):
        limit = min(limit, _REACH * float(prior.length_scale))
    huge = np.flatnonzero((np.abs(x) > limit).any(axis=0)).tolist()
    if huge:
        raise UserError(
            f"inputs up to {limit:g} in size, what single precision resolves for this prior",
            f"too large columns {huge}",
            "scale the inputs, e.g. with StandardScaler in a Pipeline",
        )
