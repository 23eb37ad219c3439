"""The ablation without TUD: one temporal difference error of b + rb + c + g for all parts.

It has a DEVOTE, of which everything is kept but the losses of the three critics. With equation 4
of the paper in their place, each part may make good what the others get wrong.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from devote.agents.devote import Devote, DevoteSettings, DevoteState
from devote.core.learning import Learned
from devote.core.trees import interpolate
from devote.core.types import EnvSpec, Metrics, Observation, Transition
from devote.epistemic.tud import bootstrap_mask, residual


@dataclass(frozen=True)
class JointTd:
    """DEVOTE whose epistemic value function is learned as a whole (eq. 4)."""

    settings: DevoteSettings
    spec: EnvSpec
    sequence_length: ClassVar[int] = 1

    @cached_property
    def devote(self) -> Devote:
        """All that is not a loss of a critic."""
        return Devote(self.settings, self.spec)

    def init(self, key: PRNGKeyArray) -> DevoteState:
        """A fresh state."""
        return self.devote.init(key)

    @property
    def learned(self) -> tuple[Learned, ...]:
        """DEVOTE's, all targets at one rate."""
        return tuple(part._replace(rate=self.settings.sac.polyak) for part in self.devote.learned)

    def remember(self, num_envs: int) -> tuple[()]:
        """Nothing is carried along an episode."""
        return self.devote.remember(num_envs)

    def act(
        self, state: DevoteState, memory: Any, obs: Observation, first: Array, key: PRNGKeyArray
    ) -> tuple[Array, Any]:
        """The exploration actor makes all the data."""
        return self.devote.act(state, memory, obs, first, key)

    def exploit(
        self, state: DevoteState, obs: Observation, key: PRNGKeyArray | None = None
    ) -> Array:
        """The exploitation actor's best guess, or with a key a draw."""
        return self.devote.exploit(state, obs, key)

    def update(
        self, state: DevoteState, batch: Transition, key: PRNGKeyArray
    ) -> tuple[DevoteState, Metrics]:
        """Fit the sum of the critics, move the targets, improve both actors."""
        s, sac = self.settings, self.devote.sac
        task_key, mask_key, next_key, actor_key, explore_key = jax.random.split(key, 5)
        error = self.error(state, batch, task_key, next_key)
        mask = bootstrap_mask(
            mask_key, s.num_indices, batch.reward.shape[0], s.bootstrap_probability
        )
        task_value, metrics = sac.critic_optimiser.descend(
            state.task.task_value, joint_td_loss, batch, error, mask
        )
        corrector, _ = self.devote.corrector_optimiser.descend(
            state.corrector, joint_td_loss, batch, error, mask
        )
        novelty_value, _ = sac.critic_optimiser.descend(
            state.novelty_value, joint_td_loss, batch, error, mask
        )
        policy, actor_metrics = sac.improve(state.task.policy, batch.obs, task_value.net, actor_key)
        task_target = interpolate(state.task.task_value_target, task_value.net, s.sac.polyak)
        state = state._replace(
            task=state.task._replace(
                policy=policy, task_value=task_value, task_value_target=task_target
            ),
            corrector=corrector,
            # eq. 4 has one target network of the sum, so its parts follow at one rate
            corrector_target=interpolate(state.corrector_target, corrector.net, s.sac.polyak),
            novelty_value=novelty_value,
            novelty_value_target=interpolate(
                state.novelty_value_target, novelty_value.net, s.sac.polyak
            ),
        )
        state, explorer_metrics = self.devote.improve_explorer(state, batch.obs, explore_key)
        return state, metrics | actor_metrics | explorer_metrics

    def error(
        self, state: DevoteState, batch: Transition, task_key: PRNGKeyArray, next_key: PRNGKeyArray
    ) -> Float[Array, "index batch"]:
        """r + gamma Q(s', a', z) - Q(s, a, z): b looks ahead with the exploitation actor, all else
        with the exploration actor."""
        ahead = self.devote.novelty_target(state, batch, next_key)
        target = self.devote.sac.task_target(state.task, batch, task_key) + ahead
        return target - self.value(state, batch.obs, batch.action)

    def value(
        self, state: DevoteState, obs: Observation, action: Array
    ) -> Float[Array, "index batch"]:
        """Q(s, a, z) = b + rb + c + g."""
        local = residual(state.corrector.net, state.prior, obs, action)
        return state.task.task_value.net(obs, action) + state.novelty_value.net(obs, action) + local

    def bonus(self, state: DevoteState, obs: Observation, action: Array) -> Float[Array, "batch"]:
        """DEVOTE's bonus, or the spread over z."""
        return self.devote.bonus(state, obs, action)

    def refresh(self, state: DevoteState, key: PRNGKeyArray) -> DevoteState:
        """DEVOTE's soft reset."""
        return self.devote.refresh(state, key)

    def diagnose(self, state: DevoteState, batch: Transition) -> Metrics:
        """DEVOTE's diagnostics."""
        return self.devote.diagnose(state, batch)

    def maps(self, state: DevoteState, obs: Observation) -> dict[str, Array]:
        """DEVOTE's maps, and the spread that the joint value has over z."""
        action = state.explorer.actor.net.mode(obs)
        spread = self.value(state, obs, action).std(axis=0)
        return self.devote.maps(state, obs) | {"spread of Q": spread}


def joint_td_loss(
    part: Any,
    batch: Transition,
    error: Float[Array, "index batch"],
    mask: Float[Array, "index batch"],
) -> tuple[Array, Metrics]:
    """The joint squared error (eq. 4) as a function of one part, all others held where they are."""
    value = part(batch.obs, batch.action)
    moved = value - jax.lax.stop_gradient(value)
    loss = jnp.mean(mask * (jax.lax.stop_gradient(error) - moved) ** 2)
    return loss, {"train/critic_loss": loss}
