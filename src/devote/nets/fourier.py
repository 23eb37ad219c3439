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
