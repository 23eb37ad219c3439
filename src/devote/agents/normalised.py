"""Normalised observations for any agent."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from devote.core.trees import where
from devote.core.types import (
    Agent,
    EnvSpec,
    Metrics,
    Observation,
    Transition,
    Vector,
    observe,
)
from devote.epistemic.moments import Moments, moments

CONSTANT = 1e-4
"""An entry with a smaller standard deviation is not scaled."""
SPREAD = 2.0
"""Standard deviations that count as half the range of an entry without bounds."""


class View(NamedTuple):
    """Centre and half-range of every entry."""

    middle: Float[Array, "entries"]
    half: Float[Array, "entries"]

    def __call__(self, obs: Observation) -> Observation:
        """Observations scaled to about [-1, 1], not clipped."""
        return (obs - self.middle) / self.half


class NormalisedState(NamedTuple):
    """The wrapped agent's state and the normalisation."""

    agent: Any
    view: View
    seen: Moments
    updates: Int[Array, ""]


@dataclass(frozen=True)
class Normalised:
    """Scales by the task's bounds, or by moments of the data where there are none.

    The moments that scale are renewed only at updates 1, 2, 4, 8 and so on. In between the prior
    is a fixed function of the observation, so that novelty falls by learning alone; and each
    renewal has twice the data of the one before, so that it soon changes little.
    """

    agent: Agent
    spec: EnvSpec

    @property
    def sequence_length(self) -> int:
        """The wrapped agent's."""
        return self.agent.sequence_length

    @property
    def bounds(self) -> View:
        """By the task's bounds; not finite where it has none."""
        space = self.spec.observation
        assert isinstance(space, Vector)
        low, high = jnp.asarray(space.low), jnp.asarray(space.high)
        return View((low + high) / 2, (high - low) / 2)

    def look(self, seen: Moments) -> View:
        """By the bounds, and by the data where there are none."""
        bounds = self.bounds
        known = jnp.isfinite(bounds.half)
        moved = jnp.sqrt(seen.variance)
        half = jnp.where(moved < CONSTANT, 1.0, SPREAD * moved)
        return View(jnp.where(known, bounds.middle, seen.mean), jnp.where(known, bounds.half, half))

    def init(self, key: PRNGKeyArray) -> NormalisedState:
        """A fresh state; entries without bounds are not scaled until the first update."""
        seen = moments((self.spec.observation.size,))
        plain = seen._replace(variance=jnp.zeros_like(seen.variance))
        return NormalisedState(self.agent.init(key), self.look(plain), seen, jnp.int32(0))

    def remember(self, num_envs: int) -> Any:
        """The wrapped agent's memory."""
        return self.agent.remember(num_envs)

    def act(
        self, state: NormalisedState, memory: Any, obs: Observation, first: Array, key: PRNGKeyArray
    ) -> tuple[Array, Any]:
        """The wrapped agent's behaviour."""
        return self.agent.act(state.agent, memory, state.view(obs), first, key)

    def exploit(
        self, state: NormalisedState, obs: Observation, key: PRNGKeyArray | None = None
    ) -> Array:
        """The wrapped agent's best guess, or with a key a draw."""
        return self.agent.exploit(state.agent, state.view(obs), key)

    def observe(
        self,
        state: NormalisedState,
        steps: Transition,
        valid: Array | None,
        key: PRNGKeyArray,
        number: Int[Array, ""],
    ) -> NormalisedState:
        """The wrapped agent's, of normalised steps."""
        view = state.view
        if getattr(self.agent, "chooses", False):  # by what it will see from the first update on
            view = where(state.updates == 0, self.look(state.seen.follow(steps.obs)), view)
        agent = observe(self.agent, state.agent, _through(view, steps), valid, key, number)
        return state._replace(agent=agent)

    @property
    def recounts(self) -> bool:
        """Whether the wrapped agent counts steps, and the scales of its inputs may change."""
        space = self.spec.observation
        assert isinstance(space, Vector)
        moves = not all(isfinite(edge) for edge in (*space.low, *space.high))
        return moves and getattr(self.agent, "counts", False)

    def forget(self, state: NormalisedState) -> NormalisedState:
        """The state before the wrapped agent has counted any step."""
        return state._replace(agent=self.agent.forget(state.agent))  # type: ignore[attr-defined]

    def update(
        self, state: NormalisedState, batch: Transition, key: PRNGKeyArray
    ) -> tuple[NormalisedState, Metrics]:
        """Update the moments, renew the scales if due, and update the agent."""
        seen, updates = state.seen.follow(batch.obs), state.updates + 1
        due = (updates & (updates - 1)) == 0
        view = where(due, self.look(seen), state.view)
        agent, metrics = self.agent.update(state.agent, _through(view, batch), key)
        return NormalisedState(agent, view, seen, updates), metrics

    def refresh(self, state: NormalisedState, key: PRNGKeyArray) -> NormalisedState:
        """The wrapped agent's soft reset."""
        return state._replace(agent=self.agent.refresh(state.agent, key))

    def diagnose(self, state: NormalisedState, batch: Transition) -> Metrics:
        """The wrapped agent's costly metrics, and how far observations lie outside [-1, 1]."""
        beyond = jnp.abs(state.view(batch.obs)).max()
        metrics = self.agent.diagnose(state.agent, _through(state.view, batch))
        return metrics | {"train/largest_input": beyond}

    def maps(self, state: NormalisedState, obs: Observation) -> dict[str, Array]:
        """The wrapped agent's maps."""
        return self.agent.maps(state.agent, state.view(obs))


def normalised(build: Callable[[Any, EnvSpec], Agent], settings: Any, spec: EnvSpec) -> Agent:
    """The agent, wrapped if observations have physical units or are bytes."""
    space = spec.observation
    if not (isinstance(space, Vector) and (space.own_units or space.dtype == "uint8")):
        return build(settings, spec)
    # bins are those of observations as they are, which the wrapped agent does not see
    view = Vector((-1.0,) * space.size, (1.0,) * space.size, integers=space.integers)
    inner = replace(spec, observation=view, grid=None)
    return Normalised(build(settings, inner), spec)


def _through(view: View, batch: Transition) -> Transition:
    return batch._replace(obs=view(batch.obs), next_obs=view(batch.next_obs))
