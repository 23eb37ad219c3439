"""The report on models that are not ours, and what it refuses."""

import json
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex

from devote.figures.calibration_plots import draw_report
from devote.measure import calibration as scores
from devote.measure.calibration import calibration_report


def data() -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """A function of the first of two inputs; the middle of it is held out."""
    generator = np.random.default_rng(0)
    x = generator.uniform(size=(240, 2))
    y = np.sin(8 * x[:, 0]) + 0.05 * generator.normal(size=240)
    gap = np.abs(x[:, 0] - 0.5) < 0.2
    known = np.flatnonzero(~gap)
    train, inside = known[20:], known[:20]
    return (x[train], y[train]), (x[inside], y[inside]), (x[gap], y[gap])


def gaussian_process(x: np.ndarray, y: np.ndarray) -> Any:
    gp = pytest.importorskip("sklearn.gaussian_process")
    kernel = gp.kernels.RBF(0.3, "fixed")
    model = gp.GaussianProcessRegressor(kernel, alpha=0.05**2, optimizer=None).fit(x, y)
    return lambda at: model.predict(at, return_std=True)


def forest(x: np.ndarray, y: np.ndarray) -> Any:
    ensemble = pytest.importorskip("sklearn.ensemble")
    model = ensemble.RandomForestRegressor(20, random_state=0).fit(x, y)
    return lambda at: np.stack([tree.predict(at) for tree in model.estimators_])


def ours(x: np.ndarray, y: np.ndarray) -> Any:
    pytest.importorskip("sklearn")
    from devote.regression.estimator import EpistemicRegressor
    from devote.regression.priors import RFN

    model = EpistemicRegressor(RFN(0.25, 128), members=5, epochs=150, rate=1e-2, random_state=0)
    model.fit(x, y)
    return lambda at: model.predict(at, return_std=True)


@pytest.mark.parametrize(("build", "least"), [(gaussian_process, 0.9), (forest, 0.5), (ours, 0.8)])
def test_report_on_three_kinds_of_model(build: Any, least: float) -> None:
    train, inside, outside = data()
    report = calibration_report(build(*train), inside, outside, slices=(0, 1), names=("a", "b"))
    assert least < report.numbers["auroc"] <= 1
    assert report.numbers["outside_sharpness"] > report.numbers["inside_sharpness"]
    walk = report.slices[0]
    assert walk.name == "a"
    assert walk.std[45:55].mean() > walk.std[:10].mean()
    assert json.loads(json.dumps(report.as_dict()))["auroc"] == report.numbers["auroc"]
    figure = draw_report(report)
    assert sum(axes.axison for axes in figure.axes) == 5
    errors, coverage = (
        {line.get_label(): to_hex(line.get_color()) for line in panel.lines}
        for panel in figure.axes[:2]
    )
    assert errors == {name: coverage[name] for name in ("inside", "outside")}


@pytest.mark.parametrize("form", ["pair", "samples"])
def test_every_number_of_a_model_that_can_be_worked_out(form: str) -> None:
    """The mean is 0, the errors are the targets; twice as unsure outside, where it errs more."""
    stats = pytest.importorskip("scipy.stats")
    inside_y, outside_y = np.linspace(-1, 1, 101), np.linspace(-4, 4, 101)
    inside_x, outside_x = np.zeros((101, 1)), np.ones((101, 1))
    spread = np.array([-1.0, -0.5, 0.0, 0.5, 1.0]) / np.sqrt(0.5)  # mean 0, deviation 1

    def predict(x: np.ndarray) -> Any:
        std = 1 + x[:, 0]
        return (np.zeros(len(x)), std) if form == "pair" else spread[:, None] * std

    walks = (number for number in [0])  # any iterable
    report = calibration_report(
        predict, (inside_x, inside_y), (outside_x, outside_y), walks, slice_points=3
    )
    # the ninetieth percentile of the errors inside is 0.9: of the 101 outside, 78 are larger
    known = {
        "auroc": 1.0,
        "correlation": np.corrcoef(np.abs([*inside_y, *outside_y]), np.repeat([1.0, 2.0], 101))[
            0, 1
        ],
        "misfit_share": np.mean(np.abs(outside_y) > 0.9),
        "inside_sharpness": 1.0,
        "outside_sharpness": 2.0,
        "inside_rmse": np.sqrt(np.mean(inside_y**2)),
        "outside_rmse": np.sqrt(np.mean(outside_y**2)),
    }
    if form == "pair":
        half = np.array([NormalDist().inv_cdf(0.5 + level / 2) for level in report.levels])
    else:  # of five samples the smallest is the quantile 1/6 and the largest 5/6
        half = np.interp((1 + report.levels) / 2, np.arange(1, 6) / 6, spread)
    for side, y in (("inside", inside_y), ("outside", outside_y)):
        wide = half if side == "inside" else 2 * half
        covered = np.array([np.mean(np.abs(y) <= width) for width in wide])
        np.testing.assert_allclose(getattr(report, f"{side}_coverage"), covered, atol=0.011)
        shown = getattr(report, f"{side}_coverage")
        known[f"{side}_miscoverage"] = np.abs(shown - report.levels).mean()
        width = np.outer(half, np.full(101, wide[0] / half[0]))
        normal = stats.norm(0, wide[0] / half[0])
        known[f"{side}_nll"] = -normal.logpdf(y).mean()
        known[f"{side}_interval_score"] = scores.interval_score(y, -width, width, report.levels)
        known[f"{side}_crps"] = (
            scores.crps(y, np.zeros(101), np.full(101, normal.std()))
            if form == "pair"
            else scores.sample_crps(y, spread[:, None] * np.full(101, normal.std()))
        )
    everything = np.append(inside_y, outside_y), np.repeat([1.0, 2.0], 101)
    known["sparsification_error"] = scores.sparsification_error(*everything)
    known["fpr95"] = 0.0  # every point outside has a larger deviation than any inside
    assert report.numbers == pytest.approx(known)
    np.testing.assert_allclose(report.slices[0].std, [1.0, 1.5, 2.0])


def test_what_it_refuses() -> None:
    _, inside, outside = data()
    good = lambda x: (np.zeros(len(x)), np.arange(len(x), dtype=float))  # noqa: E731
    for predict, message in (
        (lambda x: (x, x), "vectors"),
        (lambda x: (x, x, x), "tuple of 3"),
        (lambda x: np.zeros(len(x)), "samples"),
        (lambda x: [np.zeros(len(x)), np.ones(len(x))], "a list"),
        (lambda x: np.stack([np.zeros(len(x)), np.ones(len(x))]), "at least 3 samples"),
        (lambda x: np.zeros((len(x), 3)), "first axis"),
        (lambda x: (np.zeros(len(x)), -np.ones(len(x))), "at least 0"),
        (lambda x: (np.zeros(len(x)), np.full(len(x), np.nan)), "finite"),
    ):
        with pytest.raises(ValueError, match=message):
            calibration_report(predict, inside, outside)
    with pytest.raises(ValueError, match="slice input"):
        calibration_report(good, inside, outside, slices=(2,))
    for slices in (0, ("a",), (0.5,), (-1,)):
        with pytest.raises(ValueError, match="numbers of inputs"):
            calibration_report(good, inside, outside, slices=slices)
    with pytest.raises(ValueError, match="slice_points"):
        calibration_report(good, inside, outside, slices=(0,), slice_points=1)
    for pair in (None, (inside[0],), inside[0], (*inside, inside[1])):
        with pytest.raises(ValueError, match=r"in_distribution = \(inputs, targets\)"):
            calibration_report(good, pair, outside)
    with pytest.raises(ValueError, match="return_std=True"):
        calibration_report(object(), inside, outside)
    on_the_walk = lambda x: (np.zeros(len(x)), np.full(len(x), np.nan if len(x) == 7 else 1.0))  # noqa: E731
    with pytest.raises(ValueError, match="finite answers"):
        calibration_report(on_the_walk, inside, outside, slices=(0,), slice_points=7)
    with pytest.raises(ValueError, match="2 names"):
        calibration_report(good, inside, outside, slices=(0,), names=("a",))
    with pytest.raises(ValueError, match="out_of_distribution"):
        calibration_report(good, inside, (outside[0], outside[0]))
    with pytest.raises(ValueError, match="same columns"):
        calibration_report(good, inside, (outside[0][:, :1], outside[1]))


def test_a_number_that_is_not_there_is_null_in_json() -> None:
    _, inside, outside = data()
    constant = lambda x: (np.zeros(len(x)), np.full(len(x), 1e5))  # noqa: E731
    report = calibration_report(constant, inside, outside)
    heights = [patch.get_height() for patch in draw_report(report).axes[2].patches]
    assert np.isfinite(heights).all()
    assert np.isnan(report.numbers["correlation"])
    assert json.loads(json.dumps(report.as_dict(), allow_nan=False))["correlation"] is None
