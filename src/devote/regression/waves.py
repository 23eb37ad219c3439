"""A Randomized Fourier Network on plain arrays, with a gradient as cheap as its products."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from devote.core import Vector
from devote.nets.cosine import cos
from devote.nets.encoder import Encoder
from devote.nets.fourier import fourier


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
    key: PRNGKeyArray, inputs: int, features: int, length_scale: float, readout: str
) -> Waves:
    """A fresh network: the library's RFN, or one with the uniform readout of the authors' code."""
    base_key, readout_key, bias_key = jax.random.split(key, 3)
    space = Encoder(Vector(low=(0.0,) * inputs, high=(1.0,) * inputs))
    base = fourier(
        base_key,
        space,
        0,
        features,
        length_scale,
        "normal" if readout == "normal" else "ones",
        squash=False,
    )
    net = Waves(base.phase.obs.matrix, base.phase.bias, base.readout, None)  # type: ignore[union-attr]
    if readout != "uniform":
        return net
    # A linear layer of m inputs and one output, initialised by fan-out: weights in +-1.
    weights = jax.random.uniform(readout_key, (features,), minval=-1.0)
    bias = jax.random.uniform(bias_key, (), minval=-1.0) * features**-0.5
    return Waves(net.frequencies, net.phases, weights, bias)


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
