"""The models of the calibration experiments, for several splits of a dataset at once."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from devote.regression.priors import MLP, Net, Prior
from devote.regression.rows import Rows, pad, stack
from devote.regression.training import Progress, Targets, Training, evaluate, train

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
    progress: Progress | None = None,
) -> Any:
    """The separate predictor of the mean: one network per split, from labels alone."""
    return fit_bootstrap(splits, 1, training, seeds, architecture, weight_decay, progress, False)


def fit_bootstrap(
    splits: Sequence[Labelled],
    members: int,
    training: Training,
    seeds: Sequence[int],
    architecture: MLP = MEAN,
    weight_decay: float = MEAN_DECAY,
    progress: Progress | None = None,
    resample: bool = True,
) -> Any:
    """Independent mean predictors; with `resample`, a Poisson(1) weight per member and row."""
    rows = stack([split.x for split in splits], training.batch_size)
    net_keys, weight_keys, batch_keys = _keys(seeds, 3)
    nets = _draw(architecture, net_keys, members, rows)
    shape = (len(splits), members, rows.batch_limit)
    value = jnp.broadcast_to(pad([s.y for s in splits], rows.batch_limit)[:, None], shape)
    weight = jnp.ones(shape)
    if resample:
        draw = lambda key: jax.random.poisson(key, 1.0, shape[1:])  # noqa: E731
        weight = jax.vmap(draw)(weight_keys).astype(jnp.float32)
    learns = architecture.trained(nets)
    targets = Targets(value, weight)
    return train(nets, learns, rows, targets, batch_keys, training, weight_decay, progress)


def fit_pairs(
    prior: Prior,
    inputs: Sequence[np.ndarray],
    members: int,
    training: Training,
    seeds: Sequence[int],
    progress: Progress | None = None,
) -> Pairs:
    """Correctors that minimise (c + g)^2 at the training inputs; labels are not used."""
    rows = stack(inputs, training.batch_size)
    prior_keys, corrector_keys, batch_keys = _keys(seeds, 3)
    priors = _draw(prior, prior_keys, members, rows)
    correctors = _draw(prior, corrector_keys, members, rows)
    value = -jnp.asarray(np.stack(evaluate(priors, list(np.asarray(rows.x)), training.layout)))
    targets = Targets(value, jnp.ones_like(value))
    learns = prior.trained(correctors)  # type: ignore[arg-type]
    fitted = train(correctors, learns, rows, targets, batch_keys, training, progress=progress)
    return Pairs(priors, fitted)


def residuals(pairs: Pairs, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """c + g of every member, `(members, rows)` for each split."""
    both = zip(evaluate(pairs.corrector, inputs), evaluate(pairs.prior, inputs), strict=True)
    return [corrector + prior for corrector, prior in both]


def _keys(seeds: Sequence[int], purposes: int) -> list[PRNGKeyArray]:
    """For each purpose one key per split, which depends on the seed of that split alone."""
    keys = jnp.stack([jax.random.key(seed) for seed in seeds])
    split = jax.vmap(lambda key: jax.random.split(key, purposes))(keys)
    return [split[:, purpose] for purpose in range(purposes)]


def _draw(prior: Prior, keys: PRNGKeyArray, members: int, rows: Rows) -> Any:
    """Fresh networks over (splits, members)."""
    inputs = rows.x.shape[-1]

    def member(key: PRNGKeyArray) -> Net:
        return prior.draw(key, inputs)

    def split(key: PRNGKeyArray) -> Any:
        return jax.vmap(member)(jax.random.split(key, members))

    return jax.jit(jax.vmap(split))(keys)


def spread(outputs: Array | np.ndarray) -> np.ndarray:
    """Population standard deviation over members, the first axis."""
    return np.std(np.asarray(outputs, np.float64), axis=0)
