"""Policies. `expect` averages any action value, by a sample or by the exact sum."""

from collections.abc import Callable
from typing import Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from devote.core.types import Box, Choice, Observation
from devote.nets.encoder import Encoder
from devote.nets.functions import normal
from devote.nets.layers import Mlp
from devote.nets.own import Build, OwnNet, body

Value = Callable[[Observation, Array], Float[Array, "*index batch"]]

MIN_STD, MAX_STD = 0.1, 1.0
UNIFORM_MIX = 0.01


class Actor(Protocol):
    """A policy over [-1, 1] vectors or one-hot choices."""

    body: Mlp | OwnNet

    def sample(self, obs: Observation, key: PRNGKeyArray) -> Float[Array, "batch action"]:
        """Actions drawn from the policy."""
        ...

    def mode(self, obs: Observation) -> Float[Array, "batch action"]:
        """The policy's best guess."""
        ...

    def expect(
        self, obs: Observation, key: PRNGKeyArray, value: Value
    ) -> tuple[Array, Float[Array, "batch"]]:
        """The expected value of the policy's action, and the policy's entropy."""
        ...


class SquashedNormal(eqx.Module):
    """tanh of a normal with bounded standard deviation."""

    body: Mlp | OwnNet

    def __init__(
        self, key: PRNGKeyArray, encoder: Encoder, action_size: int, hidden: tuple[int, ...] | Build
    ):
        self.body = body(key, encoder, 0, hidden, 2 * action_size, out_gain=0.01)

    def _moments(self, obs: Observation) -> tuple[Array, Array]:
        mean, raw = jnp.split(self.body(obs), 2, axis=-1)
        return mean, MIN_STD + (MAX_STD - MIN_STD) * jax.nn.sigmoid(raw + 2.0)

    def mode(self, obs: Observation) -> Float[Array, "batch action"]:
        """tanh of the mean."""
        return jnp.tanh(self._moments(obs)[0])

    def sample(self, obs: Observation, key: PRNGKeyArray) -> Float[Array, "batch action"]:
        """Reparameterised draws."""
        mean, std = self._moments(obs)
        return jnp.tanh(mean + std * normal(key, mean.shape))

    def expect(
        self, obs: Observation, key: PRNGKeyArray, value: Value
    ) -> tuple[Array, Float[Array, "batch"]]:
        """One reparameterised sample of the value, and minus its log-probability."""
        mean, std = self._moments(obs)
        noise = normal(key, mean.shape)
        raw = mean + std * noise
        log_normal = -0.5 * jnp.square(noise) - jnp.log(std) - 0.5 * np.log(2 * np.pi)
        # log(1 - tanh(x)^2), stable for large x
        log_slope = 2.0 * (np.log(2.0) - raw - jax.nn.softplus(-2.0 * raw))
        return value(obs, jnp.tanh(raw)), jnp.sum(log_slope - log_normal, axis=-1)


class Categorical(eqx.Module):
    """A softmax with a little uniform mixed in, over one-hot choices."""

    body: Mlp | OwnNet

    def __init__(
        self, key: PRNGKeyArray, encoder: Encoder, choices: int, hidden: tuple[int, ...] | Build
    ):
        self.body = body(key, encoder, 0, hidden, choices, out_gain=0.01)

    def _probs(self, obs: Observation) -> Float[Array, "batch action"]:
        probs = jax.nn.softmax(self.body(obs))
        return (1 - UNIFORM_MIX) * probs + UNIFORM_MIX / probs.shape[-1]

    def mode(self, obs: Observation) -> Float[Array, "batch action"]:
        """The likeliest choice."""
        logits = self.body(obs)
        return jax.nn.one_hot(jnp.argmax(logits, axis=-1), logits.shape[-1])

    def sample(self, obs: Observation, key: PRNGKeyArray) -> Float[Array, "batch action"]:
        """Drawn choices."""
        probs = self._probs(obs)
        return jax.nn.one_hot(jax.random.categorical(key, jnp.log(probs)), probs.shape[-1])

    def expect(
        self, obs: Observation, key: PRNGKeyArray, value: Value
    ) -> tuple[Array, Float[Array, "batch"]]:
        """The exact sum over choices, and the exact entropy."""
        probs = self._probs(obs)
        choices = jnp.eye(probs.shape[-1])
        # the observation is not mapped, so bodies that read only it run once
        values = jax.vmap(lambda choice: value(obs, jnp.broadcast_to(choice, probs.shape)))(choices)
        return jnp.einsum("ba,a...b->...b", probs, values), -jnp.sum(probs * jnp.log(probs), -1)


def actor(
    key: PRNGKeyArray, encoder: Encoder, action: Box | Choice, hidden: tuple[int, ...] | Build
) -> SquashedNormal | Categorical:
    """The policy that fits a kind of action."""
    if isinstance(action, Box):
        return SquashedNormal(key, encoder, action.size, hidden)
    return Categorical(key, encoder, action.size, hidden)


def target_entropy(action: Box | Choice, per_dimension: float, fraction: float) -> float:
    """A multiple of the dimension for continuous actions, of the maximum for discrete ones."""
    if isinstance(action, Box):
        return per_dimension * action.size
    return fraction * float(np.log(action.size))
