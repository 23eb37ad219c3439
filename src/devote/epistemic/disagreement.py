"""Disagreement: small networks learn to predict what a world model makes of a step, and where
they have no data they differ (Plan2Explore, SOMBRL)."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from devote.core.types import Metrics, Observation
from devote.epistemic.moments import Moments, moments
from devote.nets.encoder import Encoder
from devote.nets.ensemble import Ensemble
from devote.nets.functions import symexp, symlog
from devote.nets.layers import Mlp

MOST_COUNTED = 1e6  # as in the authors' code: old embeddings are forgotten, for the encoder learns


class Guess(NamedTuple):
    """What is predicted of a step, standardised where it has no natural unit."""

    embedding: Float[Array, "*batch embedding"]
    """Of the observation, pooled; in symlog units as an output, plain as a target."""
    code: Float[Array, "*batch groups classes"]
    """Of the successor; logits as an output, one-hot as a target."""
    reward: Float[Array, "*batch"]
    """In symlog units as an output, plain as a target."""


class Guesser(eqx.Module):
    """One member: a network from observation and action to all three predictions."""

    body: Mlp
    embedding: int = eqx.field(static=True)
    groups: int = eqx.field(static=True)

    def __init__(
        self,
        key: PRNGKeyArray,
        encoder: Encoder,
        action_size: int,
        hidden: tuple[int, ...],
        sizes: tuple[int, int, int],
        action_gain: float = 1.0,
    ):
        self.embedding, self.groups, classes = sizes
        outputs = self.embedding + self.groups * classes + 1
        self.body = Mlp(
            key, encoder, action_size, hidden, outputs, out_gain=1.0, action_gain=action_gain
        )

    def __call__(self, obs: Observation, action: Array) -> Guess:
        out = self.body(obs, action)
        code = out[..., self.embedding : -1].reshape(*out.shape[:-1], self.groups, -1)
        return Guess(out[..., : self.embedding], code, out[..., -1])


class Standards(NamedTuple):
    """Running mean and spread of the targets that are numbers."""

    embedding: Moments
    reward: Moments

    def follow(self, embedding: Array, reward: Array) -> "Standards":
        """The standards with a batch joined to them."""
        joined = Standards(self.embedding.follow(embedding), self.reward.follow(reward))
        return Standards(*(m._replace(number=jnp.minimum(m.number, MOST_COUNTED)) for m in joined))


def standards(embedding_size: int) -> Standards:
    """The standards before anything was seen."""
    return Standards(moments((embedding_size,)), moments())


def pooled(embedding: Float[Array, "batch in"], size: int) -> Float[Array, "batch out"]:
    """The largest entry of each of `size` windows."""
    return embedding.reshape(embedding.shape[0], size, -1).max(axis=-1)


def standardised(labels: Guess, scale: Standards) -> Guess:
    """Targets in units of their own spread; the code has none."""
    return labels._replace(
        embedding=(labels.embedding - scale.embedding.mean) / scale.embedding.std,
        reward=(labels.reward - scale.reward.mean) / scale.reward.std,
    )


def guessing_loss(
    guessers: Ensemble, obs: Observation, action: Array, target: Guess
) -> tuple[Array, tuple[Metrics, Float[Array, "batch"]]]:
    """Every member predicts every target: symlog squared errors and a cross-entropy. Says also how
    much the members disagreed."""
    guess: Guess = guessers.each(lambda guesser: guesser(obs, action))
    log_probs = jax.nn.log_softmax(guess.code)
    loss = (
        jnp.square(guess.embedding - symlog(target.embedding)).sum(axis=-1)
        - jnp.sum(target.code * log_probs, axis=(-2, -1))
        + jnp.square(guess.reward - symlog(target.reward))
    ).mean()
    return loss, ({"model/guessing_loss": loss}, spread(guess))


def spread(guess: Guess) -> Float[Array, "batch"]:
    """Standard deviations over the members, summed over all predictions."""
    embedding = symexp(guess.embedding).std(axis=0).sum(axis=-1)
    code = jax.nn.softmax(guess.code).std(axis=0).sum(axis=(-2, -1))
    return embedding + code + symexp(guess.reward).std(axis=0)


def disagreement(guessers: Ensemble, obs: Observation, action: Array) -> Float[Array, "batch"]:
    """How much the members differ about a step: SOMBRL's intrinsic reward."""
    return spread(guessers.each(lambda guesser: guesser(obs, action)))
