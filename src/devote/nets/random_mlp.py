"""Random ReLU networks: the priors of RND, of Thompson sampling and of the ablation."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from devote.core.types import Observation
from devote.nets.encoder import Encoder
from devote.nets.layers import Mlp


def random_mlp(
    key: PRNGKeyArray,
    encoder: Encoder,
    action_size: int,
    hidden: tuple[int, ...],
    size_out: int,
    biased: bool,
) -> Mlp:
    """A fresh ReLU network; with zero biases RMS norm leaves it the direction of its input."""
    net = Mlp(key, encoder, action_size, hidden, size_out, out_gain=1.0, relu=True)
    if not biased:
        return net
    # as strong as an input of length one, so that length is seen beside direction
    strength = (encoder.size + action_size) ** -0.5
    bias = strength * jax.random.normal(jax.random.fold_in(key, 1), net.first.bias.shape)
    return eqx.tree_at(lambda n: n.first.bias, net, bias)


class RandomMlp(eqx.Module):
    """ReLU layers with RMS norm and a squashed scalar output."""

    body: Mlp

    def __init__(
        self,
        key: PRNGKeyArray,
        encoder: Encoder,
        action_size: int,
        hidden: tuple[int, ...],
        biased: bool = False,
    ):
        self.body = random_mlp(key, encoder, action_size, hidden, 1, biased)

    def __call__(self, obs: Observation, action: Array | None = None) -> Float[Array, "*batch"]:
        return jnp.tanh(self.body(obs, action)[..., 0])
