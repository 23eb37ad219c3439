"""Arithmetic on whole pytrees."""

from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

T = TypeVar("T")


def interpolate(old: T, new: T, rate: float | Array) -> T:
    """(1 - rate) old + rate new for every leaf: a Polyak step, or a soft reset (eq. 11)."""
    return jax.tree.map(lambda a, b: (1 - rate) * a + rate * b, old, new)


def where(condition: Array, chosen: T, otherwise: T) -> T:
    """`jnp.where` for every leaf; the condition covers the leading axes."""

    def pick(a: Array, b: Array) -> Array:
        shape = condition.shape + (1,) * (a.ndim - condition.ndim)
        return jnp.where(condition.reshape(shape), a, b)

    return jax.tree.map(pick, chosen, otherwise)
