"""The paper's aggregation on curves small enough to do by hand."""

import numpy as np
import pytest

from devote.core.errors import UserError
from devote.measure.curves import (
    BINS,
    WINDOW,
    Curve,
    SeedCurve,
    aggregate,
    bin_means,
    cut,
    evaluations,
    interpolated,
    over_seeds,
    smoothed,
)

NAN = np.nan


def seed(steps: list[float], values: list[float]) -> SeedCurve:
    return SeedCurve(np.array(steps, float), np.array(values, float))


def test_paper_numbers() -> None:
    assert (BINS, WINDOW) == (500, 50)


def test_bins_hold_the_means_of_their_observations() -> None:
    # bins (0, 10], (10, 20], (20, 30], (30, 40]; steps 0 and 10 are in the first
    found = bin_means(seed([0, 10, 11, 19, 20, 40, 41], [1, 3, 2, 4, 6, 5, 99]), 40, 4)
    np.testing.assert_array_equal(found, [2, 4, NAN, 5])


def test_every_edge_closes_its_own_bin() -> None:
    for budget in (60_512, 962_048, 0.7, 1e7):
        edges = budget * np.arange(1, BINS + 1) / BINS
        np.testing.assert_array_equal(
            bin_means(SeedCurve(edges, np.arange(BINS)), budget), np.arange(BINS)
        )


def test_values_that_are_not_there_do_not_count() -> None:
    np.testing.assert_array_equal(bin_means(seed([1, 2, 6], [NAN, 4, NAN]), 10, 2), [4, NAN])


def test_only_inner_gaps_are_filled() -> None:
    found = interpolated(np.array([NAN, 1, NAN, NAN, 4, NAN, 6, NAN]))
    np.testing.assert_allclose(found, [NAN, 1, 2, 3, 4, 5, 6, NAN])
    np.testing.assert_array_equal(interpolated(np.full(3, NAN)), np.full(3, NAN))


def test_mean_and_standard_error_where_all_seeds_are_defined() -> None:
    mean, error = over_seeds(np.array([[1, 2, NAN], [3, 2, 5], [5, 2, 5]]))
    np.testing.assert_allclose(mean, [3, 2, NAN])
    np.testing.assert_allclose(error, [2 / np.sqrt(3), 0, NAN])
    assert np.isnan(over_seeds(np.ones((1, 3)))[1]).all()


def test_average_looks_back_only() -> None:
    np.testing.assert_allclose(smoothed(np.array([1.0, 3, 5, 7]), 2), [1, 2, 4, 6])
    np.testing.assert_allclose(smoothed(np.array([NAN, 3, 5, NAN]), 3), [NAN, 3, 4, NAN])
    impulse = np.zeros(200)
    impulse[100] = 50.0
    np.testing.assert_allclose(smoothed(impulse), (np.arange(200) // 50 == 2) * 1.0)


def test_all_curves_end_where_one_does() -> None:
    long = Curve(np.arange(4.0), np.array([1.0, 1, 1, 1]), np.array([0.1] * 4))
    short = Curve(np.arange(4.0), np.array([NAN, 1, 1, NAN]), np.array([NAN, 0.1, 0.1, NAN]))
    ended = cut({"a": long, "b": short})
    assert {name: len(curve.mean) for name, curve in ended.items()} == {"a": 3, "b": 3}
    unsure = Curve(long.steps, long.mean, np.array([0.1, NAN, NAN, NAN]))
    assert len(cut({"a": long, "b": unsure})["a"].mean) == 1


def test_a_method_without_a_curve_leaves_the_others_theirs() -> None:
    whole, lost = Curve(*np.ones((3, 4))), Curve(np.ones(4), *np.full((2, 4), NAN))
    found = cut({"a": whole, "b": lost})
    assert found.keys() == {"a"}
    assert len(found["a"].mean) == 4
    assert cut({"b": lost}) == {}


def test_the_whole_by_hand() -> None:
    runs = {
        "a": [seed([1, 4], [0, 3]), seed([1, 4], [2, 5])],
        "b": [seed([1, 2, 3], [1, 1, 1]), seed([1, 3], [3, 3])],
    }
    found = aggregate(runs, budget=4, bins=4, window=2)
    np.testing.assert_allclose(found["a"].steps, [1, 2, 3])  # b ends at 3
    np.testing.assert_allclose(found["a"].mean, [1, 1.5, 2.5])
    np.testing.assert_allclose(found["a"].error, [1, 1, 1])
    np.testing.assert_allclose(found["b"].mean, [2, 2, 2])
    with pytest.raises(UserError, match="none of c"):
        aggregate({"c": []}, 4)


def test_one_seed_has_a_mean_and_no_error() -> None:
    found = aggregate({"a": [seed([1, 4], [0, 3])]}, 4, 4, 1)["a"]
    np.testing.assert_allclose(found.mean, [0, 1, 2, 3])
    assert np.isnan(found.error).all()


def test_evaluations_at_the_same_steps_are_kept_one_by_one() -> None:
    steps = np.array([0.0, 10.0, 20.0, 30.0])
    one = SeedCurve(steps, np.array([np.nan, 1.0, np.nan, 3.0]))
    two = SeedCurve(steps, np.array([np.nan, 3.0, np.nan, 5.0]))
    found = evaluations([one, two])
    assert found is not None
    np.testing.assert_allclose(found, [[10, 30], [2, 4], [1, 1]])
    assert evaluations([one, two], most=1) is None
    assert evaluations([one, SeedCurve(steps, np.array([1.0, np.nan, np.nan, 3.0]))]) is None
