"""A Dreamer-style world model: a recurrent state-space model between an encoder and three heads.

A sequence of steps gives, for every successor, the state it led to. The model is fitted to predict
successors, rewards and ends given the first observation, which is therefore not scored itself.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from devote.core.errors import UserError
from devote.core.settings import Count, Few, NonNegative, Share
from devote.core.types import Index, Metrics, Observation, Transition
from devote.nets.critic import TwoHot
from devote.nets.encoder import Encoder
from devote.nets.functions import symexp, symlog
from devote.nets.layers import Entry, RmsNorm, entry
from devote.nets.rssm import Head, Latent, Path, Rssm, Stack, divergence

REWARD = TwoHot()
T = TypeVar("T")


@dataclass(frozen=True)
class WorldModelSettings:
    """The world model; defaults are the authors' code, the paper is silent."""

    model_width: Count = 192
    """Width of every hidden layer, and size of the embedding of an observation."""
    model_depth: Few = 3
    """Hidden layers of encoder and decoder."""
    memory_size: Count = 1536
    """Deterministic part of the latent state."""
    memory_blocks: Count = 8
    """Blocks of the recurrent weights; 1 for an ordinary recurrent unit."""
    code_groups: Count = 32
    """Categorical variables of the stochastic part of the latent state."""
    code_classes: Count = 12
    """Classes of each of these variables."""
    uniform_mix: Share = 0.01
    """Share of the uniform distribution in prior and posterior."""
    free_nats: NonNegative = 1.0
    """Divergence below which neither prior nor posterior is pushed."""
    dynamics_weight: NonNegative = 1.0
    """Weight of the divergence that teaches the prior."""
    representation_weight: NonNegative = 0.1
    """Weight of the divergence that restrains the posterior."""

    def __post_init__(self) -> None:
        if self.memory_blocks < 1 or self.memory_size % self.memory_blocks:
            raise UserError(
                f"memory_blocks that divide the memory_size {self.memory_size}",
                self.memory_blocks,
                "change --memory-blocks or --memory-size",
            )


class Embedding(eqx.Module):
    """What an observation looks like to the model."""

    first: Entry
    norm: RmsNorm
    stack: Stack | None

    def __init__(self, key: PRNGKeyArray, encoder: Encoder, widths: tuple[int, ...]):
        first_key, stack_key = jax.random.split(key)
        self.first = entry(first_key, encoder, 0, widths[0])
        self.norm = RmsNorm(jnp.ones(widths[0]))
        self.stack = Stack(stack_key, widths[0], widths[1:]) if widths[1:] else None

    def __call__(self, obs: Observation) -> Float[Array, "*batch embedding"]:
        x = jax.nn.silu(self.norm(self.first(obs, None)))
        return x if self.stack is None else self.stack(x)


class Labels(NamedTuple):
    """What the model makes of each step of a batch, for others to predict."""

    embedding: Float[Array, "batch embedding"]
    """Of the observation."""
    code: Float[Array, "batch groups classes"]
    """The stochastic part of the state that the step led to."""
    metrics: Metrics


class WorldModel(eqx.Module):
    """Encoder, latent dynamics, and heads for observation, reward and continuation."""

    encoder: Embedding
    rssm: Rssm
    decoder: Head
    reward: Head
    continuation: Head

    def __init__(
        self, key: PRNGKeyArray, settings: WorldModelSettings, encoder: Encoder, action_size: int
    ):
        s = settings
        keys = jax.random.split(key, 5)
        layers = (s.model_width,) * s.model_depth
        features = s.memory_size + s.code_groups * s.code_classes
        self.encoder = Embedding(keys[0], replace(encoder, squashed=True), layers)
        self.rssm = Rssm(
            keys[1],
            memory=s.memory_size,
            groups=s.code_groups,
            classes=s.code_classes,
            width=s.model_width,
            blocks=s.memory_blocks,
            uniform=s.uniform_mix,
            action=action_size,
            embedding=s.model_width,
        )
        self.decoder = Head(keys[2], features, layers, encoder.space.size, gain=1.0)
        self.reward = Head(keys[3], features, layers[:1], REWARD.size)
        self.continuation = Head(keys[4], features, layers[:1], 1)

    @property
    def sees_index(self) -> bool:
        """Whether observations are one integer."""
        return isinstance(self.encoder.first.encoder.space, Index)

    def start(self, obs: Observation, key: PRNGKeyArray) -> Latent:
        """The state at a first observation."""
        return self.rssm.start(self.encoder(obs), key)

    def imagine(
        self, state: Latent, action: Float[Array, "time batch action"], key: PRNGKeyArray
    ) -> Latent:
        """Open-loop prediction of the states that actions lead to."""
        return self.rssm.imagine(state, action, key)

    def read(self, state: Latent) -> tuple[Array, Array, Array]:
        """Observation (probabilities for an index), reward and continuation of a state."""
        features = state.features
        seen = self.decoder(features)
        obs = jax.nn.softmax(seen) if self.sees_index else symexp(seen)
        going_on = jax.nn.sigmoid(self.continuation(features)[..., 0])
        return obs, REWARD.decode(self.reward(features)), going_on

    def surprise(
        self, state: Latent, obs: Observation, reward: Array, discount: Array
    ) -> dict[str, Float[Array, "*batch"]]:
        """Minus log-likelihoods, up to constants, of what a state led to."""
        features = state.features
        seen, going_on = self.decoder(features), self.continuation(features)[..., 0]
        if self.sees_index:
            decoding = optax.softmax_cross_entropy_with_integer_labels(seen, obs)
        else:
            decoding = jnp.sum(jnp.square(seen - symlog(obs)), axis=-1)
        return {
            "decoder": decoding,
            "reward": REWARD.loss(self.reward(features), reward),
            "continuation": optax.sigmoid_binary_cross_entropy(going_on, discount),
        }


def in_time(batch: T, length: int) -> T:
    """The runs of a batch side by side: every leaf as (time, run, ...)."""
    return jax.tree.map(lambda x: x.reshape(-1, length, *x.shape[1:]).swapaxes(0, 1), batch)


def in_a_row(x: Array) -> Array:
    """The inverse of `in_time` for one array."""
    return x.swapaxes(0, 1).reshape(-1, *x.shape[2:])


def divergences(path: Path, free_nats: float) -> dict[str, Float[Array, "time batch"]]:
    """KL balancing: one term moves only the prior, the other only the posterior; both rest when
    the divergence is below the free nats."""
    fixed_prior, fixed_posterior = jax.lax.stop_gradient((path.prior, path.posterior))
    return {
        "dynamics": jnp.maximum(divergence(fixed_posterior, path.prior), free_nats),
        "representation": jnp.maximum(divergence(path.posterior, fixed_prior), free_nats),
    }


def world_model_loss(
    model: WorldModel,
    settings: WorldModelSettings,
    steps: Transition,
    truth: Observation,
    key: PRNGKeyArray,
) -> tuple[Array, Labels]:
    """The variational bound on steps given as (time, run, ...); `truth` is what to decode."""
    embedding = model.encoder(steps.obs)
    path = model.rssm.observe(
        embedding, model.encoder(steps.next_obs), steps.action, steps.first, key
    )
    terms = model.surprise(path.after, truth, steps.reward, steps.discount)
    terms |= divergences(path, settings.free_nats)
    means = {name: term.mean() for name, term in terms.items()}
    weights = {
        "dynamics": settings.dynamics_weight,
        "representation": settings.representation_weight,
    }
    loss = sum((weights.get(name, 1.0) * mean for name, mean in means.items()), jnp.zeros(()))
    del means["representation"]  # the same number as the dynamics term
    metrics = {f"model/{name}_loss": mean for name, mean in means.items()}
    labels = Labels(in_a_row(embedding), in_a_row(path.after.code), metrics | {"model/loss": loss})
    return loss, jax.lax.stop_gradient(labels)
