"""A Randomized Fourier Network on plain arrays, with a gradient as cheap as its products."""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from devote.nets.functions import cos

Readout = Literal["ones", "normal", "uniform"]


class Waves(eqx.Module):
    """sqrt(2/m) w' cos(Omega' x + b), plus a constant where the readout has one."""

    frequencies: Float[Array, "inputs features"]
    phases: Float[Array, "features"]
    readout: Float[Array, "features"]
    bias: Float[Array, ""] | None

    def __call__(self, x: Float[Array, "rows inputs"]) -> Float[Array, "rows"]:
        value = _waves(x, self.frequencies, self.phases, self.readout)
        return value if self.bias is None else value + self.bias


def waves(
    generator: np.random.Generator,
    members: int,
    inputs: int,
    features: int,
    length_scale: float,
    readout: Readout,
) -> Waves:
    """Fresh networks along a leading member axis.

    Drawn by NumPy: compiling JAX's generator for every new shape took longer than short fits.
    """
    shape = (members, features)
    frequencies = generator.normal(size=(members, inputs, features)) / length_scale
    phases = generator.uniform(0.0, 2 * np.pi, shape)
    bias = None
    if readout == "ones":
        weights = np.ones(shape)
    elif readout == "normal":
        weights = generator.normal(size=shape)
    else:
        # A linear layer of m inputs and one output, initialised by fan-out: weights in +-1.
        weights = generator.uniform(-1.0, 1.0, shape)
        bias = generator.uniform(-1.0, 1.0, members) * features**-0.5
    return Waves(
        jnp.asarray(frequencies, jnp.float32),
        jnp.asarray(phases, jnp.float32),
        jnp.asarray(weights, jnp.float32),
        None if bias is None else jnp.asarray(bias, jnp.float32),
    )


@jax.custom_vjp
def _waves(x: Array, frequencies: Array, phases: Array, readout: Array) -> Array:
    return np.float32(np.sqrt(2 / readout.size)) * (cos(x @ frequencies + phases) @ readout)


def _waves_forward(
    x: Array, frequencies: Array, phases: Array, readout: Array
) -> tuple[Array, tuple[Array, ...]]:
    angle = x @ frequencies + phases
    cosine, sine = cos(angle), cos(angle - np.float32(np.pi / 2))
    scale = np.float32(np.sqrt(2 / readout.size))
    return scale * (cosine @ readout), (x, frequencies, readout, cosine, sine)


def _waves_backward(kept: tuple[Array, ...], out: Array) -> tuple[Array, ...]:
    # Automatic differentiation would form the gradient of every angle; scaling the rows of x and
    # the columns of the result instead leaves two products and no pass over rows times features.
    x, frequencies, readout, cosine, sine = kept
    out = np.float32(np.sqrt(2 / readout.size)) * out
    with_one = jnp.concatenate([x, jnp.ones_like(x[:, :1])], axis=1)
    entry = -((with_one * out[:, None]).T @ sine) * readout
    inputs = -((out[:, None] * sine) * readout) @ frequencies.T
    return inputs, entry[:-1], entry[-1], out @ cosine


_waves.defvjp(_waves_forward, _waves_backward)
