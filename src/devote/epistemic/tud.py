"""Temporal Uncertainty Difference learning: sections 3.2, 3.3 and 4 of the paper on one page.

A prior g(s, a, z) is fixed and random; a corrector c learns to cancel it where there is data, so
that c + g is near 0 there and free elsewhere. TUD propagates c + g by a value rb, TUD-OPT its
magnitude; the exploration actor maximises b / S + beta * mean_z(rb + |c + g|).
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

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
    residual: Float[Array, "index batch"],
    novelty_value: Float[Array, "index batch"],
    propagation: Propagation,
    unknown_value: float = 0.0,
) -> Float[Array, "index batch"]:
    """What a state-action hands to its predecessor: |c + g| + rb (TUD-OPT) or c + g + rb (TUD).

    With a value V of the unknown (ours), |c + g| + (1 - u) rb + u V with u = min(1, |c + g|): no
    data holds rb up where nothing is known, so there V takes its place.
    """
    if propagation == "signed":
        return residual + novelty_value
    novelty = jnp.abs(residual)
    if unknown_value == 0:
        return novelty + novelty_value
    unknown = jnp.minimum(1.0, novelty)
    return novelty + (1 - unknown) * novelty_value + unknown * unknown_value


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


def bonus_of(
    reading: Reading,
    residual: Float[Array, "index batch"],
    novelty_value: Float[Array, "index batch"],
    unknown_value: float = 0.0,
) -> Float[Array, "batch"]:
    """The mean over z of |c + g| + rb (DEVOTE, eq. 13), or the standard deviation over z of
    c + g + rb (an upper confidence bound)."""
    if reading == "mean":
        return passed_on(residual, novelty_value, "magnitude", unknown_value).mean(axis=0)
    # the square root of 0 has no slope, and all indices start with rb = 0
    return jnp.sqrt(jnp.var(residual + novelty_value, axis=0) + 1e-8)


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


def dormancy(activations: list[Float[Array, "batch width"]]) -> Metrics:
    """The share of dormant units as a metric; none for networks whose layers are not known."""
    return {"plasticity/dormant_frac": dormant_fraction(activations)} if activations else {}


def effective_rank(features: Float[Array, "batch width"], share: float = 0.99) -> Int[Array, ""]:
    """How many of the largest singular values hold `share` of their sum (srank)."""
    values = jnp.linalg.svd(features, compute_uv=False)
    return 1 + jnp.sum(jnp.cumsum(values) < share * values.sum())
