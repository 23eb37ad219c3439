"""DEVOTE: Algorithm 1 of the paper. It has a SAC, and beside it everything that explores."""

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray
from optax.tree_utils import tree_get_all_with_path

from devote.agents.explorer import Explorer
from devote.agents.sac import Policy, Sac, SacSettings, SacState
from devote.core.errors import UserError
from devote.core.learning import Learned, Learner, Optimiser
from devote.core.settings import Count, NonNegative, Positive, Share
from devote.core.trees import interpolate, where
from devote.core.types import EnvSpec, Metrics, Observation, Transition
from devote.epistemic.exact import ExactCorrector, TrueCounts, true_counts
from devote.epistemic.lengths import FIRST_STEPS, length_of, suited, with_lengths
from devote.epistemic.tud import (
    Propagation,
    Reading,
    ValueScale,
    bonus_of,
    bootstrap_mask,
    corrector_loss,
    dormant_fraction,
    effective_rank,
    novelty_value_loss,
    passed_on,
    residual,
    value_scale,
)
from devote.nets.critic import Scalar
from devote.nets.encoder import Encoder
from devote.nets.ensemble import Ensemble
from devote.nets.fourier import Readout, fourier
from devote.nets.own import Own, OwnPrior
from devote.nets.random_mlp import RandomMlp


@dataclass(frozen=True)
class DevoteSettings:
    """DEVOTE; defaults are the paper's table."""

    sac: SacSettings = field(default_factory=SacSettings)
    num_indices: Count = 8
    """Epistemic indices z, uniform."""
    prior: Literal["fourier", "relu"] = "fourier"
    """Kind of prior and corrector; relu is the ablation without RFN."""
    num_features: Count = 1024
    """Fourier features of prior and corrector; width of both for relu."""
    relu_bias: bool = False
    """Random biases for a relu prior, without which it sees little but a direction."""
    length_scale: Positive = 1.0
    """ell: distance over which a Fourier prior varies, in units of the observation."""
    length_scales: tuple[Positive, ...] = ()
    """In place of `length_scale`: indices take these in turn, one prior for all scales (ours)."""
    choose_length: bool = False
    """All indices take the one of `length_scales` that suits the first replayed data (ours)."""
    readout: Readout = "ones"
    """Readout of a Fourier network; the authors' code draws it from a normal."""
    prior_sees_action: bool = True
    """g(s, a, z) as in the paper; the authors' code has g(s, z)."""
    corrector_sees_action: bool = True
    """c(s, a, z); without the action it cancels g(s, z) sooner, and novelty is of states alone."""
    bootstrap_probability: Share = 0.5
    """Chance that an index learns from a transition of a batch."""
    corrector_rate: Positive = 3e-4
    """Learning rate of the corrector."""
    corrector_polyak: Share = 0.005
    """Rate at which the corrector's target follows; without TUD all targets follow at `polyak`."""
    propagation: Propagation = "magnitude"
    """TUD-OPT passes on |c + g|, TUD the signed residual."""
    bonus_has_novelty: bool = True
    """Bonus rb + |c + g| as in the paper; the authors' code has rb alone."""
    bonus: Reading = "mean"
    """Mean over z of magnitudes (DEVOTE), or standard deviation over z (UCB)."""
    optimism: NonNegative = 1.0
    """beta: weight of the bonus beside b / S in the exploration objective."""
    normalise_value: bool = True
    """Divide b by S in the exploration objective."""
    reset_strength: Share = 0.5
    """lambda: share of fresh weights that a soft reset mixes in; 0 for no soft resets."""
    reset_target: bool = False
    """Soften the target of rb as well (authors' code)."""
    corrector: Literal["adam", "exact", "counts"] = "adam"
    """How c is fitted: by gradient steps as in the paper, or in closed form (ours); counts takes
    the true 1 / sqrt(visits) of coverage bins for c + g, to show what is possible."""
    basis_size: Count = 512
    """Fourier features that all indices share under an exact corrector."""
    ridge: Positive = 1.0
    """Visits after which an exact corrector has cancelled half of the prior."""
    posterior_noise: bool = False
    """Exact residuals are draws from the posterior, falling as 1 / sqrt(n) instead of 1 / n."""
    solve_interval: Count = 4
    """Rounds of steps between two solves of an exact corrector."""
    unknown_value: NonNegative = 0.0
    """V: what the unknown is worth; it takes the place of rb as |c + g| nears 1 (ours); 0: off."""
    all_diagnostics: bool = False
    """Log of the exploration actor's last layer the share of dormant units at a threshold of 0.025
    (authors' code) and the effective rank, too."""

    def __post_init__(self) -> None:
        if self.choose_length and not self.length_scales:
            raise UserError("length_scales to choose from", "none", "give some: 1 2.5 5 7.5")
        if self.length_scales and self.corrector != "adam":
            got, fix = f"corrector {self.corrector}", "give one length_scale instead"
            raise UserError("a corrector that is trained, for length_scales", got, fix)


class DevoteState(NamedTuple):
    """All that changes, and the prior."""

    task: SacState
    prior: Any
    """Fixed random functions; empty under an exact corrector, which holds its own."""
    corrector: Any
    """A `Learner`, or an exact corrector's remainder."""
    corrector_target: Any
    novelty_value: Learner
    novelty_value_target: Ensemble
    explorer: Policy
    value_scale: ValueScale
    resets: Array


@dataclass(frozen=True)
class Devote:
    """Deep Epistemic Value functions for OpTimistic Exploration."""

    settings: DevoteSettings
    spec: EnvSpec
    own: Own = field(default_factory=Own)
    """Networks, prior and optimiser in place of those that the settings describe."""
    sequence_length: ClassVar[int] = 1

    @cached_property
    def sac(self) -> Sac:
        """The backbone: task value and exploitation actor."""
        return Sac(self.settings.sac, self.spec, self.own)

    @cached_property
    def explorer(self) -> Explorer:
        """The exploration actor's objective and step."""
        return Explorer(self.sac, self.settings.optimism, self.settings.normalise_value)

    @cached_property
    def corrector_optimiser(self) -> Optimiser:
        return self.sac.optimiser(self.settings.corrector_rate)

    @cached_property
    def exact(self) -> ExactCorrector | TrueCounts | None:
        """The corrector in closed form, where it is asked for."""
        s = self.settings
        if s.corrector == "adam":
            return None
        if s.corrector == "counts":
            return true_counts(self.spec, s.num_indices)
        return ExactCorrector(
            self.spec,
            s.num_indices,
            s.prior_sees_action,
            s.basis_size,
            s.length_scale,
            s.ridge,
            s.posterior_noise,
            s.solve_interval,
        )

    def build_prior(self, key: PRNGKeyArray, sees_action: bool) -> Ensemble:
        """Fresh random functions, one per index; the corrector is another such draw."""
        s, space = self.settings, self.spec.observation
        action_size = self.spec.action.size if sees_action else 0

        def build(member_key: PRNGKeyArray) -> Any:
            if self.own.prior is not None:
                return OwnPrior(member_key, self.own.prior, Encoder(space), action_size)
            if s.prior == "fourier":
                raw = Encoder(space)  # the length scale is in units of the observation
                length = 1.0 if s.length_scales else s.length_scale
                return fourier(member_key, raw, action_size, s.num_features, length, s.readout)
            encoder = Encoder(space, s.sac.scale_inputs)
            width = (s.num_features,) * 2
            return RandomMlp(member_key, encoder, action_size, width, s.relu_bias)

        net = Ensemble(key, s.num_indices, build)
        if s.prior != "fourier" or not s.length_scales or s.choose_length or self.own.prior:
            return net
        return with_lengths(net, jnp.resize(jnp.asarray(s.length_scales), (s.num_indices,)))

    def build_novelty_value(self, key: PRNGKeyArray) -> Ensemble:
        """Fresh residual bootstrap networks that predict 0."""
        return Ensemble(
            key, self.settings.num_indices, lambda k: self.sac.build_critic(k, Scalar())
        )

    def init(self, key: PRNGKeyArray) -> DevoteState:
        """A fresh state."""
        task_key, prior_key, corrector_key, value_key, explorer_key = jax.random.split(key, 5)
        prior, corrector, corrector_target = self.start_residual(prior_key, corrector_key)
        novelty_value = self.build_novelty_value(value_key)
        return DevoteState(
            task=self.sac.init(task_key),
            prior=prior,
            corrector=corrector,
            corrector_target=corrector_target,
            novelty_value=self.sac.critic_optimiser.start(novelty_value),
            novelty_value_target=jax.tree.map(jnp.copy, novelty_value),
            explorer=self.sac.start_policy(explorer_key),
            value_scale=value_scale(),
            resets=jnp.zeros((), jnp.int32),
        )

    def start_residual(
        self, prior_key: PRNGKeyArray, corrector_key: PRNGKeyArray
    ) -> tuple[Any, Any, Any]:
        """Fresh prior, corrector and target of the corrector."""
        if self.exact is not None:
            return (), self.exact.init(prior_key), ()
        prior = self.build_prior(prior_key, self.settings.prior_sees_action)
        corrector = self.build_prior(corrector_key, self.settings.corrector_sees_action)
        learner = self.corrector_optimiser.start(corrector)
        return prior, learner, jax.tree.map(jnp.copy, corrector)

    @property
    def learned(self) -> tuple[Learned, ...]:
        """SAC's, the corrector and the novelty value with their targets, and the explorer."""
        s = self.settings
        corrector = Learned(
            lambda state: state.corrector,
            self.corrector_optimiser,
            lambda state: state.corrector_target,
            s.corrector_polyak,
        )
        return (
            *(part.within(lambda state: state.task) for part in self.sac.learned),
            *((corrector,) if self.exact is None else ()),
            Learned(
                lambda state: state.novelty_value,
                self.sac.critic_optimiser,
                lambda state: state.novelty_value_target,
                s.sac.polyak,
            ),
            Learned(lambda state: state.explorer.actor, self.sac.actor_optimiser),
        )

    def remember(self, num_envs: int) -> tuple[()]:
        """Nothing is carried along an episode."""
        return ()

    def act(
        self, state: DevoteState, memory: Any, obs: Observation, first: Array, key: PRNGKeyArray
    ) -> tuple[Array, Any]:
        """The exploration actor makes all the data."""
        return state.explorer.actor.net.sample(obs, key), memory

    def observe(
        self,
        state: DevoteState,
        steps: Transition,
        valid: Array | None,
        key: PRNGKeyArray,
        number: Int[Array, ""],
    ) -> DevoteState:
        """An exact corrector takes in every step once; a length scale is chosen by the first."""
        if self.settings.choose_length:
            if valid is not None:
                steps = where(valid, steps, jax.tree.map(lambda x: x[:1], steps))
            return self.choose_length(state, steps)
        if self.exact is None:
            return state
        corrector = self.exact.observe(state.corrector, steps.obs, steps.action, valid, key, number)
        return state._replace(corrector=corrector)

    @property
    def chooses(self) -> bool:
        """Whether the first steps decide the length scale."""
        return self.settings.choose_length

    @property
    def counts(self) -> bool:
        """Whether steps that were counted must be counted again when seen in other units."""
        return isinstance(self.exact, ExactCorrector)

    def choose_length(self, state: DevoteState, steps: Transition) -> DevoteState:
        """Before the first update, prior and corrector take the length that suits the data."""
        s, counts = self.settings, tree_get_all_with_path(state.corrector.moments, "count")
        if s.prior != "fourier" or len(steps.reward) < FIRST_STEPS:
            return state
        if not counts:
            fix = "use another optimiser, or give one length_scale"
            raise UserError("an optimiser that counts its steps, for choose_length", "none", fix)

        def chosen(nets: Any) -> Any:
            length = suited(steps, self.spec.observation, s.length_scales, s.prior_sees_action)
            every = jnp.full(s.num_indices, length)
            return tuple(with_lengths(net, every) for net in nets)

        nets = state.prior, state.corrector.net, state.corrector_target
        prior, net, target = jax.lax.cond(counts[0][1] == 0, chosen, lambda nets: nets, nets)
        learner = state.corrector._replace(net=net)
        return state._replace(prior=prior, corrector=learner, corrector_target=target)

    def forget(self, state: DevoteState) -> DevoteState:
        """The state before an exact corrector has counted any step."""
        assert isinstance(self.exact, ExactCorrector)
        return state._replace(corrector=self.exact.forget(state.corrector))

    def exploit(
        self, state: DevoteState, obs: Observation, key: PRNGKeyArray | None = None
    ) -> Array:
        """The exploitation actor's best guess, or with a key a draw."""
        return self.sac.exploit(state.task, obs, key)

    def update(
        self, state: DevoteState, batch: Transition, key: PRNGKeyArray
    ) -> tuple[DevoteState, Metrics]:
        """Algorithm 1: fit the critics, move the targets, improve both actors."""
        s = self.settings
        task_key, mask_key, next_key, explore_key = jax.random.split(key, 4)
        task, task_metrics = self.sac.update(state.task, batch, task_key)

        mask = bootstrap_mask(
            mask_key, s.num_indices, batch.reward.shape[0], s.bootstrap_probability
        )
        corrector, corrector_target, corrector_metrics = self.fit_corrector(state, batch, mask)
        novelty_value, value_metrics = self.sac.critic_optimiser.descend(
            state.novelty_value,
            novelty_value_loss,
            batch,
            self.novelty_target(state, batch, next_key),
            mask,
        )
        state = state._replace(
            task=task,
            corrector=corrector,
            corrector_target=corrector_target,
            novelty_value=novelty_value,
            novelty_value_target=interpolate(
                state.novelty_value_target, novelty_value.net, s.sac.polyak
            ),
        )
        state, explorer_metrics = self.improve_explorer(state, batch.obs, explore_key)
        return state, task_metrics | corrector_metrics | value_metrics | explorer_metrics

    def fit_corrector(
        self, state: DevoteState, batch: Transition, mask: Float[Array, "index batch"]
    ) -> tuple[Any, Any, Metrics]:
        """A step of the corrector and its target; an exact one is at its minimum already."""
        if self.exact is not None:
            return state.corrector, (), {}
        corrector, metrics = self.corrector_optimiser.descend(
            state.corrector, corrector_loss, state.prior, batch, mask
        )
        rate = self.settings.corrector_polyak
        return corrector, interpolate(state.corrector_target, corrector.net, rate), metrics

    def residual(
        self, state: DevoteState, obs: Observation, action: Array, at_target: bool = False
    ) -> Float[Array, "index batch"]:
        """c + g, of the corrector or of its target."""
        if self.exact is not None:
            return self.exact.residual(state.corrector, obs, action)
        corrector = state.corrector_target if at_target else state.corrector.net
        return residual(corrector, state.prior, obs, action)

    def novelty_target(
        self, state: DevoteState, batch: Transition, key: PRNGKeyArray
    ) -> Float[Array, "index batch"]:
        """gamma (|c + g| + rb)(s', a', z) at target networks, a' from the exploration actor."""

        def ahead(obs: Observation, action: Array) -> Float[Array, "index batch"]:
            local = self.residual(state, obs, action, at_target=True)
            value = state.novelty_value_target(obs, action)
            return passed_on(local, value, self.settings.propagation, self.settings.unknown_value)

        value, _ = state.explorer.actor.net.expect(batch.next_obs, key, ahead)
        return self.settings.sac.discount * batch.discount * value

    def value(
        self, state: DevoteState, obs: Observation, action: Array
    ) -> Float[Array, "index batch"]:
        """Q(s, a, z) = b + rb + c + g."""
        local = self.residual(state, obs, action)
        return state.task.task_value.net(obs, action) + state.novelty_value.net(obs, action) + local

    def bonus(self, state: DevoteState, obs: Observation, action: Array) -> Float[Array, "batch"]:
        """The mean over z of rb + |c + g| (eq. 13), or the spread over z of rb + c + g."""
        value = state.novelty_value.net(obs, action)
        local = jnp.zeros_like(value)
        if self.settings.bonus_has_novelty:
            local = self.residual(state, obs, action)
        return bonus_of(self.settings.bonus, local, value, self.settings.unknown_value)

    def optimistic_value(
        self, state: DevoteState, obs: Observation, action: Array
    ) -> Float[Array, "batch"]:
        """b / S + beta * bonus: what the exploration actor maximises."""
        task_value, bonus = state.task.task_value.net, partial(self.bonus, state)
        return self.explorer.optimistic_value(state.value_scale, task_value, bonus, obs, action)

    def improve_explorer(
        self, state: DevoteState, obs: Observation, key: PRNGKeyArray
    ) -> tuple[DevoteState, Metrics]:
        """One step of the exploration actor up the optimistic value; S follows the task value."""
        optimistic, task_value = partial(self.optimistic_value, state), state.task.task_value.net
        explorer, scale, metrics = self.explorer.improve(
            state.explorer, state.value_scale, optimistic, task_value, obs, key
        )
        return state._replace(explorer=explorer, value_scale=scale), metrics

    def refresh(self, state: DevoteState, key: PRNGKeyArray) -> DevoteState:
        """Soft reset (eq. 11) of the novelty value and the exploration actor, nothing else."""
        if self.settings.reset_strength == 0:
            return state
        value_key, target_key, actor_key = jax.random.split(key, 3)
        strength = self.settings.reset_strength
        value = interpolate(state.novelty_value.net, self.build_novelty_value(value_key), strength)
        target = state.novelty_value_target
        if self.settings.reset_target:
            target = interpolate(target, self.build_novelty_value(target_key), strength)
        actor = interpolate(state.explorer.actor.net, self.sac.build_actor(actor_key), strength)
        return state._replace(
            novelty_value=state.novelty_value._replace(net=value),
            novelty_value_target=target,
            explorer=state.explorer._replace(actor=state.explorer.actor._replace(net=actor)),
            resets=state.resets + 1,
        )

    def diagnose(self, state: DevoteState, batch: Transition) -> Metrics:
        """Dormant units of the exploration actor, S, resets so far, and the spread of Q over z."""
        local = self.residual(state, batch.obs, batch.action)
        unsure = state.novelty_value.net(batch.obs, batch.action) + local  # b has no z
        metrics = self.explorer.diagnose(state.explorer, state.value_scale, batch) | {
            "plasticity/reset_count": state.resets,
            "epistemic/sigma_q": unsure.std(axis=0).mean(),
        }
        if self.exact is not None:  # no loss of a corrector says it
            metrics["explore/novelty"] = jnp.abs(local).mean()
        if self.settings.choose_length and self.settings.prior == "fourier":
            metrics["epistemic/length_scale"] = length_of(state.prior)
        if self.settings.all_diagnostics:
            last = state.explorer.actor.net.body.hidden(batch.obs)[-1]
            metrics["plasticity/dormant_last"] = dormant_fraction([last], threshold=0.025)
            metrics["plasticity/effective_rank"] = effective_rank(last)
        return metrics

    def maps(self, state: DevoteState, obs: Observation) -> dict[str, Array]:
        """Mean |c + g| and rb at the exploration actor's mode, as in the paper's snapshots; what it
        climbs there; and the task value at the exploitation actor's."""
        action = state.explorer.actor.net.mode(obs)
        local = self.residual(state, obs, action)
        return {
            "novelty |c + g|": jnp.abs(local).mean(axis=0),
            "novelty value rb": state.novelty_value.net(obs, action).mean(axis=0),
            "optimistic value": self.optimistic_value(state, obs, action),
        } | self.sac.maps(state.task, obs)
