"""Mean and variance of everything seen so far."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float


class Moments(NamedTuple):
    """Running mean and variance, batch after batch, each value counted once."""

    number: Float[Array, ""]
    mean: Float[Array, "*shape"]
    variance: Float[Array, "*shape"]

    @property
    def std(self) -> Float[Array, "*shape"]:
        """The standard deviation, never 0."""
        return jnp.sqrt(self.variance + 1e-8)

    def follow(self, values: Float[Array, "batch *shape"]) -> "Moments":
        """The moments with a batch of values joined to them."""
        size = values.shape[0]
        number = self.number + size
        share = size / number
        step = values.mean(axis=0) - self.mean
        within = (1 - share) * self.variance + share * values.var(axis=0)
        return Moments(number, self.mean + share * step, within + share * (1 - share) * step**2)


def moments(shape: tuple[int, ...] = ()) -> Moments:
    """The moments before anything was seen."""
    return Moments(jnp.zeros(()), jnp.zeros(shape), jnp.ones(shape))
