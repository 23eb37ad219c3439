"""Interquartile means, bootstrap intervals and exact shifts, against references."""

from itertools import combinations

import numpy as np
import pytest

from devote.core.errors import UserError
from devote.measure.statistics import (
    iqm,
    performance_profile,
    probability_of_improvement,
    shift,
    stratified_bootstrap,
)

GENERATOR = np.random.default_rng(3)
MINE, THEIRS = GENERATOR.normal(1.0, 1.0, (5, 4)), GENERATOR.normal(0.3, 2.0, (6, 4))
THEIRS[:2] = MINE[:2]  # ties


def test_iqm_is_the_mean_of_the_middle_half() -> None:
    assert iqm(np.array([[0.0], [1], [2], [3], [100]])) == 2
    assert iqm(np.arange(8.0).reshape(4, 2)) == 3.5


def test_a_run_without_a_score_is_not_the_best_of_them() -> None:
    scores = np.array([[1.0], [2], [3], [4], [np.nan]])
    assert np.isnan(iqm(scores))
    assert np.isnan(stratified_bootstrap(scores, statistic=iqm)).all()


def test_values_and_intervals_agree_with_rliable() -> None:
    library = pytest.importorskip("rliable.library")
    metrics = pytest.importorskip("rliable.metrics")
    assert iqm(MINE) == pytest.approx(metrics.aggregate_iqm(MINE))
    theirs = float(metrics.probability_of_improvement(MINE, THEIRS))
    assert probability_of_improvement(MINE, THEIRS) == pytest.approx(theirs)
    np.random.seed(0)
    _, ends = library.get_interval_estimates(
        {"mine": MINE}, lambda x: np.array([metrics.aggregate_iqm(x)]), reps=1500
    )
    ours = stratified_bootstrap(MINE, statistic=iqm, draws=4000)
    np.testing.assert_allclose([ours.low, ours.high], ends["mine"][:, 0], atol=0.06)
    _, ends = library.get_interval_estimates(
        {"both": (MINE, THEIRS)},
        lambda x, y: np.array([metrics.probability_of_improvement(x, y)]),
        reps=400,
    )
    ours = stratified_bootstrap(MINE, THEIRS, statistic=probability_of_improvement, draws=4000)
    np.testing.assert_allclose([ours.low, ours.high], ends["both"][:, 0], atol=0.06)


def test_runs_are_drawn_within_their_task() -> None:
    # no spread within a task: whatever is drawn, the mean stays
    scores = np.tile(np.array([0.0, 100.0]), (5, 1))
    found = stratified_bootstrap(scores, statistic=lambda x: x.mean(axis=(-2, -1)))
    assert (found.low, found.high) == (50, 50)
    swapped = stratified_bootstrap(scores.T[:, :1].repeat(3, 0), statistic=iqm)
    assert swapped.high > swapped.low


def test_one_axis_is_refused_and_two_runs_have_no_interval() -> None:
    with pytest.raises(UserError, match=r"\(run, task\)"):
        stratified_bootstrap(np.ones(5), statistic=iqm)
    found = stratified_bootstrap(np.ones((2, 1)), statistic=iqm)
    assert found.value == 1
    assert np.isnan([found.low, found.high]).all()


def test_improvement_counts_ties_half() -> None:
    scores = np.array([[1.0], [2.0]])
    assert probability_of_improvement(scores, scores) == 0.5
    assert probability_of_improvement(scores + 5, scores) == 1


@pytest.mark.parametrize(("mine", "theirs"), [(3, 3), (4, 4), (5, 5), (5, 3), (6, 7)])
def test_shift_level_is_the_rank_sum_distribution_counted_out(mine: int, theirs: int) -> None:
    found = shift(np.arange(mine) * 100.0, np.arange(theirs) * 1.0)
    total = mine + theirs
    wins = [
        sum(place - rank for rank, place in enumerate(places))
        for places in combinations(range(total), mine)
    ]
    # the interval misses when fewer than k of all pairs are on one side
    differences = np.sort((np.arange(mine)[:, None] * 100.0 - np.arange(theirs)).ravel())
    k = int(np.searchsorted(differences, found.low)) + 1
    outside = 2 * np.mean(np.array(wins) < k)
    assert found.level == pytest.approx(1 - outside)
    next_outside = 2 * np.mean(np.array(wins) < k + 1)
    assert next_outside > 0.05
    assert found.level >= 0.95 or k == 1


def test_shift_knows_what_so_few_runs_allow() -> None:
    assert shift(np.arange(3) + 10.0, np.arange(3.0)).level == pytest.approx(0.9)
    assert shift(np.arange(2.0), np.arange(2.0)).level == 0
    assert shift(np.arange(4) + 10.0, np.arange(4.0)).low > 0


def test_shift_interval_holds_the_truth_as_often_as_it_says() -> None:
    generator = np.random.default_rng(0)
    held = 0
    for _ in range(2000):
        found = shift(generator.exponential(size=5) + 1.0, generator.exponential(size=5))
        held += found.low <= 1.0 <= found.high
    assert held / 2000 == pytest.approx(found.level, abs=0.015)


def test_a_performance_profile_is_the_share_of_runs_above_each_threshold() -> None:
    scores = np.array([[0.1, 0.9], [0.3, 0.9], [0.5, 0.9]])
    share, error = performance_profile(scores, np.array([0.0, 0.2, 0.4, 0.95]))
    np.testing.assert_allclose(share, [1, 5 / 6, 4 / 6, 0])
    # of a task with shares p of three runs, half of sqrt(p (1 - p) / 3); the other never varies
    np.testing.assert_allclose(error, [0, *[np.sqrt(2 / 27) / 2] * 2, 0], atol=0.01)
    assert np.isnan(performance_profile(scores[:2], np.zeros(1))[1]).all()


def test_performance_profiles_agree_with_rliable() -> None:
    library = pytest.importorskip("rliable.library")
    thresholds = np.linspace(-2, 3, 11)
    theirs, _ = library.create_performance_profile({"mine": MINE}, thresholds, reps=10)
    np.testing.assert_allclose(performance_profile(MINE, thresholds)[0], theirs["mine"])
