"""SOMBRL as the paper adapts it: SAC paid by the disagreement of predictors of a world model.

The model is never rolled out and the policy reads observations, as in the authors' code; the model
serves to say what is worth predicting.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from devote.agents.devote import DevoteSettings
from devote.agents.model_uncertainty import Beliefs, ModelUncertainty, UncertaintySettings
from devote.agents.sac import Policy, Sac, SacSettings, SacState, task_value_loss
from devote.core.learning import Learned, Learner, Optimiser
from devote.core.settings import NonNegative, Positive, Share
from devote.core.trees import interpolate
from devote.core.types import EnvSpec, Metrics, Observation, Transition
from devote.nets.actor import Actor
from devote.nets.critic import Critic


@dataclass(frozen=True)
class SombrlSettings:
    """SOMBRL; where the paper is silent, defaults are the authors' code."""

    sac: SacSettings = field(default_factory=SacSettings)
    uncertainty: UncertaintySettings = field(default_factory=UncertaintySettings)
    intrinsic_weight: Positive = 1.0
    """lambda at the start; it is learned."""
    intrinsic_weight_rate: NonNegative = 4e-5
    """Learning rate of lambda."""
    intrinsic_weight_penalty: NonNegative = 0.1
    """Factor on lambda squared in the loss of lambda."""
    slow_explorer_polyak: Share = 0.02
    """Rate of the slow copy of the exploration actor that lambda is measured by."""


def sombrl(devote: DevoteSettings) -> SombrlSettings:
    """SOMBRL on DEVOTE's backbone."""
    return SombrlSettings(sac=devote.sac)


class SombrlState(NamedTuple):
    """All that changes."""

    task: SacState
    beliefs: Beliefs
    intrinsic_value: Learner
    intrinsic_value_target: Critic
    explorer: Policy
    slow_explorer: Actor
    log_weight: Learner


@dataclass(frozen=True)
class Sombrl:
    """SAC, and beside it an explorer paid by what a model does not know (paper, section 5)."""

    settings: SombrlSettings
    spec: EnvSpec

    @property
    def sequence_length(self) -> int:
        """The world model learns from sequences."""
        return self.settings.uncertainty.sequence_length

    @cached_property
    def sac(self) -> Sac:
        """The backbone: task value and exploitation actor."""
        return Sac(self.settings.sac, self.spec)

    @cached_property
    def uncertainty(self) -> ModelUncertainty:
        """World model and ensemble; they read what the critics read, unless told otherwise."""
        sac, size = self.settings.sac, self.spec.action.size
        return ModelUncertainty(
            self.settings.uncertainty, self.sac.encoder, size, sac.action_gain, sac.optimiser
        )

    @cached_property
    def weight_optimiser(self) -> Optimiser:
        return Optimiser(self.settings.intrinsic_weight_rate, kind=self.settings.sac.optimiser)

    def init(self, key: PRNGKeyArray) -> SombrlState:
        """A fresh state; the intrinsic critic is built like the task's."""
        task_key, model_key, value_key, explorer_key = jax.random.split(key, 4)
        task = self.sac.init(task_key)
        value = self.sac.build_critic(value_key, self.sac.head)
        explorer = self.sac.start_policy(explorer_key)
        log_weight = jnp.log(jnp.float32(self.settings.intrinsic_weight))
        return SombrlState(
            task=task,
            beliefs=self.uncertainty.init(model_key),
            intrinsic_value=self.sac.critic_optimiser.start(value),
            intrinsic_value_target=jax.tree.map(jnp.copy, value),
            explorer=explorer,
            slow_explorer=jax.tree.map(jnp.copy, explorer.actor.net),
            log_weight=self.weight_optimiser.start(log_weight),
        )

    @property
    def learned(self) -> tuple[Learned, ...]:
        """SAC's, the beliefs, the intrinsic value and the explorer, each with what follows it."""
        s = self.settings
        return (
            *(part.within(lambda state: state.task) for part in self.sac.learned),
            *(part.within(lambda state: state.beliefs) for part in self.uncertainty.learned),
            Learned(
                lambda state: state.intrinsic_value,
                self.sac.critic_optimiser,
                lambda state: state.intrinsic_value_target,
                s.sac.polyak,
            ),
            Learned(
                lambda state: state.explorer.actor,
                self.sac.actor_optimiser,
                lambda state: state.slow_explorer,
                s.slow_explorer_polyak,
            ),
        )

    def remember(self, num_envs: int) -> tuple[()]:
        """Nothing is carried along an episode: the policy reads observations."""
        return ()

    def act(
        self, state: SombrlState, memory: Any, obs: Observation, first: Array, key: PRNGKeyArray
    ) -> tuple[Array, Any]:
        """The exploration actor makes all the data."""
        return state.explorer.actor.net.sample(obs, key), memory

    def exploit(
        self, state: SombrlState, obs: Observation, key: PRNGKeyArray | None = None
    ) -> Array:
        """The exploitation actor's best guess, or with a key a draw."""
        return self.sac.exploit(state.task, obs, key)

    def update(
        self, state: SombrlState, batch: Transition, key: PRNGKeyArray
    ) -> tuple[SombrlState, Metrics]:
        """Fit model, ensemble and critics; improve both actors; weigh the intrinsic value."""
        task_key, model_key, next_key, explore_key, weight_key = jax.random.split(key, 5)
        task, task_metrics = self.sac.update(state.task, batch, task_key)
        beliefs, reward, metrics = self.uncertainty.learn(state.beliefs, batch, model_key)
        target = self.intrinsic_target(state, batch, reward, next_key)
        value, value_metrics = self.sac.critic_optimiser.descend(
            state.intrinsic_value, task_value_loss, batch, target
        )
        state = state._replace(
            task=task,
            beliefs=beliefs,
            intrinsic_value=value,
            intrinsic_value_target=interpolate(
                state.intrinsic_value_target, value.net, self.settings.sac.polyak
            ),
        )
        explorer, explorer_metrics = self.sac.improve_explorer(
            state.explorer, batch.obs, lambda o, a: self.optimistic_value(state, o, a), explore_key
        )
        state, weight_metrics = self.weigh(state._replace(explorer=explorer), batch.obs, weight_key)
        metrics |= {
            "explore/disagreement": reward.mean(),
            "train/intrinsic_value_loss": value_metrics["train/critic_loss"],
            "explore/intrinsic_target": value_metrics["train/target_mean"],
        }
        return state, task_metrics | metrics | explorer_metrics | weight_metrics

    def intrinsic_target(
        self, state: SombrlState, batch: Transition, reward: Array, key: PRNGKeyArray
    ) -> Float[Array, "batch"]:
        """Disagreement plus gamma Q_int(s', a') at the target, a' from the exploration actor."""
        ahead, _ = state.explorer.actor.net.expect(
            batch.next_obs, key, state.intrinsic_value_target
        )
        return reward + self.settings.sac.discount * batch.discount * ahead

    def optimistic_value(
        self, state: SombrlState, obs: Observation, action: Array
    ) -> Float[Array, "batch"]:
        """b + lambda Q_int: what the exploration actor maximises."""
        intrinsic = state.intrinsic_value.net(obs, action)
        return state.task.task_value.net(obs, action) + jnp.exp(state.log_weight.net) * intrinsic

    def weigh(
        self, state: SombrlState, obs: Observation, key: PRNGKeyArray
    ) -> tuple[SombrlState, Metrics]:
        """One step of lambda, and of the slow actor that it is measured by."""

        def found(actor: Actor) -> Array:
            seen, _ = actor.expect(obs, key, lambda o, a: self.uncertainty(state.beliefs, o, a))
            return seen.mean()

        surplus = found(state.explorer.actor.net) - found(state.slow_explorer)
        log_weight, _ = self.weight_optimiser.descend(
            state.log_weight, weight_loss, surplus, self.settings.intrinsic_weight_penalty
        )
        slow = interpolate(
            state.slow_explorer, state.explorer.actor.net, self.settings.slow_explorer_polyak
        )
        metrics = {"explore/intrinsic_weight": jnp.exp(log_weight.net)}
        return state._replace(log_weight=log_weight, slow_explorer=slow), metrics

    def refresh(self, state: SombrlState, key: PRNGKeyArray) -> SombrlState:
        """SOMBRL resets nothing."""
        return state

    def diagnose(self, state: SombrlState, batch: Transition) -> Metrics:
        """Dormant units of the exploration actor."""
        return self.sac.diagnose(state.task._replace(policy=state.explorer), batch)

    def maps(self, state: SombrlState, obs: Observation) -> dict[str, Array]:
        """Disagreement and values at the exploration actor's mode, and the task value."""
        action = state.explorer.actor.net.mode(obs)
        return {
            "disagreement": self.uncertainty(state.beliefs, obs, action),
            "intrinsic value": state.intrinsic_value.net(obs, action),
            "optimistic value": self.optimistic_value(state, obs, action),
        } | self.sac.maps(state.task, obs)


def weight_loss(log_weight: Array, surplus: Array, penalty: float) -> tuple[Array, Metrics]:
    """Raise lambda while the actor finds less disagreement than its slow copy, within reason."""
    loss = log_weight * jax.lax.stop_gradient(surplus) + penalty * jnp.exp(2 * log_weight)
    return loss, {}
