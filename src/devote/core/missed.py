"""Steps of Adam and Polyak averaging without a gradient, many at once.

A row of a lookup table that no batch names has a gradient of zero, but it does not rest: its
moments decay, what is left of them moves it, weight decay shrinks it, and its target follows. All
of that is a function of where the row was and of how many steps it missed. With moments m and v
after update t, the k-th missed step of Adam is (the learning rate left out)

    a_k = w_k u_k m / (sqrt(v) + eps u_k),   w_k = beta1^k / (1 - beta1^(t + k)),
                                             u_k = sqrt((1 - beta2^(t + k)) / beta2^k),

and parameters and target are weighted sums of these steps. The weights and all w and u are numbers
of a row, the same for every column. Only eps ties them to the columns, and a sum of c_k a_k is

    A m / (sqrt(v) + eps B / A),   A = sum c_k w_k u_k,   B = sum c_k w_k u_k^2,

which is exact where eps is small beside sqrt(v), as it is or the step would not be worth taking.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from devote.core.learning import ADAM_BETAS, ADAM_EPS, Optimiser

LONGEST = 160
"""Later steps have less than 1e-7 of the first moment left in them."""
NUMBER = np.arange(1, LONGEST + 1)

Columns = Float[Array, "*members rows columns"]


class Missed(NamedTuple):
    """The steps that rows missed, each row its own."""

    steps: Float[Array, "rows"]
    """How many."""
    size: Float[Array, "rows number"]
    """w u of each of them; 0 after the last."""
    width: Float[Array, "rows number"]
    """u of each of them."""


class Row(NamedTuple):
    """A learned row of a lookup table, and all that belongs to it."""

    net: Columns
    first: Columns
    """Adam's first moment."""
    second: Columns
    target: Columns | None


def missed(since: Int[Array, "rows"], now: Int[Array, ""]) -> Missed:
    """What rows missed between updates."""
    steps = (now - since).astype(jnp.zeros(()).dtype)
    beta1, beta2 = ADAM_BETAS
    width = jnp.sqrt(_correction(since, beta2)) * beta2 ** (-NUMBER / 2)
    size = beta1**NUMBER / _correction(since, beta1) * width
    return Missed(steps, jnp.where(steps[:, None] >= NUMBER, size, 0.0), width)


def _correction(since: Int[Array, "rows"], beta: float) -> Float[Array, "rows number"]:
    """1 - beta^(since + number), without a power per element and without loss of digits."""
    left = since * np.log(beta)
    return -jnp.expm1(left)[:, None] + jnp.exp(left)[:, None] * (1 - beta**NUMBER)


def caught_up(row: Row, gone: Missed, optimiser: Optimiser, rate: float) -> Row:
    """Rows after the steps that they missed, as the dense optimiser and Polyak step make them."""
    beta1, beta2 = ADAM_BETAS
    n = gone.steps
    shrink = float(np.log1p(-optimiser.rate * optimiser.weight_decay))
    ahead = n[:, None] - NUMBER  # steps after each of them
    moved = optimiser.rate * _walked(row, gone, jnp.exp(jnp.maximum(ahead, 0.0) * shrink))
    target = row.target
    if target is not None:
        keep = _log(1 - rate)
        passed_on = optimiser.rate * _walked(row, gone, rate * _mixed(ahead + 1, shrink, keep))
        start = rate * np.exp(shrink) * _mixed(n, shrink, keep)
        target = _times(jnp.exp(n * keep), target) + _times(start, row.net) - passed_on
    return Row(
        _times(jnp.exp(n * shrink), row.net) - moved,
        _times(jnp.exp(n * np.log(beta1)), row.first),
        _times(jnp.exp(n * np.log(beta2)), row.second),
        target,
    )


def _walked(row: Row, gone: Missed, weight: Float[Array, "rows number"]) -> Columns:
    """The weighted sum of Adam's missed steps."""
    total = jnp.sum(weight * gone.size, axis=-1)
    wide = jnp.sum(weight * gone.size * gone.width, axis=-1)
    width = jnp.where(total > 0, wide / jnp.where(total > 0, total, 1.0), 1.0)
    return _times(total, row.first) / (jnp.sqrt(row.second) + ADAM_EPS * width[:, None])


def _mixed(steps: Array, shrink: float, keep: float) -> Array:
    """The sum of exp(shrink i + keep j) over i + j = steps - 1; 0 for no steps."""
    steps = jnp.maximum(steps, 0.0)
    more, less = max(shrink, keep), min(shrink, keep)
    if more == less:
        return steps * jnp.exp((steps - 1) * more)
    return jnp.exp(steps * more) * -jnp.expm1(steps * (less - more)) / (np.exp(more) - np.exp(less))


def _log(share: float) -> float:
    """The logarithm, finite also for a target that is its network."""
    return float(np.log(max(share, 1e-30)))


def _times(factor: Float[Array, "rows"], columns: Columns) -> Columns:
    return factor[:, None] * columns
