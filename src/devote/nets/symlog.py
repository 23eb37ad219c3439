"""A logarithm for both signs, near the identity around 0 (DreamerV3)."""

import jax.numpy as jnp
from jaxtyping import Array


def symlog(x: Array) -> Array:
    """sign(x) log(1 + |x|)."""
    return jnp.sign(x) * jnp.log1p(jnp.abs(x))


def symexp(x: Array) -> Array:
    """The inverse of `symlog`."""
    return jnp.sign(x) * jnp.expm1(jnp.abs(x))
