"""One cell of the table: a model on all splits of a dataset."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from devote.core.errors import UserError
from devote.measure.calibration import correlation, misfit_auroc
from devote.regression import uci
from devote.regression.exact_gp import exact_posterior
from devote.regression.gp_task import PAPER, draw_task
from devote.regression.models import (
    Labelled,
    fit_bootstrap,
    fit_mean,
    fit_pairs,
    residuals,
    spread,
)
from devote.regression.perceptron import Init
from devote.regression.priors import MLP, RFN, Prior, Readout, Trains
from devote.regression.scores import REFERENCE
from devote.regression.splits import Split, Ties, gap, gap_splits, unit_scale
from devote.regression.training import Training, Watch, evaluate

GP, ENSEMBLE = "gp", "boot-ens"


@dataclass(frozen=True)
class Variant:
    """Where the paper's text and the authors' code differ; the defaults are the paper's text."""

    readout: Readout = "ones"
    trains: Trains = "all"
    init: Init = "fan_in"
    """Of the MLP prior and corrector, of the mean predictor and of the bootstrapped ensemble."""
    ties: Ties = "rows"
    features: int = 1024  # paper
    weight_decay: float = 1e-4  # paper
    ensemble_loss: Literal["each", "mean"] = "each"
    """Members of the bootstrapped ensemble minimise each their own loss, or together its mean."""

    def ensemble_decay(self, members: int) -> float:
        """The mean has a member's gradient divided by their number, but not the decay beside it."""
        return self.weight_decay * (members if self.ensemble_loss == "mean" else 1)


AUTHORS = Variant("uniform", "readout", "fan_out", "quicksort", ensemble_loss="mean")


class Dataset(NamedTuple):
    """Splits, and the inputs at which their models are asked: inside, outside, then a grid."""

    splits: list[Split]
    asked: list[np.ndarray]

    @property
    def labelled(self) -> list[Labelled]:
        return [Labelled(split.train.x, split.train.y) for split in self.splits]

    @property
    def digest(self) -> str:
        """Hash of the asked inputs in their order: cells that share it can be put together."""
        return hashlib.sha256(b"".join(x.tobytes() for x in self.asked)).hexdigest()


class Answer(NamedTuple):
    """Mean and standard deviation at the asked inputs, `(splits, rows)`."""

    mean: np.ndarray
    std: np.ndarray


def synthetic(count: int) -> Dataset:
    """Draws of the GP task."""
    draws = [draw_task(seed) for seed in range(count)]
    asked = [
        np.concatenate([d.split.inside.x, d.split.outside.x, d.grid_x[:, None]]) for d in draws
    ]
    return Dataset([draw.split for draw in draws], asked)


def scaled_table(name: str, data: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and target of a UCI table in the paper's scaling."""
    table = unit_scale(uci.load(name, data))
    return table[:, :-1], table[:, -1]


def fit_reference(
    x: np.ndarray,
    y: np.ndarray,
    variant: Variant,
    training: Training,
    watch: Watch | None = None,
) -> np.ndarray:
    """The denoised proxy of a UCI target: a mean predictor of the whole table, at its rows."""
    architecture = MLP(init=variant.init)
    nets = fit_mean([Labelled(x, y)], training, [0], architecture, variant.weight_decay, watch)
    return evaluate(nets, [x])[0][0]


def tabular(
    x: np.ndarray, y: np.ndarray, f: np.ndarray, count: int, ties: Ties = "rows"
) -> Dataset:
    """Gap splits of a scaled table with its reference."""
    splits = gap_splits(x, y, f, count, ties)
    return Dataset(splits, [np.concatenate([s.inside.x, s.outside.x]) for s in splits])


def judged(dataset: str) -> tuple[int, int]:
    """How many rows of a split are judged inside the training distribution, and how many outside;
    they come first, in this order, wherever a cell keeps answers."""
    if dataset == GP:
        return PAPER.clusters * PAPER.cluster_size, PAPER.outside
    _, inside, outside = gap(np.zeros((uci.TABLES[dataset].shape[0], 1)), 0)
    return len(inside), len(outside)


def parse_prior(model: str, variant: Variant) -> Prior:
    """`rfn-0.25`, `rfn-auto` or `mlp-100x2`."""
    kind, _, size = model.partition("-")
    try:
        if kind == "rfn":
            settings = (variant.features, variant.readout, variant.trains)
            return RFN("auto" if size == "auto" else float(size), *settings)
        if kind == "mlp":
            width, _, depth = size.partition("x")
            return MLP(int(width), int(depth), variant.init)
    except ValueError as error:
        raise UserError("a model like rfn-0.25 or mlp-100x2", model, str(error)) from error
    raise UserError(
        "boot-ens, gp-exact, rfn-LENGTH, rfn-auto or mlp-WIDTHxDEPTH", model, "name one of them"
    )


def separate_mean(
    data: Dataset, variant: Variant, training: Training, watch: Watch | None = None
) -> np.ndarray:
    """The separate mean predictor's answers, `(splits, rows)`."""
    seeds, architecture = range(len(data.splits)), MLP(init=variant.init)
    nets = fit_mean(data.labelled, training, seeds, architecture, variant.weight_decay, watch)
    return np.stack([outputs[0] for outputs in evaluate(nets, data.asked)])


def answer(
    model: str,
    data: Dataset,
    mean: np.ndarray,
    members: int,
    variant: Variant,
    training: Training,
    watch: Watch | None = None,
) -> Answer:
    """What a model says at the asked inputs of every split."""
    seeds = range(len(data.splits))
    if model == REFERENCE:
        pairs = [
            exact_posterior(*rows, at, PAPER.length_scale, PAPER.noise)
            for rows, at in zip(data.labelled, data.asked, strict=True)
        ]
        return Answer(np.stack([m for m, _ in pairs]), np.stack([s for _, s in pairs]))
    if model == ENSEMBLE:
        nets = fit_bootstrap(
            data.labelled,
            members,
            training,
            seeds,
            MLP(init=variant.init),
            variant.ensemble_decay(members),
            watch,
        )
        outputs = evaluate(nets, data.asked)
        return Answer(np.stack([o.mean(axis=0) for o in outputs]), _spreads(outputs))
    inputs = [split.train.x for split in data.splits]
    fitted = fit_pairs(parse_prior(model, variant), inputs, members, training, seeds, watch)
    return Answer(mean, _spreads(residuals(fitted, data.asked)))


def score(data: Dataset, mean: np.ndarray, std: np.ndarray) -> list[dict[str, float]]:
    """Per split: AUROC and correlation, with errors against the observations y and against f."""
    rows = []
    for split, mu, sigma in zip(data.splits, mean, std, strict=True):
        count = len(split.inside.y)
        judged = count + len(split.outside.y)
        scores = {}
        for name in ("y", "f"):
            inside, outside = split.inside._asdict()[name], split.outside._asdict()[name]
            error = np.concatenate([inside, outside]) - mu[:judged]
            scores[f"auroc_{name}"] = misfit_auroc(
                error[:count], sigma[:count], error[count:], sigma[count:judged]
            )
            scores[f"rho_{name}"] = correlation(error, sigma[:judged])
        rows.append(scores)
    return rows


def pooled(data: Dataset, mean: np.ndarray, std: np.ndarray) -> dict[str, float]:
    """One correlation over the points of all splits, with errors against y and against f."""
    found = {}
    for name in ("y", "f"):
        errors, sigmas = [], []
        for split, mu, sigma in zip(data.splits, mean, std, strict=True):
            target = np.concatenate([split.inside._asdict()[name], split.outside._asdict()[name]])
            errors.append(target - mu[: len(target)])
            sigmas.append(sigma[: len(target)])
        found[f"rho_{name}"] = correlation(np.concatenate(errors), np.concatenate(sigmas))
    return found


def _spreads(outputs: Sequence[np.ndarray]) -> np.ndarray:
    return np.stack([spread(values) for values in outputs])
