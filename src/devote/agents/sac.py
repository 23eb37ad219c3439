"""The backbone and the baseline: SAC with one critic, a two-hot head and reward-only targets."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from devote.core.learning import Learned, Learner, Optimiser
from devote.core.settings import Count, Few, Finite, NonNegative, Positive, Share, Whole
from devote.core.trees import interpolate
from devote.core.types import EnvSpec, Metrics, Observation, Transition
from devote.epistemic.tud import dormancy
from devote.nets.actor import Actor, Value, actor, target_entropy
from devote.nets.critic import Critic, Head, Scalar, TwoHot
from devote.nets.encoder import Encoder
from devote.nets.own import Own


@dataclass(frozen=True)
class SacSettings:
    """The SAC backbone; defaults are the paper's table."""

    discount: Share = 0.998
    """gamma: what a reward one step later is worth now."""
    polyak: Share = 0.005
    """Rate at which target networks follow."""
    critic_width: Count = 1024
    """Units in each hidden layer of a critic."""
    critic_depth: Few = 3
    """Hidden layers of a critic."""
    actor_width: Count = 192
    """Units in each hidden layer of an actor."""
    actor_depth: Few = 3
    """Hidden layers of an actor."""
    value_head: Literal["two_hot", "scalar"] = "two_hot"
    """How the task value is regressed: two_hot over bins, or one scalar."""
    learning_rate: Positive = 3e-4
    """Learning rate of critics and actors."""
    critic_weight_decay: NonNegative = 1e-2
    """Decoupled weight decay on the matrices of critics."""
    temperature_rate: Positive = 1e-3
    """Learning rate of the entropy temperature (authors' code; the paper is silent)."""
    initial_temperature: Positive = 1.0
    """alpha at the start."""
    target_entropy_per_dimension: Finite = -0.5
    """Target entropy of continuous actions, times their dimension."""
    target_entropy_fraction: Share = 0.75
    """Target entropy of discrete actions, as a share of the maximum (authors' code)."""
    discrete_actor: Literal["gradient", "boltzmann"] = "gradient"
    """How a discrete actor learns: up the gradient of its expected value, as in SAC, or towards the
    softmax of value / alpha, the same optimum without plateaus (ours)."""
    optimiser: Literal["adam", "laprop"] = "adam"
    """Adam, or LaProp with adaptive clipping and warm-up (authors' code)."""
    scale_inputs: bool = False
    """Scale observations to [-1, 1] before networks other than prior and corrector."""
    input_features: Whole = 0
    """Fixed Fourier features joined to these inputs."""
    input_length: Positive = 1.0
    """Length scale of these features, in units of the observation."""
    action_gain: NonNegative = 1.0
    """Factor on the action where it enters a critic."""


class Policy(NamedTuple):
    """An actor with its entropy temperature."""

    actor: Learner
    log_temperature: Learner


class SacState(NamedTuple):
    """All that changes."""

    policy: Policy
    task_value: Learner
    task_value_target: Critic


@dataclass(frozen=True)
class Sac:
    """Soft actor-critic (paper, appendix D.1)."""

    settings: SacSettings
    spec: EnvSpec
    own: Own = field(default_factory=Own)
    """Networks and optimiser in place of those that the settings describe."""
    sequence_length: ClassVar[int] = 1

    @cached_property
    def encoder(self) -> Encoder:
        """The view of observations that critics and actors share."""
        s = self.settings
        return Encoder(self.spec.observation, s.scale_inputs, s.input_features, s.input_length)

    @cached_property
    def actor_optimiser(self) -> Optimiser:
        return self.optimiser(self.settings.learning_rate)

    @cached_property
    def critic_optimiser(self) -> Optimiser:
        return self.optimiser(self.settings.learning_rate, self.settings.critic_weight_decay)

    def optimiser(self, rate: float, weight_decay: float = 0.0) -> Optimiser:
        """The optimiser of a network: the user's own, or that of the settings."""
        return Optimiser(rate, weight_decay, self.own.optimiser or self.settings.optimiser)

    @cached_property
    def temperature_optimiser(self) -> Optimiser:
        return Optimiser(self.settings.temperature_rate, kind=self.settings.optimiser)

    def build_actor(self, key: PRNGKeyArray) -> Actor:
        """A fresh policy network."""
        s = self.settings
        hidden = self.own.network or (s.actor_width,) * s.actor_depth
        return actor(key, self.encoder, self.spec.action, hidden, s.discrete_actor == "boltzmann")

    def build_critic(self, key: PRNGKeyArray, head: Head) -> Critic:
        """A fresh action value that predicts 0 everywhere."""
        s = self.settings
        hidden = self.own.network or (s.critic_width,) * s.critic_depth
        return Critic(key, self.encoder, self.spec.action, hidden, head, s.action_gain)

    @property
    def head(self) -> Head:
        """How task values are read and regressed."""
        return TwoHot() if self.settings.value_head == "two_hot" else Scalar()

    def build_task_value(self, key: PRNGKeyArray) -> Critic:
        """A fresh b."""
        return self.build_critic(key, self.head)

    def start_policy(self, key: PRNGKeyArray) -> Policy:
        """A fresh actor with the initial temperature."""
        log_temperature = jnp.log(jnp.float32(self.settings.initial_temperature))
        return Policy(
            self.actor_optimiser.start(self.build_actor(key)),
            self.temperature_optimiser.start(log_temperature),
        )

    def init(self, key: PRNGKeyArray) -> SacState:
        """A fresh state; the target is a copy of the critic."""
        actor_key, critic_key = jax.random.split(key)
        critic = self.build_task_value(critic_key)
        return SacState(
            policy=self.start_policy(actor_key),
            task_value=self.critic_optimiser.start(critic),
            task_value_target=jax.tree.map(jnp.copy, critic),
        )

    @property
    def learned(self) -> tuple[Learned, ...]:
        """The actor, and the critic with its target."""
        return (
            Learned(lambda state: state.policy.actor, self.actor_optimiser),
            Learned(
                lambda state: state.task_value,
                self.critic_optimiser,
                lambda state: state.task_value_target,
                self.settings.polyak,
            ),
        )

    def remember(self, num_envs: int) -> tuple[()]:
        """Nothing is carried along an episode."""
        return ()

    def act(
        self, state: SacState, memory: Any, obs: Observation, first: Array, key: PRNGKeyArray
    ) -> tuple[Array, Any]:
        """A sampled action."""
        return state.policy.actor.net.sample(obs, key), memory

    def exploit(self, state: SacState, obs: Observation, key: PRNGKeyArray | None = None) -> Array:
        """The actor's best guess, or with a key a draw."""
        actor = state.policy.actor.net
        return actor.mode(obs) if key is None else actor.sample(obs, key)

    def update(
        self, state: SacState, batch: Transition, key: PRNGKeyArray
    ) -> tuple[SacState, Metrics]:
        """Fit the critic, move its target, improve the actor."""
        next_key, actor_key = jax.random.split(key)
        target = self.task_target(state, batch, next_key)
        task_value, critic_metrics = self.critic_optimiser.descend(
            state.task_value, task_value_loss, batch, target
        )
        policy, actor_metrics = self.improve(state.policy, batch.obs, task_value.net, actor_key)
        target_net = interpolate(state.task_value_target, task_value.net, self.settings.polyak)
        return SacState(policy, task_value, target_net), critic_metrics | actor_metrics

    def task_target(
        self, state: SacState, batch: Transition, key: PRNGKeyArray
    ) -> Float[Array, "batch"]:
        """r + gamma b(s', a'), a' from the exploitation actor; no entropy, no minimum (eq. 6)."""
        value, _ = state.policy.actor.net.expect(batch.next_obs, key, state.task_value_target)
        return batch.reward + self.settings.discount * batch.discount * value

    def improve(
        self, policy: Policy, obs: Observation, value: Value, key: PRNGKeyArray
    ) -> tuple[Policy, Metrics]:
        """One step of an actor up `value` plus entropy, and of its temperature."""
        temperature = jnp.exp(policy.log_temperature.net)
        learner, metrics = self.actor_optimiser.descend(
            policy.actor, actor_loss, obs, value, temperature, key
        )
        s = self.settings
        wanted = target_entropy(
            self.spec.action, s.target_entropy_per_dimension, s.target_entropy_fraction
        )
        log_temperature, _ = self.temperature_optimiser.descend(
            policy.log_temperature, temperature_loss, metrics["train/entropy"] - wanted
        )
        return Policy(learner, log_temperature), metrics | {"train/ent_coef": temperature}

    def improve_explorer(
        self, policy: Policy, obs: Observation, value: Value, key: PRNGKeyArray
    ) -> tuple[Policy, Metrics]:
        """`improve` for agents with a second actor, which logs under names of its own."""
        policy, metrics = self.improve(policy, obs, value, key)
        return policy, {name.replace("train/", "explore/"): m for name, m in metrics.items()}

    def refresh(self, state: SacState, key: PRNGKeyArray) -> SacState:
        """SAC resets nothing."""
        return state

    def diagnose(self, state: SacState, batch: Transition) -> Metrics:
        """Dormant units of the actor."""
        return dormancy(state.policy.actor.net.body.hidden(batch.obs))

    def maps(self, state: SacState, obs: Observation) -> dict[str, Array]:
        """The task value under the actor."""
        return {"task value": state.task_value.net(obs, self.exploit(state, obs))}


def task_value_loss(
    task_value: Critic, batch: Transition, target: Float[Array, "batch"]
) -> tuple[Array, Metrics]:
    """Regress b(s, a) on its target (eq. 6)."""
    loss = jnp.mean(task_value.loss(batch.obs, batch.action, jax.lax.stop_gradient(target)))
    return loss, {"train/critic_loss": loss, "train/target_mean": target.mean()}


def actor_loss(
    policy: Actor, obs: Observation, value: Value, temperature: Array, key: PRNGKeyArray
) -> tuple[Array, Metrics]:
    """One actor step's loss (Algorithm 1, lines 11 and 12)."""
    loss, entropy = policy.loss(obs, key, value, temperature)
    return loss, {"train/actor_loss": loss, "train/entropy": entropy.mean()}


def temperature_loss(log_temperature: Array, surplus: Array) -> tuple[Array, Metrics]:
    """Lower the temperature while there is more entropy than wanted."""
    return jnp.exp(log_temperature) * jax.lax.stop_gradient(surplus), {}
