"""Environments, replay and learning in one compiled program of nested scans."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from devote.core.trees import where
from devote.core.types import Agent, Env, Metrics, Transition
from devote.loops.episodes import Episodes, Finished, episode_metrics, follow
from devote.loops.evaluate import evaluate
from devote.loops.keys import env_keys, run_keys
from devote.loops.settings import LoopSettings, Round
from devote.replay import Replay


class Clock(NamedTuple):
    """Counters, the same for every seed of a run."""

    vector_steps: Int[Array, ""]
    updates: Int[Array, ""]


class RunState(NamedTuple):
    """Everything that changes in a run; a checkpoint is this tree."""

    clock: Clock
    key: PRNGKeyArray
    agent: Any
    memory: Any
    worlds: Any
    episodes: Episodes
    replay: Transition
    visits: Int[Array, "bins"]


@dataclass(frozen=True)
class FusedLoop:
    """The schedule around any agent and any JAX environment."""

    agent: Agent
    env: Env
    settings: LoopSettings

    @cached_property
    def replay(self) -> Replay:
        s = self.settings
        length = self.agent.sequence_length
        return Replay(self.env.spec, s.replay_capacity, s.num_envs, length)

    @cached_property
    def round(self) -> Round:
        return Round.of(self.settings)

    @property
    def prefill_vector_steps(self) -> int:
        """Vector steps before the first update."""
        return self.settings.prefill_vector_steps(self.agent.sequence_length)

    @property
    def rounds_per_chunk(self) -> int:
        """Rounds between two rows of metrics."""
        return self.settings.rounds_per_chunk()

    def init(self, key: PRNGKeyArray) -> RunState:
        """A run before its first step."""
        agent_key, reset_key, run_key = run_keys(key)
        num_envs, grid = self.settings.num_envs, self.env.spec.grid
        worlds = jax.vmap(self.env.reset)(jax.random.split(reset_key, num_envs))
        return RunState(
            clock=Clock(jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32)),
            key=run_key,
            agent=self.agent.init(agent_key),
            memory=self.agent.remember(num_envs),
            worlds=worlds,
            episodes=Episodes.start(self.env.spec, num_envs),
            replay=self.replay.init(),
            visits=jnp.zeros(grid.size if grid else 0, jnp.int32),
        )

    def prefill(self, state: RunState) -> RunState:
        """Experience before the first update."""
        state, _ = jax.lax.scan(lambda s, _: self.step(s), state, length=self.prefill_vector_steps)
        return state

    def chunk(self, state: RunState) -> tuple[RunState, Metrics]:
        """Rounds of steps and updates, and the mean of their metrics."""
        state, (finished, metrics) = jax.lax.scan(
            lambda s, _: self.play_round(s), state, length=self.rounds_per_chunk
        )
        total: Finished = jax.tree.map(lambda x: x.sum(), finished)
        means = {name: values.mean() for name, values in metrics.items()}
        batch_key = jax.random.fold_in(state.key, 0)
        batch = self.sample(state, batch_key)
        found = episode_metrics(total, self.env.spec)
        return state, means | self.agent.diagnose(state.agent, batch) | found

    def play_round(self, state: RunState) -> tuple[RunState, tuple[Finished, Metrics]]:
        """Some environment steps, then some updates."""
        state, finished = jax.lax.scan(
            lambda s, _: self.step(s), state, length=self.round.vector_steps
        )
        state, metrics = jax.lax.scan(lambda s, _: self.update(s), state, length=self.round.updates)
        return state, (
            jax.tree.map(lambda x: x.sum(), finished),
            jax.tree.map(lambda x: x.mean(), metrics),
        )

    def sample(self, state: RunState, key: PRNGKeyArray) -> Transition:
        """A batch of stored experience."""
        return self.replay.sample(
            state.replay, state.clock.vector_steps, self.settings.batch_size, key
        )

    def update(self, state: RunState) -> tuple[RunState, Metrics]:
        """One gradient update."""
        key, sample_key, update_key = jax.random.split(state.key, 3)
        agent, metrics = self.agent.update(state.agent, self.sample(state, sample_key), update_key)
        clock = state.clock._replace(updates=state.clock.updates + 1)
        return state._replace(agent=agent, key=key, clock=clock), metrics

    def step(self, state: RunState) -> tuple[RunState, Finished]:
        """One step of every environment, stored; ended episodes start again."""
        num_envs = self.settings.num_envs
        key, act_key, env_key = jax.random.split(state.key, 3)
        step_keys, reset_keys = env_keys(env_key, num_envs)
        obs = jax.vmap(self.env.observe)(state.worlds)
        first = state.episodes.length == 0
        action, memory = self.agent.act(state.agent, state.memory, obs, first, act_key)
        worlds, outcome = jax.vmap(self.env.step)(state.worlds, action, step_keys)
        transition = Transition(
            obs=obs,
            action=action,
            reward=outcome.reward,
            discount=1.0 - outcome.terminated,
            next_obs=jax.vmap(self.env.observe)(worlds),
            first=first,
        )
        done = outcome.terminated | (state.episodes.length + 1 >= self.env.spec.episode_length)
        episodes, finished = follow(state.episodes, outcome, done)
        fresh = jax.vmap(self.env.reset)(reset_keys)
        next_state = state._replace(
            clock=state.clock._replace(vector_steps=state.clock.vector_steps + 1),
            key=key,
            memory=memory,
            worlds=where(done, fresh, worlds),
            episodes=episodes,
            replay=self.replay.add(state.replay, state.clock.vector_steps, transition),
            visits=self.count(self.count(state.visits, state.worlds, first), worlds),
        )
        return next_state, finished

    def count(
        self, visits: Int[Array, "bins"], worlds: Any, counted: Bool[Array, "envs"] | bool = True
    ) -> Int[Array, "bins"]:
        """Visits with those of new worlds added."""
        if self.env.spec.grid is None:
            return visits
        bins = jax.vmap(self.env.bin_of)(worlds)
        return visits.at[jnp.where(counted & (bins >= 0), bins, visits.size)].add(1, mode="drop")

    def refresh(self, state: RunState) -> RunState:
        """The agent's soft reset."""
        key, reset_key = jax.random.split(state.key)
        return state._replace(key=key, agent=self.agent.refresh(state.agent, reset_key))

    def evaluate(self, state: RunState) -> Metrics:
        """The exploitation actor's return; leaves the run as it was."""
        key = jax.random.fold_in(state.key, 1)
        return evaluate(self.agent, self.env, state.agent, self.settings.eval_episodes, key)

    def maps(self, state: RunState) -> dict[str, Array]:
        """The agent's maps over the coverage grid."""
        grid = self.env.spec.grid
        if grid is None or grid.centers is None:
            return {}
        return self.agent.maps(state.agent, jnp.asarray(grid.centers))
