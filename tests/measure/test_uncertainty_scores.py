"""Scores of an uncertainty against SciPy, scikit-learn, integrals and uncertainty-toolbox."""

from typing import Any

import numpy as np
import pytest

from devote.measure import calibration as scores
from devote.measure.calibration import normal_intervals, sample_intervals

LEVELS = np.linspace(0.05, 0.95, 19)


def predictions(count: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Targets, means and deviations."""
    generator = np.random.default_rng(3)
    mean, std = generator.normal(size=count), generator.uniform(0.2, 2, count)
    return mean + 1.3 * std * generator.normal(size=count), mean, std


def integrated(distribution: Any, target: float) -> float:
    """The definition of the CRPS: squared distance of the distribution from a step."""
    integrate = pytest.importorskip("scipy.integrate")
    below = integrate.quad(lambda x: distribution(x) ** 2, target - 30, target)[0]
    return float(
        below + integrate.quad(lambda x: (1 - distribution(x)) ** 2, target, target + 30)[0]
    )


def test_crps_of_a_normal_distribution_is_its_integral() -> None:
    stats = pytest.importorskip("scipy.stats")
    rows = zip(*predictions(), strict=True)
    expected = np.mean([integrated(stats.norm(m, s).cdf, y) for y, m, s in rows])
    assert scores.crps(*predictions()) == pytest.approx(expected, rel=1e-6)
    sure = np.array([1.0, 2.0]), np.array([0.0, 2.5]), np.zeros(2)
    assert scores.crps(*sure) == pytest.approx(0.75)  # the absolute error


def test_crps_of_samples_is_fair() -> None:
    """By its definition over all pairs; on average that of what the samples were drawn from."""
    generator, (target, mean, std) = np.random.default_rng(0), predictions()
    samples = mean + std * generator.normal(size=(7, 60))
    pairs = np.abs(samples[:, None] - samples).sum(axis=(0, 1)) / (7 * 6)
    expected = (np.abs(samples - target).mean(axis=0) - pairs / 2).mean()
    assert scores.sample_crps(target, samples) == pytest.approx(expected)
    many = [
        scores.sample_crps(target, mean + std * generator.normal(size=(3, 60))) for _ in range(3000)
    ]
    assert np.mean(many) == pytest.approx(scores.crps(target, mean, std), rel=0.01)


def test_nll_is_scipy_s() -> None:
    stats = pytest.importorskip("scipy.stats")
    target, mean, std = predictions()
    expected = -stats.norm(mean, std).logpdf(target).mean()
    assert scores.nll(target, mean, std) == pytest.approx(expected)
    assert scores.nll(target, mean, 0 * std) == np.inf


def test_interval_score_is_two_pinball_losses() -> None:
    """2 / alpha times the sum of scikit-learn's pinball losses of both ends."""
    metrics = pytest.importorskip("sklearn.metrics")
    target, mean, std = predictions()
    samples = mean + std * np.random.default_rng(1).normal(size=(9, 60))
    for low, high in (normal_intervals(mean, std, LEVELS), sample_intervals(samples, LEVELS)):
        expected = []
        for level, left, right in zip(LEVELS, low, high, strict=True):
            tail = (1 - level) / 2
            loss = metrics.mean_pinball_loss(target, left, alpha=tail)
            expected.append(
                (loss + metrics.mean_pinball_loss(target, right, alpha=1 - tail)) / tail
            )
        found = scores.interval_score(target, low, high, LEVELS)
        assert found == pytest.approx(np.mean(expected))


def test_sparsification_error_by_taking_points_away() -> None:
    """Point by point; ties by the mean over many orders."""
    generator = np.random.default_rng(2)
    error, std = generator.normal(size=12), generator.integers(1, 5, 12).astype(float)

    def area(order: np.ndarray) -> float:
        return float(np.mean([np.abs(error[order[taken:]]).mean() for taken in range(12)]))

    best = area(np.argsort(-np.abs(error)))
    orders = [generator.permutation(12) for _ in range(4000)]
    ours = np.mean([area(mixed[np.argsort(-std[mixed], kind="stable")]) for mixed in orders])
    expected = (ours - best) / np.abs(error).mean()
    assert scores.sparsification_error(error, std) == pytest.approx(expected, abs=0.01)
    assert scores.sparsification_error(error, np.abs(error)) == pytest.approx(0)
    assert np.isnan(scores.sparsification_error(np.zeros(3), np.ones(3)))


@pytest.mark.parametrize("decimals", [1, 8])
def test_fpr95_is_read_off_scikit_learn_s_curve(decimals: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    generator = np.random.default_rng(4)
    inside = np.round(generator.gamma(2, size=151), decimals)
    outside = np.round(1 + generator.gamma(3, size=83), decimals)
    labels = np.repeat([0, 1], [151, 83])
    curve = metrics.roc_curve(labels, np.append(inside, outside), drop_intermediate=False)
    assert scores.fpr95(inside, outside) == pytest.approx(curve[0][curve[1] >= 0.95][0])


def test_normal_scores_are_uncertainty_toolbox_s() -> None:
    toolbox = pytest.importorskip("uncertainty_toolbox.metrics_scoring_rule")
    target, mean, std = predictions()
    asked = mean, std, target
    assert scores.crps(target, mean, std) == pytest.approx(toolbox.crps_gaussian(*asked))
    assert scores.nll(target, mean, std) == pytest.approx(toolbox.nll_gaussian(*asked))
    found = scores.interval_score(target, *normal_intervals(mean, std, LEVELS), LEVELS)
    known = toolbox.interval_score(*asked, start_p=0.05, end_p=0.95, resolution=19)
    assert found == pytest.approx(known)
