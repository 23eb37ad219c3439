"""A random ReLU network: the prior of RND, of Thompson sampling and of the ablation."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from devote.core import Observation
from devote.nets.dense import Mlp
from devote.nets.encoder import Encoder


class RandomMlp(eqx.Module):
    """ReLU layers with RMS norm and a squashed scalar output."""

    body: Mlp

    def __init__(
        self, key: PRNGKeyArray, encoder: Encoder, action_size: int, hidden: tuple[int, ...]
    ):
        self.body = Mlp(key, encoder, action_size, hidden, 1, out_gain=1.0, relu=True)

    def __call__(self, obs: Observation, action: Array | None = None) -> Float[Array, "*batch"]:
        return jnp.tanh(self.body(obs, action)[..., 0])
