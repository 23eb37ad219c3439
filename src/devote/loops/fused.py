"""Environments, replay and learning in one compiled program of nested scans."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from devote.core.trees import where
from devote.core.types import Agent, Env, Metrics, Transition
from devote.loops.episodes import Finished, env_keys, evaluate
from devote.loops.loop import (
    ONE_DEVICE,
    QUICK_COMPILE,
    SEED_AXES,
    Devices,
    Loop,
    RunState,
    Stage,
    Step,
    seed_keys,
)
from devote.loops.schedule import LoopSettings


@dataclass(frozen=True)
class FusedLoop:
    """The schedule around any agent and any JAX environment, for one seed."""

    agent: Agent
    env: Env
    settings: LoopSettings
    devices: Devices = ONE_DEVICE

    @cached_property
    def loop(self) -> Loop:
        """All that is the same on the host."""
        return Loop(self.agent, self.env.spec, self.settings, self.devices)

    def init(self, key: PRNGKeyArray, rows: int | None = None) -> RunState:
        """A run before its first step."""
        state, reset_key = self.loop.init(key, rows)
        keys = jax.random.split(reset_key, self.settings.num_envs)
        return state._replace(worlds=jax.vmap(self.env.reset)(keys))

    def prefill(self, state: RunState) -> RunState:
        """Experience before the first update."""
        return self.steps(state, self.loop.prefill_vector_steps)[0]

    def chunk(self, state: RunState) -> tuple[RunState, Metrics]:
        """Rounds of steps and updates, and the mean of their metrics."""
        state, (finished, metrics) = jax.lax.scan(
            lambda s, _: self.play_round(s), state, length=self.settings.rounds_per_chunk()
        )
        means = {name: values.mean() for name, values in metrics.items()}
        return state, self.loop.summarise(state, _total(finished), means)

    def play_round(self, state: RunState) -> tuple[RunState, tuple[Finished, Metrics]]:
        """Some environment steps, then some updates."""
        state, finished = self.steps(state, self.loop.round.vector_steps)
        state, metrics = self.loop.updates(state)
        return state, (finished, metrics)

    def steps(self, state: RunState, number: int) -> tuple[RunState, Finished]:
        """Vector steps, and the sums of the episodes that ended in them."""
        state, (finished, steps) = jax.lax.scan(lambda s, _: self.step(s), state, length=number)
        return self.loop.observe(state, steps), _total(finished)

    def step(self, state: RunState) -> tuple[RunState, tuple[Finished, Step]]:
        """One step of every environment, stored; ended episodes start again."""
        obs, first = jax.vmap(self.env.observe)(state.worlds), state.episodes.length == 0
        action, memory, key, env_key = self.loop.act(
            state.agent, state.memory, obs, first, state.key
        )
        step_keys, reset_keys = env_keys(env_key, self.settings.num_envs)
        worlds, outcome = jax.vmap(self.env.step)(state.worlds, action, step_keys)
        late = state.episodes.length + 1 >= self.env.spec.episode_length
        ended = outcome.terminated | late
        step = Step(
            transition=Transition(
                obs=obs,
                action=action,
                reward=outcome.reward,
                discount=1.0 - outcome.terminated,
                next_obs=jax.vmap(self.env.observe)(worlds),
                first=first,
            ),
            ended=ended,
            success=jnp.broadcast_to(outcome.success, ended.shape),
            terms=outcome.terms,
            bins=self.bins(state.worlds, first, worlds),
            valid=None,
        )
        begun = where(ended, jax.vmap(self.env.reset)(reset_keys), worlds)
        state = state._replace(key=key, memory=memory, worlds=begun)
        state, finished = self.loop.store(state, step)
        return state, (finished, step)

    def bins(self, before: Any, first: Array, after: Any) -> Array:
        """Coverage bins of the worlds where episodes begin, and of all successors."""
        if self.env.spec.grid is None:
            return jnp.full((2, self.settings.num_envs), -1)
        bin_of = jax.vmap(self.env.bin_of)
        return jnp.stack([jnp.where(first, bin_of(before), -1), bin_of(after)])

    def refresh(self, state: RunState) -> RunState:
        """The agent's soft reset."""
        agent, key = self.loop.refresh(state.agent, state.key)
        return state._replace(agent=agent, key=key)

    def evaluate(self, state: RunState) -> Metrics:
        """The exploitation actor's return; leaves the run as it was."""
        key = jax.random.fold_in(state.key, 1)
        return evaluate(self.agent, self.env, state.agent, self.settings.eval_episodes, key)


class FusedProgram:
    """The compiled loop; the first argument of everything that changes it is donated."""

    def __init__(self, loop: FusedLoop, seeds: tuple[int, ...]) -> None:
        self.loop = loop
        self.seeds = seeds
        self.spec, self.settings, self.devices = loop.env.spec, loop.settings, loop.devices
        self.prefill = self._jit(loop.prefill)
        self.chunk = self._jit(loop.chunk, outputs=(SEED_AXES, 0))
        self.refresh = self._jit(loop.refresh, options=QUICK_COMPILE)
        self.evaluate = self._jit(loop.evaluate, outputs=0, donate=False)
        self.look = self._jit(loop.loop.look, outputs=0, donate=False)

    def compile(self, stage: Stage, state: RunState) -> None:
        """Compile a stage; JAX keeps what it compiled for the calls to come."""
        getattr(self, stage).lower(state).compile()

    def _jit(
        self,
        function: Callable[..., Any],
        outputs: Any = SEED_AXES,
        donate: bool = True,
        options: dict[str, Any] | None = None,
    ) -> Any:
        if len(self.seeds) > 1:
            function = jax.vmap(function, in_axes=(SEED_AXES,), out_axes=outputs)
        return jax.jit(
            function,
            donate_argnums=(0,) if donate else (),
            compiler_options=options,
            out_shardings=self.devices.outputs(outputs),
        )

    def rows(self, steps: int) -> int:
        """Rows of replay that a run of so many steps needs."""
        return self.loop.loop.rows(steps)

    def init(self, rows: int | None = None) -> RunState:
        """The run before its first step."""
        places, begin = self.devices.outputs(SEED_AXES), partial(self._init, rows=rows)
        start = jax.jit(begin, compiler_options=QUICK_COMPILE, out_shardings=places)
        return start(seed_keys(self.seeds))

    def shape(self) -> RunState:
        """Shapes and types of the run's state, without allocating it."""
        return jax.eval_shape(self._init, seed_keys(self.seeds))

    def _init(self, keys: Array, rows: int | None = None) -> RunState:
        if len(self.seeds) == 1:
            return self.loop.init(keys[0], rows)
        return jax.vmap(partial(self.loop.init, rows=rows), out_axes=SEED_AXES)(keys)

    def metric_names(self, shape: RunState) -> tuple[str, ...]:
        """What `chunk` and `evaluate` report."""
        _, metrics = jax.eval_shape(self.chunk, shape)
        return (*sorted(metrics), *sorted(jax.eval_shape(self.evaluate, shape)))

    def resume(self, state: RunState) -> tuple[RunState, str]:
        """The environments are part of the state."""
        return self.devices.place(state), "environments continue exactly"

    def snapshot(self, state: RunState) -> RunState:
        """The state holds everything already."""
        return state

    def bin_of(self, obs: np.ndarray) -> np.ndarray:
        """The flat coverage bins of observations; nowhere if the task's grid cannot tell."""
        grid = self.spec.grid
        return (
            np.full(len(obs), -1) if grid is None or grid.bin_of is None else grid.bin_of(obs, np)
        )

    def close(self) -> None:
        """Nothing is held outside the state."""


def _total(finished: Finished) -> Finished:
    return jax.tree.map(lambda x: x.sum(), finished)
