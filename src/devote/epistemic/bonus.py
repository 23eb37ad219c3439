"""Two ways to read a bonus off one epistemic critic."""

from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Float

Reading = Literal["mean", "std"]


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
