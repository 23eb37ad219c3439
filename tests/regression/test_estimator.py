"""The scikit-learn face: their own checks, their own tools, clear errors."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from devote.measure.calibration import correlation
from devote.regression.data import gap
from devote.regression.estimator import EpistemicRegressor
from devote.regression.length_scale import CANDIDATES, choose_length_scale
from devote.regression.priors import MLP, RFN


def small(prior: Any = RFN(0.5, features=16), **settings: Any) -> EpistemicRegressor:  # noqa: B008
    defaults = {"members": 3, "epochs": 100, "rate": 1e-2, "random_state": 0}
    return EpistemicRegressor(prior, **(defaults | settings))


def data(rows: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(seed).uniform(size=(rows, 2))
    return x, 10 + 5 * np.sin(4 * x[:, 0])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_s_own_checks() -> None:
    results = check_estimator(small(), on_fail=None)
    failed = {r["check_name"]: str(r["exception"]) for r in results if r["status"] == "failed"}
    assert len(results) > 40
    assert not failed


def test_mean_std_and_samples_agree() -> None:
    x, y = data()
    model = small(members=8).fit(x, y)
    mean, std = model.predict(x + 2, return_std=True)
    np.testing.assert_array_equal(mean, model.predict(x + 2))
    samples = model.sample_y(x + 2, 2000)
    assert samples.shape == (40, 2000)
    np.testing.assert_allclose(samples.std(axis=1), std, rtol=0.15)
    assert model.score(x, y) > 0.9


def test_samples_are_of_the_members_that_were_fitted() -> None:
    x, y = data()
    model = small(epochs=2).fit(x, y)
    before = model.sample_y(x, 50)
    np.testing.assert_array_equal(model.set_params(members=9).sample_y(x, 50), before)


@pytest.mark.parametrize("count", [0, -1, 2.5])
def test_samples_are_whole_numbers(count: float) -> None:
    x, y = data()
    with pytest.raises(ValueError, match="number of samples"):
        small(epochs=1).fit(x, y).sample_y(x, count)


def test_seed_repeats_and_differs() -> None:
    x, y = data()
    first, again, other = (small(random_state=s).fit(x, y).predict(x) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-6


def test_pipeline_clone_and_grid_search() -> None:
    x, y = data()
    pipeline = make_pipeline(StandardScaler(), small(epochs=20))
    mean, std = clone(pipeline).fit(x, y).predict(x, return_std=True)
    assert mean.shape == std.shape == (40,)
    priors = [RFN(0.5, 8), MLP(8, 1)]
    search = GridSearchCV(
        pipeline, {"epistemicregressor__prior": priors}, cv=2, error_score="raise"
    )
    assert search.fit(x, y).best_params_["epistemicregressor__prior"] in priors


def test_settings_of_the_prior_are_searched_by_name() -> None:
    x, y = data()
    pipeline = make_pipeline(StandardScaler(), small(epochs=2))
    grid = {"epistemicregressor__prior__length_scale": [0.25, 2.0]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(x, y)
    assert search.best_params_ in ({k: v} for k in grid for v in grid[k])
    model = small(None).set_params(prior__length_scale=3.0, members=4)
    assert (model.prior, model.members) == (RFN(3.0), 4)
    assert model.get_params()["prior__length_scale"] == 3.0
    assert model.set_params(prior=MLP(8, 1), prior__depth=2).prior == MLP(8, 2)
    with pytest.raises(ValueError, match="did you mean width"):
        model.set_params(prior__widht=2)


def test_priors_are_told_apart_by_the_recipe_of_the_docs() -> None:
    def knows(model: EpistemicRegressor, x: np.ndarray, y: np.ndarray) -> float:
        mean, std = model.predict(x, return_std=True)
        return correlation(y - mean, std)

    x, y = data()
    parts = [gap(x, number) for number in range(2)]
    folds = [(train, np.concatenate([inside, outside])) for train, inside, outside in parts]
    grid = {"prior": [RFN(0.25, 16), MLP(8, 1)]}
    tied, told = (
        GridSearchCV(small(epochs=5), grid, cv=folds, scoring=scoring).fit(x, y)
        for scoring in (None, knows)
    )
    assert np.ptp(tied.cv_results_["mean_test_score"]) == 0  # the mean does not see the prior
    assert np.ptp(told.cv_results_["mean_test_score"]) > 0


@pytest.mark.parametrize(
    ("x", "y", "settings", "message"),
    [
        (np.full((9, 2), np.nan), np.ones(9), {}, "NaN"),
        (np.c_[np.arange(9.0), np.ones(9)], np.arange(9.0), {}, r"constant columns \[1\]"),
        (np.c_[np.arange(9.0), 1e9 + np.arange(9.0)], np.arange(9.0), {}, "StandardScaler"),
        (np.c_[np.arange(9.0), 1e39 * np.arange(9.0)], np.arange(9.0), {}, "too large"),
        (np.arange(4.0).reshape(2, 2), np.arange(2.0), {}, "members"),
        (np.arange(18.0).reshape(9, 2), np.ones((9, 2)), {}, "1d array"),
        (np.arange(18.0).reshape(9, 2), np.arange(8.0), {}, "inconsistent"),
        (np.arange(18.0).reshape(9, 2), np.arange(9.0), {"members": 1}, "2 members"),
        (np.arange(18.0).reshape(9, 2), np.arange(9.0), {"members": 2.5}, "2 members"),
        (np.arange(18.0).reshape(9, 2), np.arange(9.0), {"epochs": 2.5}, "whole epochs"),
        (np.arange(18.0).reshape(9, 2), np.arange(9.0), {"batch_size": "9"}, "batch_size"),
        (np.arange(18.0).reshape(9, 2), np.arange(9.0), {"rate": float("inf")}, "finite rate"),
        (np.arange(18.0).reshape(9, 2), np.arange(9.0), {"epochs": 0}, "epochs"),
        (np.arange(18.0).reshape(9, 2), np.arange(9.0), {"prior": "rfn"}, "RFN"),
        (np.arange(18.0).reshape(9, 2), np.arange(9.0), {"rate": 1e30}, "rate"),
        (np.arange(18.0).reshape(9, 2), np.arange(9.0), {"prior": RFN(1e-9, 16)}, "too large"),
        (np.arange(18.0).reshape(9, 2), 1e200 * np.arange(9.0), {}, "variance"),
        (np.arange(18.0).reshape(9, 2), 1e-310 * np.arange(9.0), {}, "variance"),
    ],
)
def test_bad_input_is_a_clear_error_and_nothing_is_fitted(
    x: np.ndarray, y: np.ndarray, settings: dict[str, Any], message: str
) -> None:
    model = small(**settings)
    before = set(vars(model))
    with pytest.raises(ValueError, match=message):
        model.fit(x, y)
    assert set(vars(model)) == before


def test_a_failed_fit_leaves_the_former_one() -> None:
    x, y = data()
    model = small(epochs=5).fit(x, y)
    before = model.predict(x)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((9, 3), np.nan), np.ones(9))
    np.testing.assert_array_equal(model.predict(x), before)
    model.set_params(rate=1e30)
    with pytest.raises(ValueError, match="finite weights"):
        model.fit(np.column_stack([x, x[:, 0]]), y)  # at the end of a fit to other columns
    np.testing.assert_array_equal(model.predict(x), before)


@pytest.mark.parametrize(("prior", "limit"), [(RFN(0.5, features=16), 5e5), (MLP(8, 1), 3.4e38)])
def test_far_inputs_are_uncertain_or_refused(prior: RFN | MLP, limit: float) -> None:
    x, y = data()
    model = small(prior).fit(x, y)
    near, far = (model.predict(at, return_std=True)[1].mean() for at in (x, x + 1e4))
    assert far > 2 * near
    for ask in (model.predict, model.sample_y):
        with pytest.raises(ValueError, match="too large columns"):
            ask(x + 1.1 * limit)


def test_a_constant_target_is_predicted() -> None:
    x, _ = data(37)
    target = np.full(37, 0.1)
    assert target.std() > 0  # by rounding alone
    mean, std = small().fit(x, target).predict(x + 2, return_std=True)
    np.testing.assert_allclose(mean, 0.1, atol=0.5)
    assert std.mean() > 0.1


def test_auto_length_scale_follows_the_units_and_the_function() -> None:
    x = np.random.default_rng(1).uniform(size=(200, 8))
    smooth, rough = x[:, 0], np.sin(40 * x).prod(axis=1)
    long, short = (choose_length_scale(x, y, unit=1.0) for y in (smooth, rough))
    assert {long, short} <= set(CANDIDATES)
    assert short < long
    unit = np.median(np.diff(np.percentile(x, [1, 99], axis=0), axis=0))
    assert choose_length_scale(10 * x, smooth) == pytest.approx(10 * unit * long)
    chosen = small(RFN("auto", features=16), epochs=2).fit(x, smooth).prior_
    assert isinstance(chosen.length_scale, float)


@pytest.mark.filterwarnings("error")
def test_auto_length_scale_of_rare_dummies_and_of_no_misfits() -> None:
    x, _ = data(200)
    rare = np.zeros((200, 3))
    rare[0] = 1.0
    length = choose_length_scale(np.c_[x, rare], x[:, 0])
    assert length / choose_length_scale(x, x[:, 0]) in [
        a / b for a in CANDIDATES for b in CANDIDATES
    ]
    middle = np.zeros(200)
    middle[np.argsort(x[:, 0])[:2]] = 1.0  # errors in no gap
    assert choose_length_scale(x[:, :1], middle, unit=1.0) == CANDIDATES[0]
