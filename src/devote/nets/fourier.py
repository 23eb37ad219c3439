"""Randomized Fourier Networks (paper, section 3.1)."""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from devote.core.types import Index, Observation
from devote.nets.encoder import Encoder
from devote.nets.functions import cos
from devote.nets.layers import Entry, Lookup, Weight

Readout = Literal["ones", "normal"]


class Fourier(eqx.Module):
    """sqrt(2/m) w' cos(Omega x + b), optionally squashed: as m grows, a draw from a GP."""

    phase: Entry
    """Omega and b: the frequencies are the weights of a first layer, the phases its bias."""
    readout: Float[Array, "features"]
    squash: bool = eqx.field(static=True)

    def features(self, obs: Observation, action: Array | None) -> Float[Array, "*batch features"]:
        """Random Fourier features of an RBF kernel of amplitude one."""
        return np.sqrt(2 / self.readout.shape[-1]) * cos(self.phase(obs, action))

    def __call__(self, obs: Observation, action: Array | None = None) -> Float[Array, "*batch"]:
        value = self.features(obs, action) @ self.readout
        return jnp.tanh(value) if self.squash else value


def fourier(
    key: PRNGKeyArray,
    encoder: Encoder,
    action_size: int,
    features: int,
    length_scale: float,
    readout: Readout = "ones",
    squash: bool = True,
) -> Fourier:
    """A fresh network; `action_size` 0 makes it a function of the observation alone."""
    obs_key, action_key, phase_key, readout_key = jax.random.split(key, 4)
    rows = jax.random.normal(obs_key, (encoder.size, features)) / length_scale
    columns = jax.random.normal(action_key, (action_size, features)) / length_scale
    phase = Entry(
        obs=Lookup(rows) if isinstance(encoder.space, Index) else Weight(rows),
        action=columns if action_size else None,
        bias=jax.random.uniform(phase_key, (features,), maxval=2 * np.pi),
        encoder=encoder,
        action_gain=1.0,
    )
    weights = jnp.ones(features)
    if readout == "normal":
        weights = jax.random.normal(readout_key, (features,))
    return Fourier(phase, weights, squash)


class FourierNet(eqx.Module):
    """The same function of plain vectors, not squashed, with a hand-written gradient for fast fits
    on CPUs; only the authors' readout has a bias."""

    frequencies: Float[Array, "inputs features"]
    phases: Float[Array, "features"]
    readout: Float[Array, "features"]
    bias: Float[Array, ""] | None

    def __call__(self, x: Float[Array, "rows inputs"]) -> Float[Array, "rows"]:
        value = _fourier(x, self.frequencies, self.phases, self.readout)
        return value if self.bias is None else value + self.bias


@jax.custom_vjp
def _fourier(x: Array, frequencies: Array, phases: Array, readout: Array) -> Array:
    return np.float32(np.sqrt(2 / readout.size)) * (cos(x @ frequencies + phases) @ readout)


def _fourier_forward(
    x: Array, frequencies: Array, phases: Array, readout: Array
) -> tuple[Array, tuple[Array, ...]]:
    angle = x @ frequencies + phases
    cosine, sine = cos(angle), cos(angle - np.float32(np.pi / 2))
    scale = np.float32(np.sqrt(2 / readout.size))
    return scale * (cosine @ readout), (x, frequencies, readout, cosine, sine)


def _fourier_backward(kept: tuple[Array, ...], out: Array) -> tuple[Array, ...]:
    # Automatic differentiation would form the gradient of every angle; scaling the rows of x and
    # the columns of the result instead leaves two products and no pass over rows times features.
    x, frequencies, readout, cosine, sine = kept
    out = np.float32(np.sqrt(2 / readout.size)) * out
    with_one = jnp.concatenate([x, jnp.ones_like(x[:, :1])], axis=1)
    entry = -((with_one * out[:, None]).T @ sine) * readout
    inputs = -((out[:, None] * sine) * readout) @ frequencies.T
    return inputs, entry[:-1], entry[-1], out @ cosine


_fourier.defvjp(_fourier_forward, _fourier_backward)
