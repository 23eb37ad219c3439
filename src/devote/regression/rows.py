"""Tables of different lengths side by side: padded, with the number of real rows."""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class Rows(NamedTuple):
    """The inputs of several splits of a dataset, and how many rows of each are real."""

    x: Float[Array, "splits rows inputs"]
    real: tuple[int, ...]

    @property
    def length(self) -> int:
        """How many rows there are with the padding."""
        return self.x.shape[1]


def padded_length(longest: int, batch_size: int) -> int:
    """Whole batches; below one batch a power of two, so that few programs are compiled."""
    if longest >= batch_size:
        return -(-longest // batch_size) * batch_size
    return min(batch_size, 1 << max(longest - 1, 1).bit_length())


def pad(values: Sequence[np.ndarray], length: int) -> Float[np.ndarray, "splits length ..."]:
    """Arrays stacked along a new first axis, zeros after the last row of each."""
    stacked = np.zeros((len(values), length, *values[0].shape[1:]), np.float32)
    for row, value in zip(stacked, values, strict=True):
        row[: len(value)] = value
    return stacked


def stack(inputs: Sequence[np.ndarray], batch_size: int) -> Rows:
    """The inputs of all splits as one array."""
    length = padded_length(max(len(x) for x in inputs), batch_size)
    return Rows(jnp.asarray(pad(inputs, length)), tuple(len(x) for x in inputs))
