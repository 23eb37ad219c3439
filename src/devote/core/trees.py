"""Arithmetic on whole pytrees."""

from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

T = TypeVar("T")


def interpolate(old: T, new: T, rate: float | Array) -> T:
    """(1 - rate) old + rate new, leaf by leaf: a Polyak step, or a soft reset (eq. 11)."""
    return jax.tree.map(lambda a, b: (1 - rate) * a + rate * b, old, new)


def where(condition: Array, chosen: T, otherwise: T) -> T:
    """`chosen` where the condition holds along the leading axes, `otherwise` elsewhere."""

    def pick(a: Array, b: Array) -> Array:
        return jnp.where(
            condition.reshape(condition.shape + (1,) * (a.ndim - condition.ndim)), a, b
        )

    return jax.tree.map(pick, chosen, otherwise)
