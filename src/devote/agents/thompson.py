"""Thompson sampling: SACs that differ by a fixed random prior, one of them drawn per episode.

Randomised prior functions (Osband et al., 2018): member i believes Q_i = b_i + scale * p_i, learns
b_i by temporal differences of Q_i on its own share of the data, and acts to maximise Q_i. Where
there is data the members agree; elsewhere each follows its prior.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from devote.agents.devote import DevoteSettings
from devote.agents.sac import Sac, SacSettings, SacState
from devote.core.learning import Learned
from devote.core.settings import Count, NonNegative, Share
from devote.core.trees import interpolate
from devote.core.types import EnvSpec, Metrics, Observation, Transition
from devote.epistemic.tud import bootstrap_mask, dormant_fraction
from devote.nets.actor import Value
from devote.nets.critic import Critic
from devote.nets.encoder import Encoder
from devote.nets.ensemble import Ensemble
from devote.nets.random_mlp import RandomMlp


@dataclass(frozen=True)
class ThompsonSettings:
    """Thompson sampling; members share the backbone's settings and nothing else."""

    sac: SacSettings = field(default_factory=SacSettings)
    num_members: Count = 8
    """Independent actor-critics."""
    bootstrap_probability: Share = 0.5
    """Chance that a member's critic learns from a transition of a batch."""
    prior_width: Count = 192
    """Units in each of the two layers of a prior."""
    prior_scale: NonNegative = 1.0
    """Factor on the priors, which lie in [-1, 1]."""
    relu_bias: bool = False
    """Random biases for the priors, without which they see little but a direction."""
    prior_sees_action: bool = True
    """p(s, a), which an actor can climb; the authors' code has p(s)."""
    prior_in_actor: bool = True
    """Actors maximise b + p as in randomised prior functions; the authors' code has b alone."""


def thompson(devote: DevoteSettings) -> ThompsonSettings:
    """As many members as DEVOTE has indices, on its backbone."""
    return ThompsonSettings(
        sac=devote.sac,
        num_members=devote.num_indices,
        bootstrap_probability=devote.bootstrap_probability,
        prior_width=devote.num_features,
        relu_bias=devote.relu_bias,
    )


class ThompsonState(NamedTuple):
    """All that changes, a leading member axis on everything, and the priors."""

    members: SacState
    prior: Ensemble


@dataclass(frozen=True)
class Thompson:
    """Independent SACs with randomised priors."""

    settings: ThompsonSettings
    spec: EnvSpec
    sequence_length: ClassVar[int] = 1

    @cached_property
    def sac(self) -> Sac:
        """One member."""
        return Sac(self.settings.sac, self.spec)

    def build_prior(self, key: PRNGKeyArray) -> RandomMlp:
        """A fresh random function of the observation, and of the action."""
        s = self.settings
        encoder = Encoder(self.spec.observation, s.sac.scale_inputs)
        action_size = self.spec.action.size if s.prior_sees_action else 0
        return RandomMlp(key, encoder, action_size, (s.prior_width,) * 2, s.relu_bias)

    def init(self, key: PRNGKeyArray) -> ThompsonState:
        """A fresh state."""
        member_key, prior_key = jax.random.split(key)
        size = self.settings.num_members
        return ThompsonState(
            members=jax.vmap(self.sac.init)(jax.random.split(member_key, size)),
            prior=Ensemble(prior_key, size, self.build_prior),
        )

    @property
    def learned(self) -> tuple[Learned, ...]:
        """SAC's, of all members at once."""
        return tuple(part.within(lambda state: state.members) for part in self.sac.learned)

    def remember(self, num_envs: int) -> Int[Array, "envs"]:
        """The member that acts in each environment; drawn when an episode opens."""
        return jnp.zeros(num_envs, jnp.int32)

    def act(
        self, state: ThompsonState, memory: Array, obs: Observation, first: Array, key: PRNGKeyArray
    ) -> tuple[Array, Array]:
        """Every environment follows its member to the end of the episode."""
        draw_key, noise_key = jax.random.split(key)
        drawn = jax.random.randint(draw_key, memory.shape, 0, self.settings.num_members)
        member = jnp.where(first, drawn, memory)
        return _of_member(state, member, lambda actor: actor.sample(obs, noise_key)), member

    def exploit(
        self, state: ThompsonState, obs: Observation, key: PRNGKeyArray | None = None
    ) -> Array:
        """Best guesses, the i-th row by member i (modulo their number): one member per episode."""
        member = jnp.arange(obs.shape[0]) % self.settings.num_members
        return _of_member(
            state, member, lambda actor: actor.mode(obs) if key is None else actor.sample(obs, key)
        )

    def update(
        self, state: ThompsonState, batch: Transition, key: PRNGKeyArray
    ) -> tuple[ThompsonState, Metrics]:
        """One update of every member on its share of the batch."""
        s = self.settings
        mask_key, update_key = jax.random.split(key)
        mask = bootstrap_mask(
            mask_key, s.num_members, batch.reward.shape[0], s.bootstrap_probability
        )
        members, metrics = jax.vmap(self.update_member, in_axes=(0, 0, None, 0, 0))(
            state.members,
            state.prior.members,
            batch,
            mask,
            jax.random.split(update_key, s.num_members),
        )
        return state._replace(members=members), {n: m.mean() for n, m in metrics.items()}

    def update_member(
        self,
        member: SacState,
        prior: RandomMlp,
        batch: Transition,
        mask: Float[Array, "batch"],
        key: PRNGKeyArray,
    ) -> tuple[SacState, Metrics]:
        """SAC's update with the prior added to the critic, which learns what is left."""
        next_key, actor_key = jax.random.split(key)
        s = self.settings
        ahead, _ = member.policy.actor.net.expect(
            batch.next_obs, next_key, self.joined(member.task_value_target, prior)
        )
        target = batch.reward + s.sac.discount * batch.discount * ahead
        left = target - s.prior_scale * prior(batch.obs, batch.action)
        task_value, critic_metrics = self.sac.critic_optimiser.descend(
            member.task_value, masked_value_loss, batch, left, mask
        )
        climbed = self.joined(task_value.net, prior) if s.prior_in_actor else task_value.net
        policy, metrics = self.sac.improve(member.policy, batch.obs, climbed, actor_key)
        target_net = interpolate(member.task_value_target, task_value.net, s.sac.polyak)
        return SacState(policy, task_value, target_net), critic_metrics | metrics

    def joined(self, critic: Critic, prior: RandomMlp) -> Value:
        """Q = b + scale * p."""
        scale = self.settings.prior_scale
        return lambda obs, action: critic(obs, action) + scale * prior(obs, action)

    def value(
        self, state: ThompsonState, obs: Observation, action: Array
    ) -> Float[Array, "member batch"]:
        """What each member believes."""
        return jax.vmap(lambda critic, prior: self.joined(critic, prior)(obs, action))(
            state.members.task_value.net, state.prior.members
        )

    def refresh(self, state: ThompsonState, key: PRNGKeyArray) -> ThompsonState:
        """Thompson sampling resets nothing."""
        return state

    def diagnose(self, state: ThompsonState, batch: Transition) -> Metrics:
        """Dormant units, the mean over the members' actors."""
        fractions = jax.vmap(lambda actor: dormant_fraction(actor.body.hidden(batch.obs)))(
            state.members.policy.actor.net
        )
        return {"plasticity/dormant_frac": fractions.mean()}

    def maps(self, state: ThompsonState, obs: Observation) -> dict[str, Array]:
        """Mean and spread over members of what they believe of the first one's best guess."""
        action = _of_member(
            state, jnp.zeros(obs.shape[0], jnp.int32), lambda actor: actor.mode(obs)
        )
        values = self.value(state, obs, action)
        return {"mean value": values.mean(axis=0), "spread of values": values.std(axis=0)}


def _of_member(
    state: ThompsonState, member: Int[Array, "batch"], act: Callable[[Any], Array]
) -> Float[Array, "batch action"]:
    """Row by row, the action of the named member."""
    actions = jax.vmap(act)(state.members.policy.actor.net)
    return actions[member, jnp.arange(member.shape[0])]


def masked_value_loss(
    task_value: Critic, batch: Transition, target: Float[Array, "batch"], mask: Array
) -> tuple[Array, Metrics]:
    """Regress b(s, a) on its target where the member was given the transition."""
    losses = task_value.loss(batch.obs, batch.action, jax.lax.stop_gradient(target))
    loss = jnp.mean(mask * losses)
    return loss, {"train/critic_loss": loss, "train/target_mean": target.mean()}
