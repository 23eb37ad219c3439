"""Action values: a body and a head that says how numbers are read and regressed."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from devote.core.types import Box, Choice, Observation
from devote.nets.encoder import Encoder
from devote.nets.layers import Mlp
from devote.nets.own import Build, OwnNet, body


@dataclass(frozen=True)
class Scalar:
    """One output, squared error."""

    size: int = 1

    def decode(self, outputs: Float[Array, "*batch 1"]) -> Float[Array, "*batch"]:
        """The output itself."""
        return outputs[..., 0]

    def loss(
        self, outputs: Float[Array, "*batch 1"], target: Float[Array, "*batch"]
    ) -> Float[Array, "*batch"]:
        """Squared error."""
        return jnp.square(self.decode(outputs) - target)


@dataclass(frozen=True)
class TwoHot:
    """A categorical over bins spaced by symexp, regressed by cross-entropy with a two-hot code."""

    size: int = 255
    limit: float = 20.0

    def bins(self) -> np.ndarray:
        """Symmetric about an exact zero."""
        half = np.linspace(0, self.limit, self.size // 2 + 1)
        positive = np.sign(half) * np.expm1(np.abs(half))
        return np.concatenate([-positive[:0:-1], positive]).astype(np.float32)

    def decode(self, outputs: Float[Array, "*batch bins"]) -> Float[Array, "*batch"]:
        """The mean, summed in mirrored pairs so that a symmetric distribution gives exactly 0."""
        middle = self.size // 2
        probs = jax.nn.softmax(outputs)
        above, below = probs[..., middle + 1 :], probs[..., :middle][..., ::-1]
        return jnp.sum((above - below) * self.bins()[middle + 1 :], axis=-1)

    def encode(self, target: Float[Array, "*batch"]) -> Float[Array, "*batch bins"]:
        """Weights on the two bins around each target, whose mean is the target."""
        bins = self.bins()
        target = jnp.clip(target, bins[0], bins[-1])
        above = jnp.clip(jnp.searchsorted(bins, target), 1, self.size - 1)
        low, high = jnp.asarray(bins)[above - 1], jnp.asarray(bins)[above]
        share = ((target - low) / (high - low))[..., None]
        return jax.nn.one_hot(above - 1, self.size) * (1 - share) + (
            jax.nn.one_hot(above, self.size) * share
        )

    def loss(
        self, outputs: Float[Array, "*batch bins"], target: Float[Array, "*batch"]
    ) -> Float[Array, "*batch"]:
        """Cross-entropy against the two-hot code of the target."""
        return -jnp.sum(self.encode(target) * jax.nn.log_softmax(outputs), axis=-1)


Head = Scalar | TwoHot


class Critic(eqx.Module):
    """Q(s, a): reads a continuous action as input, a discrete one as a choice of output."""

    body: Mlp | OwnNet
    head: Head = eqx.field(static=True)
    action: Box | Choice = eqx.field(static=True)

    def __init__(
        self,
        key: PRNGKeyArray,
        encoder: Encoder,
        action: Box | Choice,
        hidden: tuple[int, ...] | Build,
        head: Head,
        action_gain: float = 1.0,
    ):
        read, written = (action.size, 1) if isinstance(action, Box) else (0, action.size)
        self.body = body(key, encoder, read, hidden, written * head.size, action_gain=action_gain)
        self.head = head
        self.action = action

    def outputs(
        self, obs: Observation, action: Float[Array, "*batch action"]
    ) -> Float[Array, "*batch out"]:
        """What the head reads, for one action."""
        if isinstance(self.action, Box):
            return self.body(obs, action)
        choices = self.body(obs).reshape(*action.shape, self.head.size)
        return jnp.einsum("...a,...ao->...o", action, choices)

    def __call__(
        self, obs: Observation, action: Float[Array, "*batch action"]
    ) -> Float[Array, "*batch"]:
        return self.head.decode(self.outputs(obs, action))

    def loss(
        self, obs: Observation, action: Float[Array, "*batch action"], target: Array
    ) -> Float[Array, "*batch"]:
        """The regression loss of the head, element by element."""
        return self.head.loss(self.outputs(obs, action), target)
