"""Novelty by distilling a random network (Burda et al., 2018): vector outputs, squared error."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from devote.core.types import Index, Metrics, Observation, Vector
from devote.epistemic.moments import Moments, moments
from devote.nets.dense import Mlp


def start_seen(space: Vector | Index) -> Moments:
    """Moments of observations before there were any; a one-hot observation needs none."""
    return moments(() if isinstance(space, Index) else (space.size,))


def standardised(
    seen: Moments, space: Vector | Index, obs: Observation, clip: float
) -> Observation:
    """Observations of zero mean and unit variance, clipped; a one-hot one is left alone."""
    if isinstance(space, Index):
        return obs
    return jnp.clip((obs - seen.mean) / seen.std, -clip, clip)


def distillation_error(predictor: Mlp, prior: Mlp, seen: Observation) -> Float[Array, "batch"]:
    """The mean over outputs of the predictor's squared error: how new observations look."""
    return jnp.mean((predictor(seen) - prior(seen)) ** 2, axis=-1)


def distillation_loss(predictor: Mlp, prior: Mlp, seen: Observation) -> tuple[Array, Metrics]:
    """Predict the random network where there is data."""
    loss = distillation_error(predictor, prior, seen).mean()
    return loss, {"explore/novelty": loss}
