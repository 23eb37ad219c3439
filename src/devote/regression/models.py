"""The models of the calibration experiments, for several splits of a dataset at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from devote.core.errors import UserError
from devote.regression.data import PAPER, Dataset, Ties, draw_function
from devote.regression.priors import MLP, RFN, Init, Net, Prior, Readout, Trains
from devote.regression.training import (
    Checkpoint,
    FitSettings,
    Targets,
    evaluate,
    pad,
    pad_inputs,
    train,
)

MEAN_NET = MLP(width=100, depth=2)  # paper
MEAN_DECAY = 1e-4  # paper


class ModelSpec(NamedTuple):
    """A row of the table, written as `rfn-0.25`, `rfn-auto`, `mlp-100x2`, `boot-ens`, `gp-exact`;
    or `mean`, the separate predictor of the mean that the others are tested with."""

    kind: Literal["rfn", "mlp", "boot-ens", "gp-exact", "mean"]
    size: tuple[float, ...] = ()
    """Length scale, or width and depth; empty for an automatic length scale."""

    def __str__(self) -> str:
        if self == AUTO:
            return "rfn-auto"
        size = "x".join(f"{number:g}" for number in self.size)
        return f"{self.kind}-{size}" if size else self.kind

    def prior(self, variant: "Variant") -> Prior:
        """The prior that the model's correctors learn to cancel."""
        if self.kind == "rfn":
            length = self.size[0] if self.size else "auto"
            return RFN(length, variant.features, variant.readout, variant.trains)  # type: ignore[arg-type]
        width, depth = self.size
        return MLP(int(width), int(depth), variant.init)


MEAN, ENSEMBLE = ModelSpec("mean"), ModelSpec("boot-ens")
REFERENCE, AUTO = ModelSpec("gp-exact"), ModelSpec("rfn")
"""AUTO is composed of the fits of LENGTHS; REFERENCE knows the kernel and the noise of the GP task
and does not compete."""
LENGTHS = tuple(ModelSpec("rfn", (length,)) for length in (0.25, 0.5, 1.0, 2.0, 4.0))  # paper


def parse_model(text: str) -> ModelSpec:
    """The model of that name; unknown names are refused."""
    kind, _, size = text.partition("-")
    for model in (MEAN, ENSEMBLE, REFERENCE, AUTO):
        if text == str(model):
            return model
    try:
        if kind == "rfn":
            return _checked(ModelSpec("rfn", (float(size),)))
        if kind == "mlp":
            width, _, depth = size.partition("x")
            return _checked(ModelSpec("mlp", (int(width), int(depth))))
    except ValueError as error:
        raise UserError("a model like rfn-0.25 or mlp-100x2", text, str(error)) from error
    raise UserError(
        "boot-ens, gp-exact, rfn-LENGTH, rfn-auto or mlp-WIDTHxDEPTH", text, "name one of them"
    )


def _checked(model: ModelSpec) -> ModelSpec:
    model.prior(Variant())  # refuses sizes of 0
    return model


@dataclass(frozen=True)
class Variant:
    """Choices in which the paper's text and the authors' code differ; defaults are the text's."""

    readout: Readout = "ones"
    trains: Trains = "all"
    init: Init = "fan_in"
    """Of the MLP prior and corrector, of the mean predictor and of the bootstrapped ensemble."""
    ties: Ties = "rows"
    features: int = 1024  # paper
    weight_decay: float = 1e-4  # paper
    ensemble_loss: Literal["each", "mean"] = "each"
    """Whether members of the bootstrapped ensemble minimise their own losses, or the mean loss."""

    def ensemble_decay(self, members: int) -> float:
        """Weight decay of a member: the mean loss divides gradients by `members`, not the decay."""
        return self.weight_decay * (members if self.ensemble_loss == "mean" else 1)


AUTHORS = Variant("uniform", "readout", "fan_out", "quicksort", ensemble_loss="mean")


class Pairs(NamedTuple):
    """Fixed priors g and fitted correctors c, stacked over (splits, members)."""

    prior: Net
    corrector: Net


class Answer(NamedTuple):
    """Mean and standard deviation at `Dataset.queries`, `(splits, rows)`."""

    mean: np.ndarray
    std: np.ndarray


def fit_mean(
    inputs: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    settings: FitSettings,
    seeds: Sequence[int],
    architecture: MLP = MEAN_NET,
    weight_decay: float = MEAN_DECAY,
    checkpoint: Checkpoint | None = None,
    members: int = 1,
    bootstrap: bool = False,
) -> Any:
    """Fit `members` independent predictors of the mean per split; with `bootstrap`, every member
    has Poisson(1) weights of the rows."""
    rows = pad_inputs(inputs, settings.batch_size)
    nets = _draw(architecture, seeds, 0, members, rows.x.shape[-1])
    shape = (len(inputs), members, rows.length)
    value = jnp.broadcast_to(pad(targets, rows.length)[:, None], shape)
    weight = jnp.ones(shape)
    if bootstrap:  # drawn for the real rows only, so that they do not depend on the padding
        draws = [
            np.random.default_rng([seed, 2]).poisson(1.0, (count, members))
            for seed, count in zip(seeds, rows.real, strict=True)
        ]
        weight = jnp.asarray(pad(draws, rows.length).swapaxes(1, 2))
    learns, goal = architecture.trained(nets), Targets(value, weight)
    return train(nets, learns, rows, goal, seeds, settings, weight_decay, checkpoint)


def fit_pairs(
    prior: Prior,
    inputs: Sequence[np.ndarray],
    members: int,
    settings: FitSettings,
    seeds: Sequence[int],
    checkpoint: Checkpoint | None = None,
) -> Pairs:
    """Fit correctors that minimise (c + g)^2 at the training inputs; targets are not used."""
    rows = pad_inputs(inputs, settings.batch_size)
    priors = _draw(prior, seeds, 0, members, rows.x.shape[-1])
    correctors = _draw(prior, seeds, 1, members, rows.x.shape[-1])
    value = -jnp.asarray(np.stack(evaluate(priors, list(np.asarray(rows.x)), settings.layout)))
    goal, learns = Targets(value, jnp.ones_like(value)), prior.trained(correctors)
    fitted = train(correctors, learns, rows, goal, seeds, settings, checkpoint=checkpoint)
    return Pairs(priors, fitted)


def residuals(pairs: Pairs, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """c + g of every member, `(members, rows)` for each split."""
    both = zip(evaluate(pairs.corrector, inputs), evaluate(pairs.prior, inputs), strict=True)
    return [corrector + prior for corrector, prior in both]


def _draw(prior: Prior, seeds: Sequence[int], purpose: int, members: int, inputs: int) -> Any:
    """Fresh networks over (splits, members); a split's depend on its seed only."""
    nets = [prior.draw(np.random.default_rng([seed, purpose]), members, inputs) for seed in seeds]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *nets)


def spread(outputs: Array | np.ndarray) -> np.ndarray:
    """Population standard deviation over members, the first axis."""
    return np.std(np.asarray(outputs, np.float64), axis=0)


def exact_posterior(
    x: np.ndarray, y: np.ndarray, at: np.ndarray, length_scale: float, noise: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and epistemic standard deviation of scikit-learn's GP with an RBF kernel of amplitude
    one."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF

    kernel = RBF(length_scale, "fixed")
    model = GaussianProcessRegressor(kernel, alpha=noise**2, optimizer=None)
    return model.fit(x, y).predict(at, return_std=True)


def predict_mean(
    data: Dataset, variant: Variant, settings: FitSettings, checkpoint: Checkpoint | None = None
) -> np.ndarray:
    """Predictions of the separate mean predictor, `(splits, rows)`."""
    inputs, targets = ([getattr(split.train, name) for split in data.splits] for name in "xy")
    seeds, net = range(len(inputs)), MLP(init=variant.init)
    nets = fit_mean(inputs, targets, settings, seeds, net, variant.weight_decay, checkpoint)
    return np.stack([outputs[0] for outputs in evaluate(nets, data.queries)])


def predict(
    model: ModelSpec,
    data: Dataset,
    mean: np.ndarray,
    members: int,
    variant: Variant,
    settings: FitSettings,
    checkpoint: Checkpoint | None = None,
) -> Answer:
    """A model's predictions in every split; only the bootstrapped ensemble and the exact GP have a
    mean of their own."""
    inputs, targets = ([getattr(split.train, name) for split in data.splits] for name in "xy")
    seeds = range(len(inputs))
    if model == REFERENCE:
        pairs = [
            exact_posterior(x, y, at, PAPER.length_scale, PAPER.noise)
            for x, y, at in zip(inputs, targets, data.queries, strict=True)
        ]
        return Answer(np.stack([m for m, _ in pairs]), np.stack([s for _, s in pairs]))
    if model == ENSEMBLE:
        net, decay = MLP(init=variant.init), variant.ensemble_decay(members)
        nets = fit_mean(inputs, targets, settings, seeds, net, decay, checkpoint, members, True)
        outputs = evaluate(nets, data.queries)
        mean = np.stack([output.mean(axis=0) for output in outputs])
    else:
        prior = model.prior(variant)
        fitted = fit_pairs(prior, inputs, members, settings, seeds, checkpoint)
        outputs = residuals(fitted, data.queries)
    return Answer(mean, np.stack([spread(output) for output in outputs]))


def prior_draws(variant: Variant, count: int = 10) -> dict[str, np.ndarray]:
    """Functions from a GP, an MLP prior and an RFN prior of length 1 on the grid of the GP task."""
    grid = np.linspace(PAPER.low, PAPER.high, PAPER.grid)
    generator = np.random.default_rng(0)
    rfn = RFN(1.0, variant.features, variant.readout)

    def values(nets: Net) -> np.ndarray:
        return np.asarray(jax.vmap(lambda net: net(grid[:, None]))(nets))

    return {
        "grid": grid,
        "GP": np.stack([draw_function(generator, grid, 1.0) for _ in range(count)]),
        "MLP": values(MLP(init=variant.init).draw(generator, count, 1)),
        "RFN": values(rfn.draw(generator, count, 1)),
    }
