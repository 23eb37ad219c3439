"""Temporal Uncertainty Difference learning: how local novelty becomes a value."""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from devote.core.types import Metrics, Observation, Transition
from devote.epistemic.novelty import residual
from devote.nets.ensemble import Ensemble

Propagation = Literal["magnitude", "signed"]


def passed_on(
    corrector: Ensemble,
    prior: Ensemble,
    obs: Observation,
    action: Array,
    propagation: Propagation,
) -> Float[Array, "index batch"]:
    """What a state-action hands to its predecessor: |c + g| (TUD-OPT) or c + g (TUD)."""
    signed = residual(corrector, prior, obs, action)
    return jnp.abs(signed) if propagation == "magnitude" else signed


def novelty_value_loss(
    novelty_value: Ensemble,
    batch: Transition,
    target: Float[Array, "index batch"],
    mask: Float[Array, "index batch"],
) -> tuple[Array, Metrics]:
    """Regress rb(s, a, z) on gamma (|c + g| + rb)(s', a', z), both at targets (eq. 8, TUD-OPT)."""
    value = novelty_value(batch.obs, batch.action)
    loss = jnp.mean(mask * (value - jax.lax.stop_gradient(target)) ** 2)
    return loss, {"train/novelty_value_loss": loss, "epistemic/rb_mean": value.mean()}
