"""The report for anybody's model, on a GP, a random forest and our own."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from devote.core.durable import atomic_write_text
from devote.experiments.calibration import note, study_at
from devote.experiments.figure import Figure
from devote.experiments.record import write_readme
from devote.measure.report import Predict, calibration_report
from devote.regression.gp_task import PAPER, draw_task
from devote.regression.plan import Study
from devote.regression.priors import RFN

LABEL = "calibration_report"
Fit = Callable[[np.ndarray, np.ndarray, Study], Predict]


def report_figure(scale: str, root: Path) -> Figure:
    """Three models fitted to the first draw of the GP task, each with its report."""
    study = study_at(scale, root)

    def draw(out: Path, command: str) -> list[Path]:
        caption = note(study, LABEL, scale, "draw 0 of the GP task")
        return [*_reports(study, caption, command, out), write_readme(out, caption, command)]

    title = "The report on a GP, a forest and our own model"
    return Figure(LABEL, title, scale, Path("results") / LABEL / scale, {}, draw)


def fit_gp(x: np.ndarray, y: np.ndarray, _: Study) -> Predict:
    """scikit-learn's GP with fitted length and noise; its deviation is of observations."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel

    kernel = RBF(PAPER.length_scale) + WhiteKernel(PAPER.noise**2)
    model = GaussianProcessRegressor(kernel).fit(x, y)
    return lambda at: model.predict(at, return_std=True)


def fit_forest(x: np.ndarray, y: np.ndarray, _: Study) -> Predict:
    """A random forest, whose trees are taken for samples."""
    from sklearn.ensemble import RandomForestRegressor

    model = RandomForestRegressor(100, random_state=0).fit(x, y)
    return lambda at: np.stack([tree.predict(at) for tree in model.estimators_])


def fit_ours(x: np.ndarray, y: np.ndarray, study: Study) -> Predict:
    """Priors and correctors of length 1, with the training of the study."""
    from devote.regression.estimator import EpistemicRegressor

    training = study.training
    model = EpistemicRegressor(
        RFN(1.0, study.variant.features),
        members=study.members,
        epochs=training.epochs,
        batch_size=training.batch_size,
        rate=training.rate,
        random_state=0,
    ).fit(x, y)
    return lambda at: model.predict(at, return_std=True)


MODELS: dict[str, Fit] = {"gp": fit_gp, "forest": fit_forest, "ours": fit_ours}


def _reports(study: Study, caption: str, command: str, out: Path) -> list[Path]:
    from devote.figures import calibration as figures

    out.mkdir(parents=True, exist_ok=True)
    train, inside, outside = draw_task(0).split
    found: dict[str, Any] = {"note": caption, "command": command}
    paths = []
    for name, fit in MODELS.items():
        predict = fit(train.x, train.y, study)
        report = calibration_report(
            predict, (inside.x, inside.y), (outside.x, outside.y), slices=(0,), names=("x",)
        )
        found[name] = report.as_dict()
        drawn = figures.draw_report(report)
        paths.append(figures.save(drawn, f"{name}; {caption}", out / f"{name}.png"))
    text = json.dumps(found, indent=1, allow_nan=False) + "\n"
    atomic_write_text(out / "report.json", text)
    return [*paths, out / "report.json"]
