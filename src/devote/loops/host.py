"""The loop around environments on the host: compiled `act`, `learn` and `summarise`.

`learn` stores a round of steps and makes its updates; `summarise` runs once per chunk. Environments
are stepped in a worker thread, so that learning can overlap with them.
"""

import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from devote.core.errors import EnvironmentFailedError, UserError
from devote.core.guard import Guard
from devote.core.types import Agent, EnvSpec, HostEnv, HostStep, Index, Metrics, Transition
from devote.core.worker import Worker
from devote.loops.episodes import Episodes, Finished, evaluation_metrics
from devote.loops.loop import (
    ONE_DEVICE,
    QUICK_COMPILE,
    SEED_AXES,
    Devices,
    HostWorlds,
    InterruptedChunkError,
    Look,
    Loop,
    RunState,
    Stage,
    Step,
    seed_keys,
)
from devote.loops.schedule import LoopSettings

T = TypeVar("T")
Leaves = tuple[Array, ...]
"""An agent's state as flat leaves: flattening Equinox modules at every call is slow."""
RESTART = 2**16  # beyond any number of keys that a key is split into
EXACT = "environments continue exactly"
RESTARTED = (
    "environments start new episodes because their state was not or cannot be saved; "
    "agent, replay, generator and counters are exact"
)


class Acting(NamedTuple):
    """What acting carries from one vector step to the next; the first axis is the seed."""

    memory: Any
    obs: np.ndarray
    first: np.ndarray


Played = tuple[Step, Acting, PRNGKeyArray]
"""Vector steps, where they end, and the key after them."""


class Tally(NamedTuple):
    """Sums over the rounds of a chunk."""

    finished: Finished
    metrics: Metrics


class HostProgram:
    """The host loop for one or several seeds. `envs` has the environments of each seed, `make`
    builds those for evaluation; all else that changes is in the run's state."""

    def __init__(
        self,
        agent: Agent,
        envs: tuple[HostEnv, ...],
        make: Callable[[int], HostEnv],
        settings: LoopSettings,
        seeds: tuple[int, ...],
        devices: Devices = ONE_DEVICE,
    ) -> None:
        self.loop, self.devices = Loop(agent, envs[0].spec, settings, devices), devices
        self.seeds, self.spec, self.settings = seeds, envs[0].spec, settings
        self.worker = Worker(settings.env_timeout, " (--env-timeout)")
        self.envs = SeedEnvs(envs, [f"seed {seed}" for seed in seeds], self.worker)
        self.evaluation = HostEvaluation(agent, make, settings.eval_episodes, seeds, self.worker)
        self.intact = True  # False after an environment failed
        self._structure = jax.tree.structure(
            jax.eval_shape(lambda: self.loop.init(jax.random.key(0))[0].agent)
        )
        self._compile_lazily()

    def _compile_lazily(self) -> None:
        over, state = self._over, SEED_AXES
        quick = partial(jax.jit, compiler_options=QUICK_COMPILE)
        # An agent that may still be acting while `learn` runs is not donated.
        donated = (1, 2) if self.settings.overlap else (0, 1, 2)
        self._act_seeds = over(self._act_one, 0)
        self.act = jax.jit(self._act)
        self.learn = jax.jit(
            over(self._learn_one, (0, state, 0, 0), (0, state, 0)), donate_argnums=donated
        )
        self._store = jax.jit(over(self._store_one, (state, 0), (state, 0)), donate_argnums=0)
        self.no_tally = quick(over(self._no_tally_one, (state,)))
        self._summarise = jax.jit(over(self._summarise_one, (state, 0)))
        self._refresh = quick(over(self.loop.refresh, 0))
        self._look = jax.jit(over(self.loop.look, (state,)))
        self._split = jax.jit(over(lambda key: tuple(jax.random.split(key)), 0))
        self._fold = jax.jit(over(jax.random.fold_in, (0, None)))
        self._part = jax.jit(lambda keys: tuple(keys.reshape(-1)))

    def _over(self, function: Callable[..., Any], inputs: Any, outputs: Any = 0) -> Any:
        """A function of one seed as a function of all of them."""
        if len(self.seeds) == 1:
            return function
        return jax.vmap(function, in_axes=inputs, out_axes=outputs)

    # One seed, compiled: states are without `memory` and, of the worlds, hold only `written`.

    def _init(self, keys: Array, rows: int | None = None) -> tuple[RunState, PRNGKeyArray]:
        return self._over(partial(self._init_one, rows=rows), 0, (SEED_AXES, 0))(keys)

    def _init_one(self, key: PRNGKeyArray, rows: int | None) -> tuple[RunState, PRNGKeyArray]:
        state, reset_key = self.loop.init(key, rows)
        written = jnp.zeros(self.settings.num_envs, jnp.int32)
        return state._replace(worlds=HostWorlds((), written, (), ())), reset_key

    def _act_one(self, agent: Leaves, *inputs: Any) -> Any:
        return self.loop.act(self._whole(agent), *inputs)

    def _act(
        self, agent: Leaves, memory: Any, obs: Array, first: Array, key: PRNGKeyArray
    ) -> tuple[Array, Any, PRNGKeyArray, tuple[PRNGKeyArray, ...]]:
        """Actions of all seeds; the last value has a key for each seed's environments."""
        action, memory, key, env_keys = self._act_seeds(agent, memory, obs, first, key)
        return action, memory, key, (env_keys,) if len(self.seeds) == 1 else tuple(env_keys)

    def _store_one(self, state: RunState, steps: Step) -> tuple[RunState, Finished]:
        state, finished = jax.lax.scan(self.loop.store, state, steps)
        return self.loop.observe(state, steps), jax.tree.map(lambda x: x.sum(), finished)

    def _learn_one(
        self, agent: Leaves, state: RunState, tally: Tally, steps: Step
    ) -> tuple[Leaves, RunState, Tally]:
        """A round: its steps are stored, then its updates made."""
        state, finished = self._store_one(state._replace(agent=self._whole(agent)), steps)
        state, means = self.loop.updates(state)
        tally = jax.tree.map(jnp.add, tally, Tally(finished, means))
        return _leaves(state.agent), state._replace(agent=()), tally

    def _no_tally_one(self, state: RunState) -> Tally:
        nothing = jnp.zeros(())
        terms = dict.fromkeys(self.spec.terms, nothing)
        finished = Finished(nothing, nothing, nothing, nothing, terms)
        _, metrics = jax.eval_shape(self.loop.update, state)
        return Tally(finished, {n: jnp.zeros(m.shape, m.dtype) for n, m in metrics.items()})

    def _summarise_one(self, state: RunState, tally: Tally) -> Metrics:
        rounds = self.settings.rounds_per_chunk()
        means = {name: total / rounds for name, total in tally.metrics.items()}
        return self.loop.summarise(state, tally.finished, means)

    # What `train` asks of a program.

    def rows(self, steps: int) -> int:
        """Rows of replay that a run of so many steps needs."""
        return self.loop.rows(steps)

    def init(self, rows: int | None = None) -> RunState:
        """The run before its first step."""
        start = jax.jit(partial(self._init, rows=rows), compiler_options=QUICK_COMPILE)
        state, reset_keys = start(self._outer(seed_keys(self.seeds)))
        obs, saved = self._begin(reset_keys)
        worlds = HostWorlds(obs, state.worlds.written, saved, np.asarray(bool(saved)))
        return self.devices.place(state._replace(worlds=worlds))

    def shape(self) -> RunState:
        """Shapes and types of the run's state; environments show theirs by starting once."""
        keys = self._outer(seed_keys(self.seeds))
        state, _ = jax.eval_shape(self._init, keys)
        obs, saved = self._begin(keys)
        worlds = HostWorlds(obs, state.worlds.written, saved, np.asarray(True))
        return state._replace(worlds=worlds)

    def _begin(self, keys: Array) -> tuple[np.ndarray, tuple[dict[str, np.ndarray], ...]]:
        parts = self._part(keys)
        obs = self.worker.run(lambda: self.envs.reset(parts))
        return self._outer(obs), self.worker.run(self.envs.save)

    def metric_names(self, shape: RunState) -> tuple[str, ...]:
        """What `chunk` and `evaluate` report."""
        state = on_device(shape)
        chunk = jax.eval_shape(self._summarise, state, jax.eval_shape(self.no_tally, state))
        return (*sorted(chunk), *sorted(self.evaluation.names()))

    def resume(self, state: RunState) -> tuple[RunState, str]:
        """Environments go on where their state was saved, and start new episodes elsewhere."""
        state = self.devices.place(state)
        if not bool(state.worlds.exact):
            return self._restarted(state), RESTARTED
        self.worker.run(lambda: self.envs.restore(state.worlds.saved))
        self.intact = True
        return state, EXACT

    def _restarted(self, state: RunState) -> RunState:
        """The state at the start of new episodes."""
        obs, _ = self._begin(self._fold(state.key, RESTART))
        self.intact = True
        episodes = jax.tree.map(jnp.zeros_like, state.episodes)
        return state._replace(episodes=episodes, worlds=state.worlds._replace(obs=obs))

    def snapshot(self, state: RunState) -> RunState:
        """The state with the saved state of the environments."""
        saved = self.worker.run(self.envs.save) if self.intact else ()
        known = bool(saved)
        worlds = state.worlds._replace(
            saved=saved if known else state.worlds.saved, exact=np.asarray(known)
        )
        return state._replace(worlds=worlds)

    def compile(self, stage: Stage, state: RunState) -> None:
        """Compile what a stage needs, without stepping environments."""
        if stage == "evaluate":
            self.evaluation.compile(state.agent, state.key)
        elif stage == "refresh":
            self._refresh.lower(state.agent, state.key).compile()
        else:
            self._compile_round(stage, state)

    def _compile_round(self, stage: Stage, state: RunState) -> None:
        agent, acting, device = _leaves(state.agent), self._acting(state), on_device(state)
        obs, first = self._outer((acting.obs, acting.first))
        self.act.lower(agent, acting.memory, obs, first, state.key).compile()
        if stage == "prefill":
            steps = self._outer(self._room(self.loop.prefill_vector_steps))
            self._store.lower(device, steps).compile()
            return
        tally, steps = self.no_tally(device), self._outer(self._room(self.loop.round.vector_steps))
        self.learn.lower(agent, device._replace(agent=()), tally, steps).compile()
        self._summarise.lower(device, tally).compile()

    def prefill(self, state: RunState) -> RunState:
        """Experience before the first update."""
        agent, number = _leaves(state.agent), self.loop.prefill_vector_steps
        play = partial(self._play, agent, self._acting(state), state.key, number, 0)
        steps, acting, key = self.worker.run(play)
        device, _ = self._store(on_device(state)._replace(key=key), steps)
        self._require_enough(device)
        return self._joined(state, _leaves(device.agent), acting, device)

    def chunk(self, state: RunState) -> tuple[RunState, Metrics]:
        """Rounds of steps and updates, and the mean of their metrics."""
        if not self.intact:  # they have moved on from where the last round was learned from
            state = self._restarted(state)
            warnings.warn("after their failure the environments start new episodes", stacklevel=2)
        device = on_device(state)
        tally = self.no_tally(device)
        rounds = Rounds(self, _leaves(state.agent), self._acting(state), device, tally)
        number = self.settings.rounds_per_chunk()
        try:
            if self.settings.overlap:
                key, acting_key = self._split(state.key)
                rounds.state = rounds.state._replace(key=key)
                rounds.side_by_side(number, acting_key)
            else:
                rounds.in_turn(number)
        except (EnvironmentFailedError, UserError) as reason:
            self.intact = False
            state = self._joined(state, rounds.agent, rounds.acting, rounds.state)
            raise InterruptedChunkError(state) from reason
        state = self._joined(state, rounds.agent, rounds.acting, rounds.state)
        return state, self._summarise(on_device(state), rounds.tally)

    def refresh(self, state: RunState) -> RunState:
        """The agent's soft reset."""
        agent, key = self._refresh(state.agent, state.key)
        return state._replace(agent=agent, key=key)

    def evaluate(self, state: RunState) -> Metrics:
        """The exploitation actor's return in environments of its own."""
        return self.worker.run(lambda: self.evaluation.run(state.agent, state.key))

    def look(self, state: RunState) -> Look:
        """What maps are made of."""
        found: Look = self._look(on_device(state))
        return found

    def bin_of(self, obs: np.ndarray) -> np.ndarray:
        """The flat coverage bins of observations, also for pictures of a run that has ended."""
        if self.worker.closed:
            return self.envs.envs[0].bin_of(obs)
        ask = partial(self.envs.ask, 0, "bin_of", None, partial(self.envs.envs[0].bin_of, obs))
        return self.worker.run(ask)

    def close(self) -> None:
        """Close the environments; errors in doing so are only warnings."""
        if self.worker.lost or self.worker.closed:
            return
        try:
            self.worker.run(self.evaluation.close)
            self.worker.run(self.envs.close)
        except Exception as error:
            warnings.warn(f"environments failed to close: {error}", stacklevel=2)
        self.worker.close()

    # Vector steps.

    def _play(
        self, agent: Leaves, acting: Acting, key: PRNGKeyArray, number: int, at: int
    ) -> Played:
        """`number` vector steps, the first of which is step `at` of the run."""
        steps = self._room(number)
        for t in range(number):
            obs, first = self._outer((acting.obs, acting.first))
            action, memory, key, env_keys = self.act(agent, acting.memory, obs, first, key)
            actions = np.asarray(action)[None] if len(self.seeds) == 1 else np.asarray(action)
            after = [
                self.envs.step(i, actions[i], env_keys[i], at + t) for i in range(len(actions))
            ]
            acting = _write(steps, t, acting, actions, after)._replace(memory=memory)
        if self.spec.grid is not None:
            self.envs.find_bins(steps)
        return self._outer(steps), acting, key

    def _room(self, number: int) -> Step:
        return empty_steps(self.spec, (len(self.seeds), number, self.settings.num_envs))

    def _acting(self, state: RunState) -> Acting:
        first, obs = np.asarray(state.episodes.length) == 0, np.asarray(state.worlds.obs)
        single = len(self.seeds) == 1
        return Acting(state.memory, obs[None] if single else obs, first[None] if single else first)

    def _joined(self, state: RunState, agent: Leaves, acting: Acting, device: RunState) -> RunState:
        worlds = state.worlds._replace(
            obs=self._outer(acting.obs), written=device.worlds.written, exact=np.asarray(False)
        )
        return device._replace(agent=self._whole(agent), memory=acting.memory, worlds=worlds)

    def _outer(self, tree: T) -> T:
        """Without the seed axis where there is one seed only."""
        return jax.tree.map(lambda x: x[0], tree) if len(self.seeds) == 1 else tree

    def _whole(self, agent: Leaves) -> Any:
        return jax.tree.unflatten(self._structure, agent)

    def _require_enough(self, state: RunState) -> None:
        length = self.loop.agent.sequence_length
        if int(np.asarray(state.worlds.written).max()) < length:
            raise UserError(
                f"{length} steps in a row before the first update",
                f"fewer in {self.settings.learning_starts} environment steps",
                "raise --learning-starts",
            )


class Rounds:
    """The rounds of a chunk; holds, at any instant, the state after the last one learned from."""

    def __init__(
        self, program: HostProgram, agent: Leaves, acting: Acting, state: RunState, tally: Tally
    ) -> None:
        self.program, self.agent, self.acting, self.tally = program, agent, acting, tally
        self.state = state._replace(agent=())
        self.begun = int(state.clock.vector_steps)

    def in_turn(self, number: int) -> None:
        """Each round acts with the agent that all rounds before it have taught."""
        for _ in range(number):
            steps, acting, key = self.program.worker.wait(self._play(self.acting, self.state.key))
            self.state = self.state._replace(key=key)
            self._learn(steps, acting)

    def side_by_side(self, number: int, key: PRNGKeyArray) -> None:
        """A round is played while the one before it is learned from; none is left open.

        `key` is for acting; its chain ends with the chunk.
        """
        steps, acting, key = self.program.worker.wait(self._play(self.acting, key))
        for _ in range(number - 1):
            coming = self._play(acting, key)
            self._learn(steps, acting)
            steps, acting, key = self.program.worker.wait(coming)
        self._learn(steps, acting)

    def _play(self, acting: Acting, key: PRNGKeyArray) -> Future[Played]:
        """Begin a round with the agent of now."""
        number, at = self.program.loop.round.vector_steps, self.begun
        self.begun += number
        play = partial(self.program._play, self.agent, acting, key, number, at)
        return self.program.worker.submit(play)

    def _learn(self, steps: Step, acting: Acting) -> None:
        learned = self.program.learn(self.agent, self.state, self.tally, steps)
        self.agent, self.state, self.tally = learned
        self.acting = acting


class SeedEnvs:
    """The environments of every seed, asked in the worker's thread; what they return is checked."""

    def __init__(self, envs: tuple[HostEnv, ...], names: list[str], worker: Worker) -> None:
        self.envs, self.names, self.worker = envs, names, worker
        self.spec: EnvSpec = envs[0].spec
        self.guard = Guard(self.spec)
        self.who = [
            f"one of the {env.num_envs} environments {env.spec.name} of {name}"
            for env, name in zip(envs, names, strict=True)
        ]

    def reset(self, keys: tuple[PRNGKeyArray, ...]) -> np.ndarray:
        """Reset all environments; their first observations."""
        fresh = []
        for i, key in enumerate(keys):
            env = self.envs[i]
            obs = self.ask(i, "reset", None, partial(env.reset, key))
            self.guard.obs(obs, env.num_envs, f"reset of {self.names[i]}")
            fresh.append(obs)
        return np.stack(fresh)

    def step(self, i: int, action: np.ndarray, key: PRNGKeyArray, at: int) -> HostStep:
        """A checked step."""
        when = f"vector step {at:,}"
        step = self.ask(i, when, action, partial(self.envs[i].step, action, key))
        self.guard.step(step, action, f"{when} of {self.names[i]}")
        return step

    def find_bins(self, steps: Any) -> None:
        """Fill in the bins of successors, and of the starts of episodes that were acted in."""
        for i, env in enumerate(self.envs):
            row, valid = jax.tree.map(lambda x, i=i: x[i], steps.transition), steps.valid[i]
            for which, obs, counted in (
                (0, row.obs, row.first & valid),
                (1, row.next_obs, valid),
            ):
                if counted.any():
                    found = self.ask(i, "bin_of", None, partial(env.bin_of, obs[counted]))
                    steps.bins[i][:, which][counted] = found

    def save(self) -> tuple[dict[str, np.ndarray], ...]:
        """The saved state of each seed's environments; nothing at all if one cannot be saved."""
        found = [self.ask(i, "save", None, env.save) for i, env in enumerate(self.envs)]
        return tuple(saved for saved in found if saved is not None) if None not in found else ()

    def restore(self, saved: tuple[dict[str, np.ndarray], ...]) -> None:
        """Go on from what `save` gave."""
        for i, (env, part) in enumerate(zip(self.envs, saved, strict=True)):
            self.ask(i, "restore", None, partial(env.restore, part))

    def close(self) -> None:
        """Close all environments."""
        for i, env in enumerate(self.envs):
            self.ask(i, "close", None, env.close)

    def ask(self, i: int, what: str, action: np.ndarray | None, call: Callable[[], T]) -> T:
        """The result of a call, or an error that names environment, call, action and cause."""
        try:
            with self.worker.asking(self.who[i], what, action):
                return call()
        except (EnvironmentFailedError, UserError):
            raise
        except Exception as error:
            words = traceback.format_exc()
            raise EnvironmentFailedError.of(self.who[i], what, action, words) from error


class HostEvaluation:
    """The exploitation actor in `num_envs` environments, built when first needed; each plays `each`
    complete episodes."""

    def __init__(
        self,
        agent: Agent,
        make: Callable[[int], HostEnv],
        num_envs: int,
        seeds: tuple[int, ...],
        worker: Worker,
        each: int = 1,
        patience: int = 1,
    ) -> None:
        self.agent, self.make, self.num_envs, self.seeds = agent, make, num_envs, seeds
        self.worker, self.each, self.patience = worker, each, patience
        self.envs: SeedEnvs | None = None
        self._exploit = jax.jit(self._decide)
        self._keys = jax.jit(self._all_keys)
        self._one = jax.jit(lambda tree, i: jax.tree.map(lambda x: x[i], tree))

    def _decide(self, agent: Any, obs: Array, keys: Array, t: int) -> tuple[Array, Array]:
        return self.agent.exploit(agent, obs), keys[t]

    def _all_keys(self, key: PRNGKeyArray) -> tuple[Array, Array]:
        reset_key, run_key = jax.random.split(jax.random.fold_in(key, 1))
        return reset_key, jax.random.split(run_key, self._limit())

    def _limit(self) -> int:
        return self.patience * self.each * self.agent.spec.episode_length

    def names(self) -> list[str]:
        """What is reported."""
        spec = self.agent.spec
        return list(jax.eval_shape(lambda: evaluation_metrics(Episodes.start(spec, 1), spec)))

    def compile(self, agent: Any, key: PRNGKeyArray) -> None:
        """Compile decisions; no environment is needed for that."""
        if len(self.seeds) > 1:
            agent, key = self._one((agent, key), 0)
        obs = empty_steps(self.agent.spec, (self.num_envs,)).transition.obs
        self._exploit.lower(agent, obs, self._keys(key)[1], 0).compile()

    def run(self, agent: Any, key: PRNGKeyArray) -> Metrics:
        """Metrics, with a seed axis if there are several."""
        if len(self.seeds) == 1:
            return self._play(agent, key)
        found = [self._play(*self._one((agent, key), i)) for i in range(len(self.seeds))]
        return {name: jnp.stack([each[name] for each in found]) for name in found[0]}

    def close(self) -> None:
        """Close the environments."""
        if self.envs is not None:
            self.envs.close()
            self.envs = None

    def _play(self, agent: Any, key: PRNGKeyArray) -> Metrics:
        if self.envs is None:
            self.envs = SeedEnvs((self.make(self.num_envs),), ["an evaluation"], self.worker)
        reset_key, keys = self._keys(key)
        sums = play_host(
            self.envs,
            lambda obs, t: self._exploit(agent, obs, keys, t),
            reset_key,
            self.each,
            self._limit(),
        )
        return evaluation_metrics(jax.tree.map(jnp.asarray, sums), self.agent.spec)


def play_host(
    envs: SeedEnvs,
    decide: Callable[[np.ndarray, int], tuple[Any, PRNGKeyArray]],
    reset_key: PRNGKeyArray,
    each: int,
    limit: int,
    watch: Callable[[np.ndarray], None] = lambda obs: None,
) -> Episodes:
    """Sums of the first `each` episodes of every environment, played within `limit` vector steps.
    `decide` gives actions and the environments' key; `watch` sees all observations decided on."""
    spec, obs = envs.spec, envs.reset((reset_key,))[0]
    env, number = np.arange(len(obs)), np.zeros(len(obs), int)
    sums: Any = jax.tree.map(
        lambda x: np.zeros((each, *x.shape), x.dtype), Episodes.start(spec, len(obs))
    )
    for t in range(limit):
        watch(obs)
        action, step_key = decide(obs, t)
        step = envs.step(0, np.asarray(action), step_key, t)
        counted = (number < each) & step.valid
        place = (number[counted], env[counted])
        sums.length[place] += 1
        sums.reward[place] += step.reward[counted]
        sums.success[place] |= step.success[counted]
        for name, total in sums.terms.items():
            total[place] += step.terms[name][counted]
        number = number + (step.terminated | step.truncated)
        obs = step.obs
        if (number >= each).all():
            return jax.tree.map(lambda x: x.T.reshape(-1), sums)
    raise UserError(
        f"every episode of {spec.name} to end within {spec.episode_length} steps",
        f"{(number < each).sum()} of {len(obs)} environments still in theirs",
        "end them, or state the true episode length",
    )


def empty_steps(spec: EnvSpec, shape: tuple[int, ...]) -> Step:
    """Room for vector steps, to be filled; the last axis of `shape` is environments."""

    def room(dtype: Any, *more: int) -> Any:
        return np.zeros((*shape, *more), dtype)

    def observations() -> Any:
        kind = spec.observation
        return room(np.int32) if isinstance(kind, Index) else room(kind.dtype, kind.size)

    bins: Any = np.full((*shape[:-1], 2, shape[-1]), -1, np.int32)
    return Step(
        transition=Transition(
            obs=observations(),
            action=room(np.float32, spec.action.size),
            reward=room(np.float32),
            discount=room(np.float32),
            next_obs=observations(),
            first=room(bool),
        ),
        ended=room(bool),
        success=room(bool),
        terms={name: room(np.float32) for name in spec.terms},
        bins=bins,
        valid=room(bool),
    )


def _write(
    steps: Any, t: int, acting: Acting, actions: np.ndarray, after: list[HostStep]
) -> Acting:
    """Copies a vector step into its row; where the next one begins."""
    row = steps.transition
    row.obs[:, t], row.first[:, t], row.action[:, t] = acting.obs, acting.first, actions
    for i, step in enumerate(after):
        row.reward[i, t], row.next_obs[i, t] = step.reward, step.next_obs
        row.discount[i, t] = ~step.terminated
        steps.ended[i, t] = step.terminated | step.truncated
        steps.valid[i, t], steps.success[i, t] = step.valid, step.success
        for name, values in step.terms.items():
            steps.terms[name][i, t] = values
    first = np.asarray(steps.ended[:, t] | (acting.first & ~steps.valid[:, t]))
    return acting._replace(obs=np.stack([step.obs for step in after]), first=first)


def on_device(state: RunState) -> RunState:
    """The state without what stays with the environments."""
    return state._replace(memory=(), worlds=HostWorlds((), state.worlds.written, (), ()))


def _leaves(agent: Any) -> Leaves:
    return tuple(jax.tree.leaves(agent))
