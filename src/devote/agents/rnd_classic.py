"""Random network distillation as the field knows it (Burda et al., 2018), on the SAC backbone.

Kept from the original: a vector-valued random target, squared error of the predictor at the
successor, observations normalised by running moments and clipped, intrinsic rewards divided by a
running standard deviation of discounted intrinsic returns, a value of their own. docs/agents.md
says what replay and SAC change.
"""

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from devote.agents.devote import DevoteSettings
from devote.agents.explorer import Explorer
from devote.agents.sac import Policy, Sac, SacSettings, SacState, task_value_loss
from devote.core.learning import Learned, Learner, Optimiser
from devote.core.settings import Count, Positive
from devote.core.trees import interpolate
from devote.core.types import EnvSpec, Index, Metrics, Observation, Transition, Vector
from devote.epistemic.moments import Moments, moments
from devote.epistemic.tud import ValueScale, value_scale
from devote.nets.critic import Critic, Scalar
from devote.nets.encoder import Encoder
from devote.nets.layers import Mlp
from devote.nets.random_mlp import random_mlp


@dataclass(frozen=True)
class RndClassicSettings:
    """Classic RND; numbers of the original paper where it gives them."""

    sac: SacSettings = field(default_factory=SacSettings)
    width: Count = 1024
    """Units in each layer of target and predictor: two layers, and three."""
    embedding: Count = 512
    """Outputs of target and predictor."""
    predictor_rate: Positive = 3e-4
    """Learning rate of the predictor."""
    observation_clip: Positive = 5.0
    """Normalised observations are cut to plus or minus this."""
    intrinsic_weight: Positive = 1.0
    """Weight of the intrinsic value beside b / S."""
    normalise_value: bool = True
    """Divide b by S in the exploration objective."""


def rnd_classic(devote: DevoteSettings) -> RndClassicSettings:
    """Classic RND on DEVOTE's backbone, as wide as its priors and as eager."""
    return RndClassicSettings(
        sac=devote.sac,
        width=devote.num_features,
        embedding=devote.num_features // 2,
        predictor_rate=devote.corrector_rate,
        intrinsic_weight=devote.optimism,
        normalise_value=devote.normalise_value,
    )


class RndClassicState(NamedTuple):
    """All that changes, and the random target network, here called the prior."""

    task: SacState
    prior: Mlp
    predictor: Learner
    intrinsic_value: Learner
    intrinsic_value_target: Critic
    explorer: Policy
    value_scale: ValueScale
    seen: Moments
    """Of observations."""
    returns: Moments
    """Of discounted intrinsic returns, before they are normalised."""


@dataclass(frozen=True)
class RndClassic:
    """SAC, and beside it an explorer paid by the error of distilling a random network."""

    settings: RndClassicSettings
    spec: EnvSpec
    sequence_length: ClassVar[int] = 1

    @cached_property
    def sac(self) -> Sac:
        """The backbone: task value and exploitation actor."""
        return Sac(self.settings.sac, self.spec)

    @cached_property
    def explorer(self) -> Explorer:
        """The exploration actor's objective and step."""
        return Explorer(self.sac, self.settings.intrinsic_weight, self.settings.normalise_value)

    @cached_property
    def predictor_optimiser(self) -> Optimiser:
        return Optimiser(self.settings.predictor_rate, kind=self.settings.sac.optimiser)

    def init(self, key: PRNGKeyArray) -> RndClassicState:
        """A fresh state; the predictor is a layer deeper than what it predicts."""
        s, space = self.settings, self.spec.observation
        task_key, prior_key, predictor_key, value_key, explorer_key = jax.random.split(key, 5)

        def network(net_key: PRNGKeyArray, depth: int) -> Mlp:
            return random_mlp(net_key, Encoder(space), 0, (s.width,) * depth, s.embedding, True)

        value = self.sac.build_critic(value_key, Scalar())
        return RndClassicState(
            task=self.sac.init(task_key),
            prior=network(prior_key, 2),
            predictor=self.predictor_optimiser.start(network(predictor_key, 3)),
            intrinsic_value=self.sac.critic_optimiser.start(value),
            intrinsic_value_target=jax.tree.map(jnp.copy, value),
            explorer=self.sac.start_policy(explorer_key),
            value_scale=value_scale(),
            seen=_start_moments(space),
            returns=moments(),
        )

    @property
    def learned(self) -> tuple[Learned, ...]:
        """SAC's, the predictor, the intrinsic value with its target, and the explorer."""
        return (
            *(part.within(lambda state: state.task) for part in self.sac.learned),
            Learned(lambda state: state.predictor, self.predictor_optimiser),
            Learned(
                lambda state: state.intrinsic_value,
                self.sac.critic_optimiser,
                lambda state: state.intrinsic_value_target,
                self.settings.sac.polyak,
            ),
            Learned(lambda state: state.explorer.actor, self.sac.actor_optimiser),
        )

    def remember(self, num_envs: int) -> tuple[()]:
        """Nothing is carried along an episode."""
        return ()

    def act(
        self, state: RndClassicState, memory: Any, obs: Observation, first: Array, key: PRNGKeyArray
    ) -> tuple[Array, Any]:
        """The exploration actor makes all the data."""
        return state.explorer.actor.net.sample(obs, key), memory

    def exploit(
        self, state: RndClassicState, obs: Observation, key: PRNGKeyArray | None = None
    ) -> Array:
        """The exploitation actor's best guess, or with a key a draw."""
        return self.sac.exploit(state.task, obs, key)

    def view(self, state: RndClassicState, obs: Observation) -> Observation:
        """Observations as target and predictor see them."""
        clip = self.settings.observation_clip
        return _standardised(state.seen, self.spec.observation, obs, clip)

    def novelty(self, state: RndClassicState, obs: Observation) -> Float[Array, "batch"]:
        """The predictor's squared error."""
        return distillation_error(state.predictor.net, state.prior, self.view(state, obs))

    def update(
        self, state: RndClassicState, batch: Transition, key: PRNGKeyArray
    ) -> tuple[RndClassicState, Metrics]:
        """Pay for errors, distil, fit both values, improve both actors."""
        task_key, next_key, explore_key = jax.random.split(key, 3)
        task, task_metrics = self.sac.update(state.task, batch, task_key)
        if not isinstance(self.spec.observation, Index):
            state = state._replace(seen=state.seen.follow(batch.next_obs))
        state, target = self.intrinsic_target(state, batch, next_key)
        predictor, predictor_metrics = self.predictor_optimiser.descend(
            state.predictor, distillation_loss, state.prior, self.view(state, batch.next_obs)
        )
        value, value_metrics = self.sac.critic_optimiser.descend(
            state.intrinsic_value, task_value_loss, batch, target
        )
        state = state._replace(
            task=task,
            predictor=predictor,
            intrinsic_value=value,
            intrinsic_value_target=interpolate(
                state.intrinsic_value_target, value.net, self.settings.sac.polyak
            ),
        )
        state, explorer_metrics = self.improve_explorer(state, batch.obs, explore_key)
        metrics = {
            "train/intrinsic_value_loss": value_metrics["train/critic_loss"],
            "explore/return_std": state.returns.std,
        }
        return state, task_metrics | predictor_metrics | metrics | explorer_metrics

    def intrinsic_target(
        self, state: RndClassicState, batch: Transition, key: PRNGKeyArray
    ) -> tuple[RndClassicState, Float[Array, "batch"]]:
        """Error at s' plus gamma Q_int(s', a'), and all of it over the spread of such returns."""
        ahead, _ = state.explorer.actor.net.expect(
            batch.next_obs, key, state.intrinsic_value_target
        )
        # the critic speaks in normalised units; returns are watched in the error's own
        ahead = self.settings.sac.discount * batch.discount * ahead * state.returns.std
        raw = jax.lax.stop_gradient(self.novelty(state, batch.next_obs) + ahead)
        returns = state.returns.follow(raw)
        return state._replace(returns=returns), raw / returns.std

    def optimistic_value(
        self, state: RndClassicState, obs: Observation, action: Array
    ) -> Float[Array, "batch"]:
        """b / S + weight * Q_int: what the exploration actor maximises."""
        task_value, bonus = state.task.task_value.net, state.intrinsic_value.net
        return self.explorer.optimistic_value(state.value_scale, task_value, bonus, obs, action)

    def improve_explorer(
        self, state: RndClassicState, obs: Observation, key: PRNGKeyArray
    ) -> tuple[RndClassicState, Metrics]:
        """One step of the exploration actor up the optimistic value; S follows the task value."""
        optimistic, task_value = partial(self.optimistic_value, state), state.task.task_value.net
        explorer, scale, metrics = self.explorer.improve(
            state.explorer, state.value_scale, optimistic, task_value, obs, key
        )
        return state._replace(explorer=explorer, value_scale=scale), metrics

    def refresh(self, state: RndClassicState, key: PRNGKeyArray) -> RndClassicState:
        """RND resets nothing."""
        return state

    def diagnose(self, state: RndClassicState, batch: Transition) -> Metrics:
        """Dormant units of the exploration actor, and S."""
        return self.explorer.diagnose(state.explorer, state.value_scale, batch)

    def maps(self, state: RndClassicState, obs: Observation) -> dict[str, Array]:
        """The error, the values at the exploration actor's mode, and the task value."""
        action = state.explorer.actor.net.mode(obs)
        value = state.intrinsic_value.net(obs, action)
        optimistic = self.optimistic_value(state, obs, action)
        own = {"prediction error": self.novelty(state, obs), "intrinsic value": value}
        return own | {"optimistic value": optimistic} | self.sac.maps(state.task, obs)


def _start_moments(space: Vector | Index) -> Moments:
    """Moments of observations before there were any; a one-hot observation needs none."""
    return moments(() if isinstance(space, Index) else (space.size,))


def _standardised(
    seen: Moments, space: Vector | Index, obs: Observation, clip: float
) -> Observation:
    """Observations of zero mean and unit variance, clipped; a one-hot one is left alone."""
    if isinstance(space, Index):
        return obs
    return jnp.clip((obs - seen.mean) / seen.std, -clip, clip)


def distillation_error(predictor: Mlp, prior: Mlp, seen: Observation) -> Float[Array, "batch"]:
    """The mean over outputs of the predictor's squared error: how new observations look."""
    return jnp.mean((predictor(seen) - prior(seen)) ** 2, axis=-1)


def distillation_loss(predictor: Mlp, prior: Mlp, seen: Observation) -> tuple[Array, Metrics]:
    """Predict the random network where there is data."""
    loss = distillation_error(predictor, prior, seen).mean()
    return loss, {"explore/novelty": loss}
