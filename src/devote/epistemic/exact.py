"""The corrector in closed form: what is left of a random prior once it is fitted to zeros.

The prior is g_z = phi' w_z with w_z standard normal and phi shared by all indices. After data
phi_1, ..., phi_n the corrector that minimises the sum of (c + g_z)^2 under a ridge lambda leaves

    c + g_z = phi' W_z,    (A + lambda I) W_z = lambda w_z,    A = sum of phi_i phi_i',

which shrinks as 1 / n where there is data and is g_z elsewhere. With noise of variance lambda on
the zeros, sqrt(lambda) sum of phi_i e_i joins the right-hand side: then phi' W_z is a draw from
the Gaussian process posterior (Matheron's rule), and shrinks as 1 / sqrt(n). Nothing is trained:
no learning rate, no target network, no floor, and every transition counts once, when it is made.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from devote.core.errors import UserError
from devote.core.types import Choice, EnvSpec, Index, Observation, Vector
from devote.nets.encoder import Encoder
from devote.nets.fourier import Fourier, fourier
from devote.nets.functions import cos
from devote.nets.layers import Lookup


class Remainder(NamedTuple):
    """A prior on Fourier features, and what the data has left of it."""

    features: Fourier
    prior: Float[Array, "features index"]
    """w_z."""
    noise: Float[Array, "features index"]
    """The sum of phi_i e_i; zero without noise."""
    gram: Float[Array, "features features"]
    """A."""
    left: Float[Array, "index features"]
    """W_z as of the last solve; this way round the product with features is fast on CPUs."""


class HashedRemainder(NamedTuple):
    """The same for vectors of integers with discrete actions: every pair is a feature, found by a
    hash. Two pairs that share a row count as one."""

    prior: Float[Array, "few index"]
    noise: Float[Array, "rows index"]
    """No rows without noise."""
    visits: Float[Array, "rows"]


HASHES, PRIORS = 2**19, 2**12
"""Rows for hashed pairs, and for the priors among them, of which several may have the same."""


class TabularRemainder(NamedTuple):
    """The same for observations that are an index: every state and action is its own feature."""

    prior: Lookup
    noise: Lookup
    visits: Lookup
    """How often each action was taken in each state."""


@dataclass(frozen=True)
class TrueCounts:
    """The ceiling: 1 / sqrt(visits) of the bins by which coverage is judged, as every c + g."""

    num_bins: int
    bin_of: Callable[[Observation], Array]
    num_indices: int

    def init(self, key: PRNGKeyArray) -> Lookup:
        """No visits."""
        return Lookup(jnp.zeros((self.num_bins, 1)))

    def observe(
        self,
        state: Lookup,
        obs: Observation,
        action: Array,
        valid: Any,
        key: PRNGKeyArray,
        number: Any = 0,
    ) -> Lookup:
        """Count the bins of steps that were just made."""
        times = 1.0 if valid is None else valid.astype(jnp.float32)
        bins = self.bin_of(obs)
        bins = jnp.where(bins < 0, self.num_bins, bins)  # dropped
        return Lookup(state.table.at[bins, 0].add(times, mode="drop"))

    def residual(
        self, state: Lookup, obs: Observation, action: Array
    ) -> Float[Array, "index *batch"]:
        """1 / sqrt(visits), the same for all indices and actions; 1 where nobody has been."""
        left = jax.lax.rsqrt(jnp.maximum(state(self.bin_of(obs))[..., 0], 1.0))
        return jnp.broadcast_to(left, (self.num_indices, *left.shape))


def true_counts(spec: EnvSpec, num_indices: int) -> TrueCounts:
    """Counts over the coverage bins of a task, which its observations must tell."""
    if spec.grid is None or spec.grid.bin_of is None:
        raise UserError(
            "a task whose observations tell their coverage bin, for true counts",
            spec.name,
            "use spiral, u_maze, deep_sea or cheetah, or another agent",
        )
    bin_of = spec.grid.bin_of
    return TrueCounts(spec.grid.size, lambda obs: bin_of(obs, jnp), num_indices)


@dataclass(frozen=True)
class ExactCorrector:
    """How the remainder of a prior is made, kept up with the data, and read."""

    spec: EnvSpec
    num_indices: int
    sees_action: bool
    """Whether novelty is of states and actions, or of states alone."""
    basis_size: int
    length_scale: float
    ridge: float
    noisy: bool
    solve_interval: int

    def init(self, key: PRNGKeyArray) -> Remainder | TabularRemainder | HashedRemainder:
        """The prior before any data."""
        feature_key, weight_key = jax.random.split(key)
        space, actions = self.spec.observation, self.spec.action.size if self.sees_action else 0
        if isinstance(space, Vector) and space.integers and isinstance(self.spec.action, Choice):
            prior = jax.random.normal(weight_key, (PRIORS, self.num_indices))
            noise = jnp.zeros((HASHES if self.noisy else 0, self.num_indices))
            return HashedRemainder(prior, noise, jnp.zeros(HASHES))
        if isinstance(space, Index):
            actions = max(actions, 1)
            prior = jax.random.normal(weight_key, (space.size, actions * self.num_indices))
            visits = Lookup(jnp.zeros((space.size, actions)))
            return TabularRemainder(Lookup(prior), Lookup(jnp.zeros_like(prior)), visits)
        features = fourier(
            feature_key, Encoder(space), actions, self.basis_size, self.length_scale, squash=False
        )
        prior = jax.random.normal(weight_key, (self.basis_size, self.num_indices))
        gram = jnp.zeros((self.basis_size, self.basis_size))
        return Remainder(features, prior, jnp.zeros_like(prior), gram, prior.T)

    def observe(
        self,
        state: Any,
        obs: Observation,
        action: Float[Array, "batch action"],
        valid: Array | None,
        key: PRNGKeyArray,
        number: Int[Array, ""] | int = 0,
    ) -> Any:
        """Count steps that were just made; every few of these rounds, solve for what is left."""
        action = self._seen(action)
        weight = jnp.ones(action.shape[0]) if valid is None else valid.astype(jnp.float32)
        noise = jnp.zeros((action.shape[0], self.num_indices))
        if self.noisy:
            noise = jax.random.normal(key, noise.shape) * weight[:, None]
        if isinstance(state, HashedRemainder):
            row = self._row(obs, action)
            if self.noisy:
                state = state._replace(noise=state.noise.at[row].add(noise))
            return state._replace(visits=state.visits.at[row].add(weight))
        if isinstance(state, TabularRemainder):
            heard = (action[:, :, None] * noise[:, None, :]).reshape(action.shape[0], -1)
            return state._replace(
                noise=Lookup(state.noise.table.at[obs].add(heard)),
                visits=Lookup(state.visits.table.at[obs].add(action * weight[:, None])),
            )
        phi = state.features.features(obs, action) * weight[:, None]
        state = state._replace(gram=state.gram + phi.T @ phi, noise=state.noise + phi.T @ noise)
        due = jnp.asarray(number) % self.solve_interval == 0
        return state._replace(left=jax.lax.cond(due, self.solve, lambda s: s.left, state))

    def forget(self, state: Any) -> Any:
        """The state before any data but for what was left, which stays until the next solve."""
        if isinstance(state, HashedRemainder):
            noise, visits = jax.tree.map(jnp.zeros_like, (state.noise, state.visits))
            return state._replace(noise=noise, visits=visits)
        nothing = jax.tree.map(jnp.zeros_like, (state.gram, state.noise))
        return state._replace(gram=nothing[0], noise=nothing[1])

    def solve(self, state: Remainder) -> Float[Array, "index features"]:
        """W_z for all data so far."""
        gram = state.gram + self.ridge * jnp.eye(self.basis_size)
        factor = jax.lax.linalg.cholesky(gram, symmetrize_input=False)  # it reads one triangle
        right = self.ridge * state.prior + self.ridge**0.5 * state.noise
        return jax.scipy.linalg.cho_solve((factor, True), right).T

    def residual(
        self, state: Any, obs: Observation, action: Float[Array, "*batch action"]
    ) -> Float[Array, "index *batch"]:
        """c + g."""
        action = self._seen(action)
        if isinstance(state, Remainder):
            if self.sees_action and isinstance(self.spec.action, Choice):
                return self._of_choice(state, obs, action)
            phi = state.features.features(obs, action)
            return jnp.einsum("zf,...f->z...", state.left, phi)
        if isinstance(state, HashedRemainder):
            row = self._row(obs, action)
            right = self.ridge * state.prior[row % PRIORS]
            if self.noisy:
                right = right + self.ridge**0.5 * state.noise[row]
            return jnp.moveaxis(right / (state.visits[row] + self.ridge)[..., None], -1, 0)
        shape = (*action.shape, self.num_indices)
        right = self.ridge * state.prior(obs) + self.ridge**0.5 * state.noise(obs)
        left = right.reshape(shape) / (state.visits(obs) + self.ridge)[..., None]
        return jnp.moveaxis(jnp.sum(action[..., None] * left, axis=-2), -1, 0)

    def _row(self, obs: Observation, action: Float[Array, "*batch seen"]) -> Int[Array, "*batch"]:
        """The hash of an observation and an action."""
        # scaling may have made fractions of the integers, which are rounded alike everywhere
        whole = jnp.round(obs * 4096).astype(jnp.int32).astype(jnp.uint32)
        odd = np.random.default_rng(0).integers(2**31, size=obs.shape[-1], dtype=np.uint32) * 2 + 1
        mixed = jnp.sum(whole * odd, axis=-1, dtype=jnp.uint32)
        mixed = (mixed + jnp.argmax(action, axis=-1).astype(jnp.uint32)) * np.uint32(0x9E3779B1)
        mixed = (mixed ^ (mixed >> 15)) * np.uint32(0x85EBCA6B)
        return ((mixed ^ (mixed >> 13)) % HASHES).astype(jnp.int32)

    def _of_choice(
        self, state: Remainder, obs: Observation, action: Float[Array, "*batch action"]
    ) -> Float[Array, "index *batch"]:
        """c + g of every discrete action, of which the given one is picked: by the addition theorem
        of the cosine, what reads the observation is computed once for all actions."""
        phase = state.features.phase
        assert phase.action is not None
        seen, scale = phase(obs, jnp.zeros_like(action)), (2 / self.basis_size) ** 0.5
        turns = jnp.stack([cos(phase.action), cos(phase.action + 0.5 * jnp.pi)])
        left = scale * state.left[:, None, None] * turns.swapaxes(0, 1)
        views = jnp.concatenate([cos(seen), cos(seen - 0.5 * jnp.pi)], axis=-1)
        choices = jnp.einsum("zaf,...f->za...", left.reshape(*left.shape[:2], -1), views)
        return jnp.einsum("...a,za...->z...", action, choices)

    def _seen(self, action: Float[Array, "*batch action"]) -> Float[Array, "*batch seen"]:
        """The action, or for every action the same one."""
        return action if self.sees_action else jnp.ones((*action.shape[:-1], 1))
