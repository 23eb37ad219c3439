"""The value of a frozen policy with its uncertainty: critics alone learn, by TUD or by joint TD
(section 3.3, appendix "TD-Learning with ENNs")."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from devote.agents.devote import Devote, DevoteSettings, DevoteState
from devote.agents.joint_td import JointTd
from devote.agents.sac import Policy
from devote.agents.variants import no_tud
from devote.core.learning import Learned
from devote.core.types import EnvSpec, Metrics, Observation, Transition

START_RATE = 0.02
"""Weight of one start of an episode in the moving average of what starts are worth."""
OF_ACTORS = ("actor_loss", "entropy", "ent_coef")
"""Metrics of what does not learn here."""


@dataclass(frozen=True)
class EvaluatorSettings(DevoteSettings):
    """A frozen policy whose epistemic value is learned; of DEVOTE's settings those of critics,
    prior and the shape of an actor count."""

    joint: bool = False
    """One temporal difference error of b + rb + c + g (joint TD) instead of one for each (TUD)."""
    policy: str = ""
    """Directory of a run of SAC in the same task, whose actor is evaluated; a random one if ''."""


def evaluator(devote: DevoteSettings) -> EvaluatorSettings:
    """DEVOTE's critics with signed residuals and plain heads, the same for both losses."""
    return EvaluatorSettings(**vars(no_tud(devote)))


class EvaluatorState(NamedTuple):
    """The critics beside the frozen policy, and what they say of starts of episodes."""

    critic: DevoteState
    start_value: Float[Array, ""]


@dataclass(frozen=True)
class Evaluator:
    """It has a DEVOTE, or one without TUD, both of whose actors are the frozen policy."""

    settings: EvaluatorSettings
    spec: EnvSpec
    load: Callable[[], Policy] | None = field(default=None, compare=False)
    """Where the policy comes from; it is part of the state from the first step on."""
    sequence_length: ClassVar[int] = 1

    @cached_property
    def inner(self) -> Devote | JointTd:
        """Whose critics learn."""
        return (JointTd if self.settings.joint else Devote)(self.settings, self.spec)

    def init(self, key: PRNGKeyArray) -> EvaluatorState:
        """Fresh critics beside the policy."""
        critic = self.inner.init(key)
        policy = critic.task.policy if self.load is None else self.load()
        task = critic.task._replace(policy=jax.tree.map(jnp.asarray, policy))
        critic = critic._replace(task=task, explorer=jax.tree.map(jnp.copy, task.policy))
        return EvaluatorState(critic, jnp.zeros(()))

    @property
    def learned(self) -> tuple[Learned, ...]:
        """The critics, which are what has a target."""
        parts = [part for part in self.inner.learned if part.target is not None]
        return tuple(part.within(lambda state: state.critic) for part in parts)

    def remember(self, num_envs: int) -> tuple[()]:
        """Nothing is carried along an episode."""
        return ()

    def act(
        self, state: EvaluatorState, memory: Any, obs: Observation, first: Array, key: PRNGKeyArray
    ) -> tuple[Array, Any]:
        """A draw from the policy."""
        return self.inner.act(state.critic, memory, obs, first, key)

    def exploit(
        self, state: EvaluatorState, obs: Observation, key: PRNGKeyArray | None = None
    ) -> Array:
        """The policy's best guess, or with a key a draw."""
        return self.inner.exploit(state.critic, obs, key)

    def observe(self, state: EvaluatorState, *steps: Any) -> EvaluatorState:
        """What the critics take in of steps."""
        return state._replace(critic=self.inner.observe(state.critic, *steps))

    def update(
        self, state: EvaluatorState, batch: Transition, key: PRNGKeyArray
    ) -> tuple[EvaluatorState, Metrics]:
        """Fit the critics; steps of actors are dropped, and so cost nothing once compiled."""
        old = state.critic
        new, metrics = self.inner.update(old, batch, key)
        task = new.task._replace(policy=old.task.policy)
        new = new._replace(task=task, explorer=old.explorer, value_scale=old.value_scale)
        kept = {n: m for n, m in metrics.items() if n.split("/")[1] not in OF_ACTORS}
        return EvaluatorState(new, self.follow_start(state, batch)), kept

    def follow_start(self, state: EvaluatorState, batch: Transition) -> Float[Array, ""]:
        """The moving average of Q where episodes begin, after a batch."""
        value = self.value(state, batch.obs, batch.action).mean(axis=0)
        count = batch.first.sum()
        mean = jnp.sum(batch.first * value) / jnp.maximum(count, 1)
        return state.start_value + (1 - (1 - START_RATE) ** count) * (mean - state.start_value)

    def value(
        self, state: EvaluatorState, obs: Observation, action: Array
    ) -> Float[Array, "index batch"]:
        """Q(s, a, z) = b + rb + c + g."""
        return self.inner.value(state.critic, obs, action)

    def refresh(self, state: EvaluatorState, key: PRNGKeyArray) -> EvaluatorState:
        """Nothing is reset."""
        return state

    def diagnose(self, state: EvaluatorState, batch: Transition) -> Metrics:
        """The spread of Q over z, and what starts of episodes are worth."""
        spread = self.value(state, batch.obs, batch.action).std(axis=0).mean()
        return {"epistemic/sigma_q": spread, "epistemic/start_value": state.start_value}

    def maps(self, state: EvaluatorState, obs: Observation) -> dict[str, Array]:
        """Mean and spread of Q at the policy's best guess."""
        value = self.value(state, obs, self.exploit(state, obs))
        return {"value": value.mean(axis=0), "spread of Q": value.std(axis=0)}
