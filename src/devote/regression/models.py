"""The models of the calibration experiments, for several splits of a dataset at once."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from devote.regression.priors import MLP, Net, Prior
from devote.regression.rows import Rows, pad, stack
from devote.regression.training import Targets, Training, Watch, evaluate, train

MEAN = MLP(width=100, depth=2)  # paper
MEAN_DECAY = 1e-4  # paper


class Labelled(NamedTuple):
    """Training rows of one split."""

    x: np.ndarray
    y: np.ndarray


class Pairs(NamedTuple):
    """Fixed priors g and the correctors that learned to cancel them, over (splits, members)."""

    prior: Net
    corrector: Net


def fit_mean(
    splits: Sequence[Labelled],
    training: Training,
    seeds: Sequence[int],
    architecture: MLP = MEAN,
    weight_decay: float = MEAN_DECAY,
    watch: Watch | None = None,
) -> Any:
    """The separate predictor of the mean: one network per split, from labels alone."""
    return fit_bootstrap(splits, 1, training, seeds, architecture, weight_decay, watch, False)


def fit_bootstrap(
    splits: Sequence[Labelled],
    members: int,
    training: Training,
    seeds: Sequence[int],
    architecture: MLP = MEAN,
    weight_decay: float = MEAN_DECAY,
    watch: Watch | None = None,
    resample: bool = True,
) -> Any:
    """Independent mean predictors; with `resample`, a Poisson(1) weight per member and row."""
    rows = stack([split.x for split in splits], training.batch_size)
    nets = _draw(architecture, seeds, 0, members, rows.x.shape[-1])
    shape = (len(splits), members, rows.length)
    value = jnp.broadcast_to(pad([s.y for s in splits], rows.length)[:, None], shape)
    weight = jnp.ones(shape)
    if resample:
        weight = jnp.asarray(_poisson(rows, members, seeds))
    learns = architecture.trained(nets)
    targets = Targets(value, weight)
    return train(nets, learns, rows, targets, seeds, training, weight_decay, watch)


def _poisson(rows: Rows, members: int, seeds: Sequence[int]) -> np.ndarray:
    """Weights of the real rows alone, so that a split's do not depend on the padding."""
    draws = [
        np.random.default_rng([seed, 2]).poisson(1.0, (count, members))
        for seed, count in zip(seeds, rows.real, strict=True)
    ]
    return pad(draws, rows.length).swapaxes(1, 2)


def fit_pairs(
    prior: Prior,
    inputs: Sequence[np.ndarray],
    members: int,
    training: Training,
    seeds: Sequence[int],
    watch: Watch | None = None,
) -> Pairs:
    """Correctors that minimise (c + g)^2 at the training inputs; labels are not used."""
    rows = stack(inputs, training.batch_size)
    priors = _draw(prior, seeds, 0, members, rows.x.shape[-1])
    correctors = _draw(prior, seeds, 1, members, rows.x.shape[-1])
    value = -jnp.asarray(np.stack(evaluate(priors, list(np.asarray(rows.x)), training.layout)))
    targets = Targets(value, jnp.ones_like(value))
    learns = prior.trained(correctors)
    fitted = train(correctors, learns, rows, targets, seeds, training, watch=watch)
    return Pairs(priors, fitted)


def residuals(pairs: Pairs, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """c + g of every member, `(members, rows)` for each split."""
    both = zip(evaluate(pairs.corrector, inputs), evaluate(pairs.prior, inputs), strict=True)
    return [corrector + prior for corrector, prior in both]


def _draw(prior: Prior, seeds: Sequence[int], purpose: int, members: int, inputs: int) -> Any:
    """Fresh networks over (splits, members); those of a split depend on its seed alone."""
    nets = [prior.draw(np.random.default_rng([seed, purpose]), members, inputs) for seed in seeds]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *nets)


def spread(outputs: Array | np.ndarray) -> np.ndarray:
    """Population standard deviation over members, the first axis."""
    return np.std(np.asarray(outputs, np.float64), axis=0)
