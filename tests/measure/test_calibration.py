"""Metrics against scikit-learn and SciPy, and their edges."""

import numpy as np
import pytest

from devote.measure.calibration import (
    auroc,
    correlation,
    misfit,
    misfit_auroc,
    normal_intervals,
    over_splits,
    reliability,
    sample_intervals,
)


@pytest.mark.parametrize("decimals", [1, 6])
def test_auroc_is_scikit_learn_s_also_with_ties(decimals: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    generator = np.random.default_rng(0)
    negative = np.round(generator.normal(size=200), decimals)
    positive = np.round(generator.normal(0.5, size=70), decimals)
    labels = np.repeat([0, 1], [200, 70])
    expected = metrics.roc_auc_score(labels, np.concatenate([negative, positive]))
    assert auroc(negative, positive) == pytest.approx(expected, abs=1e-12)


def test_misfit_auroc_by_hand() -> None:
    inside_error = np.linspace(0, 1, 11)  # ninetieth percentile 0.9
    outside_error = np.array([0.5, -0.95, 2.0, 0.9])
    outside_std = np.array([9.0, 2.0, 0.5, 9.0])
    np.testing.assert_array_equal(
        misfit(inside_error, np.abs(outside_error)), [False, True, True, False]
    )
    value = misfit_auroc(inside_error, np.ones(11), outside_error, outside_std)
    assert value == 0.5  # one misfit above all points inside, one below


def test_auroc_of_nothing_is_not_a_number() -> None:
    assert np.isnan(auroc(np.ones(3), np.ones(0)))
    assert np.isnan(misfit_auroc(np.ones(3), np.ones(3), np.zeros(2), np.ones(2)))


def test_correlation_is_scipy_s() -> None:
    stats = pytest.importorskip("scipy.stats")
    error, std = np.random.default_rng(0).normal(size=(2, 100))
    expected = stats.pearsonr(np.abs(error), std).statistic
    assert correlation(error, std) == pytest.approx(expected, abs=1e-12)
    assert np.isnan(correlation(error, np.ones(100)))


def test_standard_error_is_scipy_s_and_skips_missing_splits() -> None:
    stats = pytest.importorskip("scipy.stats")
    values = [0.3, 0.5, 0.9, 0.4]
    estimate = over_splits([*values, float("nan")])
    assert estimate.mean == pytest.approx(np.mean(values))
    assert estimate.error == pytest.approx(stats.sem(values))
    assert estimate.splits == 4
    assert over_splits([]).splits == 0


def test_a_right_model_covers_what_it_claims() -> None:
    generator = np.random.default_rng(0)
    mean, std = generator.normal(size=20000), generator.uniform(0.5, 2, 20000)
    target = mean + std * generator.normal(size=20000)
    levels = np.array([0.1, 0.5, 0.9])
    np.testing.assert_allclose(
        reliability(target, *normal_intervals(mean, std, levels)), levels, atol=0.015
    )
    assert np.all(reliability(target, *normal_intervals(mean, std / 3, levels)) < levels)
    for count in (20, 200):  # few samples are no reason to call a right model wrong
        samples = mean + std * generator.normal(size=(count, 20000))
        covered = reliability(target, *sample_intervals(samples, levels))
        np.testing.assert_allclose(covered, levels, atol=0.015)
    ten = mean + std * generator.normal(size=(10, 20000))
    covered = reliability(target, *sample_intervals(ten, np.array([0.8, 0.99])))
    np.testing.assert_allclose(covered, [0.8, 9 / 11], atol=0.015)  # all ten cover no more


def test_a_sure_model_covers_what_it_hits() -> None:
    ends = normal_intervals(np.array([1.0, 1.0]), np.zeros(2), np.array([0.5]))
    covered = reliability(np.array([1.0, 2.0]), *ends)
    np.testing.assert_array_equal(covered, [0.5])


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        auroc(np.array([np.nan]), np.ones(1))
    with pytest.raises(ValueError, match="vector"):
        correlation(np.ones((2, 2)), np.ones(4))
    with pytest.raises(ValueError, match="one deviation"):
        correlation(np.ones(3), np.ones(4))
    for lengths in ((5, 9, 2, 2), (5, 5, 2, 3)):
        with pytest.raises(ValueError, match="one deviation"):
            misfit_auroc(*(np.ones(length) for length in lengths))
    assert np.isnan(correlation(np.ones(0), np.ones(0)))
