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

    def loss(
        self, obs: Observation, key: PRNGKeyArray, value: Value, temperature: Array
    ) -> tuple[Array, Float[Array, "batch"]]:
        """The loss of an actor step towards more value plus weighted entropy, and the entropy."""
        ...


def climb(
    policy: "Actor", obs: Observation, key: PRNGKeyArray, value: Value, temperature: Array
) -> tuple[Array, Float[Array, "batch"]]:
    """Minus the expected value and the weighted entropy (Algorithm 1, lines 11 and 12)."""
    expected, entropy = policy.expect(obs, key, value)
    return -jnp.mean(expected + temperature * entropy), entropy


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

    loss = climb


class Categorical(eqx.Module):
    """A softmax with a little uniform mixed in, over one-hot choices."""

    body: Mlp | OwnNet
    boltzmann: bool = eqx.field(static=True)
    """Fit the softmax of value / temperature instead of climbing the expected value."""

    def __init__(
        self,
        key: PRNGKeyArray,
        encoder: Encoder,
        choices: int,
        hidden: tuple[int, ...] | Build,
        boltzmann: bool = False,
    ):
        self.body = body(key, encoder, 0, hidden, choices, out_gain=0.01)
        self.boltzmann = boltzmann

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
        values = self._values(obs, value, probs)
        return jnp.einsum("ba,a...b->...b", probs, values), -jnp.sum(probs * jnp.log(probs), -1)

    def _values(self, obs: Observation, value: Value, probs: Array) -> Float[Array, "action ..."]:
        # the observation is not mapped, so bodies that read only it run once
        choices = jnp.eye(probs.shape[-1])
        return jax.vmap(lambda choice: value(obs, jnp.broadcast_to(choice, probs.shape)))(choices)

    def loss(
        self, obs: Observation, key: PRNGKeyArray, value: Value, temperature: Array
    ) -> tuple[Array, Float[Array, "batch"]]:
        """As `climb`, or the cross-entropy to the policy that climbing converges to. The gradient
        of climbing vanishes with the probability of the better choice; this one's does not."""
        if not self.boltzmann:
            return climb(self, obs, key, value, temperature)
        probs = self._probs(obs)
        wanted = jax.nn.softmax(self._values(obs, value, probs) / temperature, axis=0)
        entropy = -jnp.sum(probs * jnp.log(probs), axis=-1)
        return -jnp.mean(
            jnp.sum(jax.lax.stop_gradient(wanted).T * jnp.log(probs), axis=-1)
        ), entropy


def actor(
    key: PRNGKeyArray,
    encoder: Encoder,
    action: Box | Choice,
    hidden: tuple[int, ...] | Build,
    boltzmann: bool = False,
) -> SquashedNormal | Categorical:
    """The policy that fits a kind of action."""
    if isinstance(action, Box):
        return SquashedNormal(key, encoder, action.size, hidden)
    return Categorical(key, encoder, action.size, hidden, boltzmann)


def target_entropy(action: Box | Choice, per_dimension: float, fraction: float) -> float:
    """A multiple of the dimension for continuous actions, of the maximum for discrete ones."""
    if isinstance(action, Box):
        return per_dimension * action.size
    return fraction * float(np.log(action.size))
