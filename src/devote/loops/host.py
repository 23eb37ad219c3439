"""The compiled loop's schedule around environments on the host: what is compiled of it.

Three small programs take the place of the one in `fused`: `act` decides and parts the keys of a
vector step, `learn` stores a round and makes its updates, `summarise` is run once per chunk. Keys
are split as in `fused`, so that the same environment gives the same numbers in both.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from devote.core.types import Agent, EnvSpec, Index, Metrics, Outcome, Transition
from devote.loops.episodes import Episodes, Finished, episode_metrics, follow
from devote.loops.fused import Clock
from devote.loops.keys import run_keys
from devote.loops.settings import LoopSettings, Round
from devote.replay import Replay


class Worlds(NamedTuple):
    """What a checkpoint holds of environments on the host; a seed axis if there are several."""

    obs: np.ndarray
    """Where the next decisions are made."""
    written: Int[Array, "envs"]
    """Transitions ever stored of each environment."""
    saved: tuple[dict[str, np.ndarray], ...]
    """For each seed what its environments told of themselves; empty where they cannot."""
    exact: np.ndarray
    """Whether `saved` belongs to this very step."""


class Rows(NamedTuple):
    """Vector steps in the order they happened, time first."""

    transition: Transition
    ended: Bool[Array, "time envs"]
    valid: Bool[Array, "time envs"]
    success: Bool[Array, "time envs"]
    terms: dict[str, Float[Array, "time envs"]]
    bins: Int[Array, "time envs"]
    """Coverage bins of the successors; -1 where they count nowhere."""
    starts: Int[Array, "time envs"]
    """Coverage bins of the starts of episodes; -1 elsewhere."""


class Held(NamedTuple):
    """All that learning changes besides the agent."""

    clock: Clock
    key: PRNGKeyArray
    episodes: Episodes
    replay: Transition
    visits: Int[Array, "bins"]
    written: Int[Array, "envs"]


class Tally(NamedTuple):
    """Sums over the rounds of a chunk."""

    finished: Finished
    metrics: Metrics


@dataclass(frozen=True)
class HostLoop:
    """One seed of the schedule as pure functions; the environments are somebody else's."""

    agent: Agent
    spec: EnvSpec
    settings: LoopSettings

    @cached_property
    def replay(self) -> Replay:
        s = self.settings
        return Replay(self.spec, s.replay_capacity, s.num_envs, self.agent.sequence_length)

    @cached_property
    def round(self) -> Round:
        return Round.of(self.settings)

    def init(self, key: PRNGKeyArray) -> tuple[Any, Any, Held, PRNGKeyArray]:
        """Agent, memory and the rest before the first step; and the key of the first episodes."""
        agent_key, reset_key, run_key = run_keys(key)
        num_envs, grid = self.settings.num_envs, self.spec.grid
        held = Held(
            clock=Clock(jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32)),
            key=run_key,
            episodes=Episodes.start(self.spec, num_envs),
            replay=self.replay.init(),
            visits=jnp.zeros(grid.size if grid else 0, jnp.int32),
            written=jnp.zeros(num_envs, jnp.int32),
        )
        return self.agent.init(agent_key), self.agent.remember(num_envs), held, reset_key

    def act(
        self, agent: Any, memory: Any, obs: Array, first: Array, key: PRNGKeyArray
    ) -> tuple[Array, Any, PRNGKeyArray, PRNGKeyArray]:
        """Decisions; the memory and the key after them; and the environments' key."""
        key, act_key, env_key = jax.random.split(key, 3)
        action, memory = self.agent.act(agent, memory, obs, first, act_key)
        return action, memory, key, env_key

    def store(self, held: Held, rows: Rows) -> tuple[Held, Finished]:
        """Vector steps into the replay and the counters."""
        held, finished = jax.lax.scan(self._store_row, held, rows)
        return held, jax.tree.map(lambda x: x.sum(), finished)

    def _store_row(self, held: Held, row: Rows) -> tuple[Held, Finished]:
        step = row.transition
        outcome = Outcome(step.reward, 1 - step.discount, row.success, row.terms)
        episodes, finished = follow(held.episodes, outcome, row.ended, row.valid)
        bins = jnp.concatenate([row.starts, row.bins])
        counted = jnp.where(bins >= 0, bins, held.visits.size)
        held = held._replace(
            clock=held.clock._replace(vector_steps=held.clock.vector_steps + 1),
            episodes=episodes,
            replay=self.replay.add_some(held.replay, held.written, step, row.valid),
            visits=held.visits.at[counted].add(1, mode="drop"),
            written=held.written + row.valid,
        )
        return held, finished

    def learn(self, agent: Any, held: Held, tally: Tally, rows: Rows) -> tuple[Any, Held, Tally]:
        """A round: its steps are stored, then its updates made."""
        held, finished = self.store(held, rows)
        (agent, held), metrics = jax.lax.scan(
            lambda carry, _: self._update(*carry), (agent, held), length=self.round.updates
        )
        means = jax.tree.map(lambda x: x.mean(), metrics)
        return agent, held, jax.tree.map(jnp.add, tally, Tally(finished, means))

    def _update(self, agent: Any, held: Held) -> tuple[tuple[Any, Held], Metrics]:
        key, sample_key, update_key = jax.random.split(held.key, 3)
        agent, metrics = self.agent.update(agent, self._sample(held, sample_key), update_key)
        clock = held.clock._replace(updates=held.clock.updates + 1)
        return (agent, held._replace(key=key, clock=clock)), metrics

    def _sample(self, held: Held, key: PRNGKeyArray) -> Transition:
        return self.replay.sample(held.replay, held.written, self.settings.batch_size, key)

    def no_tally(self, agent: Any, held: Held) -> Tally:
        """Sums over no round."""
        nothing = jnp.zeros(())
        terms = dict.fromkeys(self.spec.terms, nothing)
        finished = Finished(nothing, nothing, nothing, nothing, terms)
        batch = jax.eval_shape(self._sample, held, held.key)
        _, metrics = jax.eval_shape(self.agent.update, agent, batch, held.key)
        return Tally(finished, {n: jnp.zeros(m.shape, m.dtype) for n, m in metrics.items()})

    def summarise(self, agent: Any, held: Held, tally: Tally, rounds: int) -> Metrics:
        """What a chunk reports."""
        batch = self._sample(held, jax.random.fold_in(held.key, 0))
        means = {name: total / rounds for name, total in tally.metrics.items()}
        found = episode_metrics(tally.finished, self.spec)
        return means | self.agent.diagnose(agent, batch) | found

    def maps(self, agent: Any) -> dict[str, Array]:
        """The agent's maps over the coverage grid."""
        grid = self.spec.grid
        if grid is None or grid.centers is None:
            return {}
        return self.agent.maps(agent, jnp.asarray(grid.centers))


def blank_rows(spec: EnvSpec, shape: tuple[int, ...]) -> Rows:
    """Room for vector steps, to be filled; the last axis of `shape` is environments."""

    def room(dtype: Any, *more: int, value: int = 0) -> Any:
        return np.full((*shape, *more), value, dtype)

    def observations() -> Any:
        kind = spec.observation
        return room(np.int32) if isinstance(kind, Index) else room(kind.dtype, kind.size)

    return Rows(
        transition=Transition(
            obs=observations(),
            action=room(np.float32, spec.action.size),
            reward=room(np.float32),
            discount=room(np.float32),
            next_obs=observations(),
            first=room(bool),
        ),
        ended=room(bool),
        valid=room(bool),
        success=room(bool),
        terms={name: room(np.float32) for name in spec.terms},
        bins=room(np.int32, value=-1),
        starts=room(np.int32, value=-1),
    )
