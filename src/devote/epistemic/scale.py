"""S: a robust running estimate of the spread of the task value."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float


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
