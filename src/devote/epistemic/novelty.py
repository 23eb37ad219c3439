"""Local novelty: a fixed random prior and the corrector that learns to cancel it."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from devote.core.types import Metrics, Observation, Transition
from devote.nets.ensemble import Ensemble


def residual(
    corrector: Ensemble, prior: Ensemble, obs: Observation, action: Array
) -> Float[Array, "index batch"]:
    """c + g: near zero where there was data, free elsewhere."""
    return corrector(obs, action) + prior(obs, action)


def novelty(
    corrector: Ensemble, prior: Ensemble, obs: Observation, action: Array
) -> Float[Array, "index batch"]:
    """|c + g|, the local novelty signal (paper, section 4)."""
    return jnp.abs(residual(corrector, prior, obs, action))


def bootstrap_mask(
    key: PRNGKeyArray, num_indices: int, batch_size: int, probability: float
) -> Float[Array, "index batch"]:
    """Which index learns from which transition, drawn anew for every update."""
    return jax.random.bernoulli(key, probability, (num_indices, batch_size)).astype(jnp.float32)


def corrector_loss(
    corrector: Ensemble, prior: Ensemble, batch: Transition, mask: Float[Array, "index batch"]
) -> tuple[Array, Metrics]:
    """Cancel the prior where there is data: the mean of (c + g) squared (eq. 7)."""
    error = residual(corrector, prior, batch.obs, batch.action)
    return jnp.mean(mask * error**2), {"explore/novelty": jnp.abs(error).mean()}
