"""Training around environments on the host, for one seed or for several at once."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from devote.core import Agent, HostEnv, Metrics
from devote.core.errors import UserError
from devote.loops.collect import Acting, Collector, Seeds
from devote.loops.fused import RunState
from devote.loops.host import Held, HostLoop, Worlds
from devote.loops.host_evaluate import HostEvaluation
from devote.loops.program import HASTY, InterruptedChunkError, apart, seed_keys
from devote.loops.rounds import Rounds
from devote.loops.settings import LoopSettings
from devote.loops.worker import Worker

HELD_AXES = Held(None, 0, 0, 0, 0, 0)  # type: ignore[arg-type]
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
        self.worker = Worker(settings.env_timeout)
        self.envs = Seeds(envs, [f"seed {seed}" for seed in seeds], self.worker)
        self.sound = True  # whether the environments did all that was asked of them
        self._compile(self.loop)
        self.collector = Collector(self.envs, self._act)
        self.evaluation = HostEvaluation(agent, make, settings.eval_episodes, seeds, self.worker)

    def _compile(self, loop: HostLoop) -> None:
        single = len(self.seeds) == 1

        def over(function: Callable[..., Any], inputs: Any, outputs: Any = 0) -> Any:
            return function if single else jax.vmap(function, in_axes=inputs, out_axes=outputs)

        act, held = over(loop.act, 0), HELD_AXES

        def act_and_part(*inputs: Any) -> tuple[Array, Any, PRNGKeyArray, tuple[Array, ...]]:
            action, memory, key, env_keys = act(*inputs)
            return action, memory, key, (env_keys,) if single else tuple(env_keys)

        learn = over(loop.learn, (0, held, 0, 0), (0, held, 0))
        donated = (1, 2) if self.settings.overlap else (0, 1, 2)  # an old agent may still act
        rounds = self.settings.rounds_per_chunk()
        summarise = over(partial(loop.summarise, rounds=rounds), (0, held, 0))
        self._init = over(loop.init, 0, (0, 0, held, 0))
        self._act = jax.jit(act_and_part)
        self.learn = jax.jit(learn, donate_argnums=donated)
        self._store = jax.jit(over(loop.store, (held, 0), (held, 0)), donate_argnums=0)
        self.no_tally = jax.jit(over(loop.no_tally, (0, held)), compiler_options=HASTY)
        self._summarise = jax.jit(summarise)
        self._refresh = jax.jit(over(loop.agent.refresh, 0), compiler_options=HASTY)
        self._maps = jax.jit(over(loop.maps, 0), compiler_options=HASTY)
        self._split = jax.jit(over(lambda key: tuple(jax.random.split(key)), 0))
        self._part = jax.jit(lambda keys: tuple(keys.reshape(-1)))

    def _first(self) -> Any:
        keys = seed_keys(self.seeds)
        return self._init, keys[0] if len(self.seeds) == 1 else keys

    def init(self) -> RunState:
        """The run before its first step."""
        function, keys = self._first()
        agent, memory, held, reset_keys = jax.jit(function, compiler_options=HASTY)(keys)
        obs, saved = self._begin(reset_keys)
        worlds = Worlds(obs, held.written, saved, np.asarray(bool(saved)))
        return _state(agent, memory, worlds, held)

    def shape(self) -> RunState:
        """Shapes and types of the run's state; environments show theirs by starting once."""
        function, keys = self._first()
        agent, memory, held, _ = jax.eval_shape(function, keys)
        obs, saved = self._begin(keys)
        return _state(agent, memory, Worlds(obs, held.written, saved, np.asarray(True)), held)

    def _begin(self, keys: Array) -> tuple[np.ndarray, tuple[dict[str, np.ndarray], ...]]:
        parts = self._part(keys)
        obs = self.worker.run(lambda: self.envs.reset(parts))
        return self._outer(obs), self.worker.run(self.envs.save)

    def metric_names(self, shape: RunState) -> tuple[str, ...]:
        """What `chunk` and `evaluate` report."""
        held = held_of(shape)
        tally = jax.eval_shape(self.no_tally, shape.agent, held)
        chunk = jax.eval_shape(self._summarise, shape.agent, held, tally)
        return (*sorted(chunk), *sorted(self.evaluation.names()))

    def resume(self, state: RunState) -> tuple[RunState, str]:
        """Environments go on where their state was saved, and start new episodes elsewhere."""
        if bool(state.worlds.exact):
            self.worker.run(lambda: self.envs.restore(state.worlds.saved))
            return state, EXACT
        fold = partial(jax.random.fold_in, data=RESTART)
        keys = fold(state.key) if len(self.seeds) == 1 else jax.vmap(fold)(state.key)
        obs, _ = self._begin(keys)
        episodes = jax.tree.map(jax.numpy.zeros_like, state.episodes)
        worlds = state.worlds._replace(obs=obs)
        return state._replace(episodes=episodes, worlds=worlds), RESTARTED

    def snapshot(self, state: RunState) -> RunState:
        """The state with what the environments tell of themselves."""
        saved = self.worker.run(self.envs.save) if self.sound else ()
        known = bool(saved)
        worlds = state.worlds._replace(
            saved=saved if known else state.worlds.saved, exact=np.asarray(known)
        )
        return state._replace(worlds=worlds)

    def prefill(self, state: RunState) -> RunState:
        """Experience before the first update."""
        steps = self.settings.prefill_vector_steps(self.loop.agent.sequence_length)
        play = partial(self.collector.play, state.agent, self._acting(state), state.key, steps, 0)
        rows, acting, key = self.worker.run(play)
        held, _ = self._store(held_of(state)._replace(key=key), rows)
        self._require_enough(held)
        return self._joined(state, state.agent, acting, held)

    def chunk(self, state: RunState) -> tuple[RunState, Metrics]:
        """Rounds of steps and updates, and the mean of their metrics."""
        held, number = held_of(state), self.settings.rounds_per_chunk()
        rounds = Rounds(
            self.collector,
            self.worker,
            self.learn,
            self.loop.round.vector_steps,
            state.agent,
            self._acting(state),
            held,
            self.no_tally(state.agent, held),
        )
        try:
            if self.settings.overlap:
                rounds.held, key = self._own_key(held)
                rounds.side_by_side(number, key)
            else:
                rounds.in_turn(number)
        except Exception as reason:
            self.sound = False
            state = self._joined(state, rounds.agent, rounds.acting, rounds.held)
            raise InterruptedChunkError(state) from reason
        metrics = self._summarise(rounds.agent, rounds.held, rounds.tally)
        return self._joined(state, rounds.agent, rounds.acting, rounds.held), metrics

    def _own_key(self, held: Held) -> tuple[Held, PRNGKeyArray]:
        """A key for acting beside learning."""
        key, acting_key = self._split(held.key)
        return held._replace(key=key), acting_key

    def refresh(self, state: RunState) -> RunState:
        """The agent's soft reset."""
        key, reset_key = self._split(state.key)
        return state._replace(key=key, agent=self._refresh(state.agent, reset_key))

    def evaluate(self, state: RunState) -> Metrics:
        """The exploitation actor's return in environments of its own."""
        return self.worker.run(lambda: self.evaluation.run(state.agent, state.key))

    def maps(self, state: RunState) -> dict[str, Array]:
        """The agent's maps over the coverage grid."""
        found: dict[str, Array] = self._maps(state.agent)
        return found

    def per_seed(self, values: dict[str, Array]) -> list[dict[str, np.ndarray]]:
        """Results taken apart, one dictionary per seed."""
        return apart(values, len(self.seeds))

    def close(self) -> None:
        """Let the environments go; what they say to that cannot hurt the run any more."""
        if self.worker.lost:
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

    def _outer(self, array: np.ndarray) -> np.ndarray:
        return array[0] if len(self.seeds) == 1 else array

    def _joined(self, state: RunState, agent: Any, acting: Acting, held: Held) -> RunState:
        worlds = state.worlds._replace(
            obs=self._outer(acting.obs), written=held.written, exact=np.asarray(False)
        )
        return _state(agent, acting.memory, worlds, held)

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
