"""Temporal Uncertainty Difference learning: sections 3.2, 3.3 and 4 of the paper on one page.

A prior g(s, a, z) is fixed and random; a corrector c learns to cancel it where there is data, so
that c + g is near 0 there and free elsewhere. TUD propagates c + g by a value rb, TUD-OPT its
magnitude; the exploration actor maximises b / S + beta * mean_z(rb + |c + g|).
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from devote.core.types import Metrics, Observation, Transition
from devote.nets.ensemble import Ensemble

Propagation = Literal["magnitude", "signed"]
Reading = Literal["mean", "std"]


# Local novelty: a fixed random prior and the corrector that learns to cancel it (section 3.2).


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


# Propagation: how local novelty becomes a value (section 3.3).


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


# Optimism: two ways to read a bonus off one epistemic critic (section 4).


def mean_bonus(
    novelty_value: Float[Array, "index batch"], residual: Float[Array, "index batch"]
) -> Float[Array, "batch"]:
    """The mean over z of rb + |c + g|: DEVOTE's bonus (eq. 13)."""
    return jnp.mean(novelty_value + jnp.abs(residual), axis=0)


def spread_bonus(
    novelty_value: Float[Array, "index batch"], residual: Float[Array, "index batch"]
) -> Float[Array, "batch"]:
    """The standard deviation over z of rb + c + g: the bonus of an upper confidence bound."""
    # the square root of 0 has no slope, and all indices start with rb = 0
    return jnp.sqrt(jnp.var(novelty_value + residual, axis=0) + 1e-8)


def bonus_of(
    reading: Reading,
    novelty_value: Float[Array, "index batch"],
    residual: Float[Array, "index batch"],
) -> Float[Array, "batch"]:
    """The bonus by the name of its reading."""
    read = {"mean": mean_bonus, "std": spread_bonus}[reading]
    return read(novelty_value, residual)


# The scale of the task value beside the bonus (section 4).


class ValueScale(NamedTuple):
    """Moving averages of the 5th and 95th percentile of b."""

    low: Float[Array, ""]
    high: Float[Array, ""]

    @property
    def divisor(self) -> Float[Array, ""]:
        """S = max(1, h - l)."""
        return jnp.maximum(1.0, self.high - self.low)

    def follow(self, values: Array, rate: float = 0.01) -> "ValueScale":
        """One step towards the percentiles of new values."""
        low, high = jnp.percentile(values, jnp.array([5.0, 95.0]))
        return ValueScale(self.low + rate * (low - self.low), self.high + rate * (high - self.high))


def value_scale() -> ValueScale:
    """The scale before anything was seen."""
    return ValueScale(jnp.zeros(()), jnp.zeros(()))


# Plasticity (section 4): soft resets are `core.trees.interpolate` towards fresh networks.


def dormant_fraction(
    activations: list[Float[Array, "batch width"]], threshold: float = 0.05
) -> Float[Array, ""]:
    """Share of hidden units, over all layers, whose mean |activation| is at most `threshold` times
    the mean of their layer (paper, appendix D.4)."""
    dormant, units = jnp.zeros(()), 0
    for layer in activations:
        strength = jnp.abs(layer).mean(axis=0)
        dormant += jnp.sum(strength <= threshold * strength.mean())
        units += strength.size
    return dormant / units
