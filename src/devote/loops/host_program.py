"""Training around environments on the host, for one seed or for several at once."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from devote.core.errors import EnvironmentFailedError, UserError
from devote.core.types import Agent, HostEnv, Metrics
from devote.core.worker import Worker
from devote.loops.collect import Acting, Collector, Seeds
from devote.loops.fused import RunState
from devote.loops.host import Held, HostLoop, Worlds
from devote.loops.host_compiled import HostCompiled, Leaves
from devote.loops.host_evaluate import HostEvaluation
from devote.loops.program import HASTY, InterruptedChunkError, Stage, apart, seed_keys
from devote.loops.rounds import Rounds
from devote.loops.settings import LoopSettings

RESTART = 2**16  # beyond any number of keys that a key is split into

EXACT = "environments go on exactly"
RESTARTED = (
    "environments start new episodes, for they did not or cannot save their state; "
    "agent, replay, generator and counters are exact"
)


class HostProgram:
    """The host loop; its environments are part of it, all else is in the state.

    `envs` holds the environments of each seed, `make` builds as many as an evaluation needs.
    """

    def __init__(
        self,
        agent: Agent,
        envs: tuple[HostEnv, ...],
        make: Callable[[int], HostEnv],
        settings: LoopSettings,
        seeds: tuple[int, ...],
    ) -> None:
        self.loop = HostLoop(agent, envs[0].spec, settings)
        self.seeds, self.spec, self.settings = seeds, envs[0].spec, settings
        self.worker = Worker(settings.env_timeout, " (--env-timeout)")
        self.envs = Seeds(envs, [f"seed {seed}" for seed in seeds], self.worker)
        self.sound = True  # whether the environments did all that was asked of them
        self.compiled = HostCompiled(self.loop, len(seeds))
        self.collector = Collector(self.envs, self.compiled.act)
        self.evaluation = HostEvaluation(agent, make, settings.eval_episodes, seeds, self.worker)

    def init(self) -> RunState:
        """The run before its first step."""
        start = jax.jit(self.compiled.init, compiler_options=HASTY)
        agent, memory, held, reset_keys = start(self._outer(seed_keys(self.seeds)))
        obs, saved = self._begin(reset_keys)
        worlds = Worlds(obs, held.written, saved, np.asarray(bool(saved)))
        return _state(agent, memory, worlds, held)

    def shape(self) -> RunState:
        """Shapes and types of the run's state; environments show theirs by starting once."""
        keys = self._outer(seed_keys(self.seeds))
        agent, memory, held, _ = jax.eval_shape(self.compiled.init, keys)
        obs, saved = self._begin(keys)
        return _state(agent, memory, Worlds(obs, held.written, saved, np.asarray(True)), held)

    def _begin(self, keys: Array) -> tuple[np.ndarray, tuple[dict[str, np.ndarray], ...]]:
        parts = self.compiled.part(keys)
        obs = self.worker.run(lambda: self.envs.reset(parts))
        return self._outer(obs), self.worker.run(self.envs.save)

    def metric_names(self, shape: RunState) -> tuple[str, ...]:
        """What `chunk` and `evaluate` report."""
        held = held_of(shape)
        tally = jax.eval_shape(self.compiled.no_tally, shape.agent, held)
        chunk = jax.eval_shape(self.compiled.summarise, shape.agent, held, tally)
        return (*sorted(chunk), *sorted(self.evaluation.names()))

    def resume(self, state: RunState) -> tuple[RunState, str]:
        """Environments go on where their state was saved, and start new episodes elsewhere."""
        if not bool(state.worlds.exact):
            return self._restarted(state), RESTARTED
        self.worker.run(lambda: self.envs.restore(state.worlds.saved))
        self.sound = True
        return state, EXACT

    def _restarted(self, state: RunState) -> RunState:
        """The state at the start of new episodes."""
        obs, _ = self._begin(self.compiled.fold(state.key, RESTART))
        self.sound = True
        episodes = jax.tree.map(jax.numpy.zeros_like, state.episodes)
        return state._replace(episodes=episodes, worlds=state.worlds._replace(obs=obs))

    def snapshot(self, state: RunState) -> RunState:
        """The state with what the environments tell of themselves."""
        saved = self.worker.run(self.envs.save) if self.sound else ()
        known = bool(saved)
        worlds = state.worlds._replace(
            saved=saved if known else state.worlds.saved, exact=np.asarray(known)
        )
        return state._replace(worlds=worlds)

    def compile(self, stage: Stage, state: RunState) -> None:
        """Compile what a stage needs; the environments rest."""
        if stage == "evaluate":
            self.evaluation.compile(state.agent, state.key)
        elif stage == "refresh":
            self.compiled.refresh.lower(state.agent, state.key).compile()
        else:
            self._compile_round(stage, state)

    def _compile_round(self, stage: Stage, state: RunState) -> None:
        parts, held, agent = self.compiled, held_of(state), self.compiled.leaves(state.agent)
        self.collector.compile(agent, self._acting(state), state.key)
        if stage == "prefill":
            parts.store.lower(held, self.collector.blank(self._prefill_steps())).compile()
            return
        tally = parts.no_tally(state.agent, held)
        rows = self.collector.blank(self.loop.round.vector_steps)
        parts.learn.lower(agent, held, tally, rows).compile()
        parts.summarise.lower(state.agent, held, tally).compile()

    def _prefill_steps(self) -> int:
        return self.settings.prefill_vector_steps(self.loop.agent.sequence_length)

    def prefill(self, state: RunState) -> RunState:
        """Experience before the first update."""
        steps, agent = self._prefill_steps(), self.compiled.leaves(state.agent)
        play = partial(self.collector.play, agent, self._acting(state), state.key, steps, 0)
        rows, acting, key = self.worker.run(play)
        held, _ = self.compiled.store(held_of(state)._replace(key=key), rows)
        self._require_enough(held)
        return self._joined(state, agent, acting, held)

    def chunk(self, state: RunState) -> tuple[RunState, Metrics]:
        """Rounds of steps and updates, and the mean of their metrics."""
        if not self.sound:  # they have moved on from where the last round was learned from
            state = self._restarted(state)
            warnings.warn("after their failure the environments start new episodes", stacklevel=2)
        rounds, number = self._rounds(state), self.settings.rounds_per_chunk()
        try:
            if self.settings.overlap:
                key, acting_key = self.compiled.split(state.key)
                rounds.held = rounds.held._replace(key=key)
                rounds.side_by_side(number, acting_key)
            else:
                rounds.in_turn(number)
        except (EnvironmentFailedError, UserError) as reason:
            self.sound = False
            state = self._joined(state, rounds.agent, rounds.acting, rounds.held)
            raise InterruptedChunkError(state) from reason
        state = self._joined(state, rounds.agent, rounds.acting, rounds.held)
        return state, self.compiled.summarise(state.agent, rounds.held, rounds.tally)

    def _rounds(self, state: RunState) -> Rounds:
        held = held_of(state)
        return Rounds(
            self.collector,
            self.worker,
            self.compiled.learn,
            self.loop.round.vector_steps,
            self.compiled.leaves(state.agent),
            self._acting(state),
            held,
            self.compiled.no_tally(state.agent, held),
        )

    def refresh(self, state: RunState) -> RunState:
        """The agent's soft reset."""
        key, reset_key = self.compiled.split(state.key)
        return state._replace(key=key, agent=self.compiled.refresh(state.agent, reset_key))

    def evaluate(self, state: RunState) -> Metrics:
        """The exploitation actor's return in environments of its own."""
        return self.worker.run(lambda: self.evaluation.run(state.agent, state.key))

    def maps(self, state: RunState) -> dict[str, Array]:
        """The agent's maps over the coverage grid."""
        found: dict[str, Array] = self.compiled.maps(state.agent)
        return found

    def per_seed(self, values: dict[str, Array]) -> list[dict[str, np.ndarray]]:
        """Results taken apart, one dictionary per seed."""
        return apart(values, len(self.seeds))

    def close(self) -> None:
        """Let the environments go; what they say to that cannot hurt the run any more."""
        if self.worker.lost or self.worker.closed:
            return
        try:
            self.worker.run(self.evaluation.close)
            self.worker.run(self.envs.close)
        except Exception as error:
            warnings.warn(f"environments failed to close: {error}", stacklevel=2)
        self.worker.close()

    def _acting(self, state: RunState) -> Acting:
        first, obs = np.asarray(state.episodes.length) == 0, np.asarray(state.worlds.obs)
        single = len(self.seeds) == 1
        return Acting(state.memory, obs[None] if single else obs, first[None] if single else first)

    def _outer(self, array: Any) -> Any:
        return array[0] if len(self.seeds) == 1 else array

    def _joined(self, state: RunState, agent: Leaves, acting: Acting, held: Held) -> RunState:
        worlds = state.worlds._replace(
            obs=self._outer(acting.obs), written=held.written, exact=np.asarray(False)
        )
        return _state(self.compiled.whole(agent), acting.memory, worlds, held)

    def _require_enough(self, held: Held) -> None:
        length = self.loop.agent.sequence_length
        if int(np.asarray(held.written).max()) < length:
            raise UserError(
                f"{length} steps in a row before the first update",
                f"fewer in {self.settings.learning_starts} environment steps",
                "raise --learning-starts",
            )


def _state(agent: Any, memory: Any, worlds: Worlds, held: Held) -> RunState:
    return RunState(
        held.clock, held.key, agent, memory, worlds, held.episodes, held.replay, held.visits
    )


def held_of(state: RunState) -> Held:
    """What learning changes besides the agent."""
    return Held(
        state.clock, state.key, state.episodes, state.replay, state.visits, state.worlds.written
    )
