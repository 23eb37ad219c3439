"""The ablation without TUD: one temporal difference error of b + rb + c + g for all parts.

It is a DEVOTE whose three critics are fitted in another way: with equation 4 of the paper in place
of their losses, each part may make good what the others get wrong.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from devote.agents.devote import Devote, DevoteState
from devote.core.learning import Learned
from devote.core.trees import interpolate
from devote.core.types import Metrics, Observation, Transition
from devote.epistemic.tud import bootstrap_mask


@dataclass(frozen=True)
class JointTd(Devote):
    """DEVOTE whose epistemic value function is learned as a whole (eq. 4)."""

    @property
    def learned(self) -> tuple[Learned, ...]:
        """DEVOTE's, all targets at one rate."""
        return tuple(part._replace(rate=self.settings.sac.polyak) for part in super().learned)

    def update(
        self, state: DevoteState, batch: Transition, key: PRNGKeyArray
    ) -> tuple[DevoteState, Metrics]:
        """Fit the sum of the critics, move the targets, improve both actors."""
        s, sac = self.settings, self.sac
        task_key, mask_key, next_key, actor_key, explore_key = jax.random.split(key, 5)
        error = self.error(state, batch, task_key, next_key)
        mask = bootstrap_mask(
            mask_key, s.num_indices, batch.reward.shape[0], s.bootstrap_probability
        )
        task_value, metrics = sac.critic_optimiser.descend(
            state.task.task_value, joint_td_loss, batch, error, mask
        )
        corrector, _ = self.corrector_optimiser.descend(
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
        state, explorer_metrics = self.improve_explorer(state, batch.obs, explore_key)
        return state, metrics | actor_metrics | explorer_metrics

    def error(
        self, state: DevoteState, batch: Transition, task_key: PRNGKeyArray, next_key: PRNGKeyArray
    ) -> Float[Array, "index batch"]:
        """r + gamma Q(s', a', z) - Q(s, a, z): b looks ahead with the exploitation actor, all else
        with the exploration actor."""
        ahead = self.novelty_target(state, batch, next_key)
        target = self.sac.task_target(state.task, batch, task_key) + ahead
        return target - self.value(state, batch.obs, batch.action)

    def maps(self, state: DevoteState, obs: Observation) -> dict[str, Array]:
        """DEVOTE's maps, and the spread that the joint value has over z."""
        action = state.explorer.actor.net.mode(obs)
        spread = self.value(state, obs, action).std(axis=0)
        return super().maps(state, obs) | {"spread of Q": spread}


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
