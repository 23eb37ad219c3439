"""What acting, storing and learning do to the state of a run. `fused` scans it, `host` calls it
around Python steps, so the same environment gives the same numbers in both."""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from devote.core.types import (
    Agent,
    Box,
    EnvSpec,
    Metrics,
    Observation,
    Outcome,
    Transition,
    observe,
)
from devote.loops.episodes import Episodes, Finished, episode_metrics, follow
from devote.loops.schedule import LoopSettings, Round
from devote.replay import Replay

# What runs once or rarely compiles three times faster without LLVM's optimisations.
QUICK_COMPILE = {"xla_backend_optimization_level": 0}
PATH = (4, 250)  # environments and steps of which a snapshot shows the way
REPLAYED = 1024  # states at which maps are made where bins have no middle
BLOCK = 4096  # transitions that are counted again at a time
DRAWS = 4  # actions of which an arrow is the mean


class Clock(NamedTuple):
    """Counters, the same for every seed of a run."""

    vector_steps: Int[Array, ""]
    updates: Int[Array, ""]


class HostWorlds(NamedTuple):
    """What a checkpoint holds of environments on the host; a seed axis if there are several."""

    obs: Any
    """Where the next decisions are made."""
    written: Int[Array, "envs"]
    """Transitions ever stored of each environment."""
    saved: Any
    """For each seed the saved state of its environments; empty where they cannot be saved."""
    exact: Any
    """Whether `saved` belongs to this very step."""


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


class Look(NamedTuple):
    """What a run's maps are made of; a seed axis if there are several."""

    values: dict[str, Array]
    """The agent's maps, at the middle of every bin or at the observations `seen`."""
    arrows: Array | None
    """Mean action of the behaviour in every bin, where actions are a direction in a plane."""
    seen: Array | None
    """Replayed observations; None where bins have a middle."""
    path: Array
    """Where some environments were in their last steps, `(steps, envs, ...)`, oldest first."""
    first: Bool[Array, "steps envs"]
    """Where on it episodes begin."""
    known: Bool[Array, "steps envs"]
    """False for steps from before the run."""


# The clock is shared, so that replay writes stay slices; everything else has a seed axis.
SEED_AXES = RunState(None, 0, 0, 0, 0, 0, 0, 0)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Devices:
    """The devices of a run: several seeds are spread over them, or the batch of a single one."""

    seeds: int = 1
    count: int = 1

    def over(self, split: bool) -> NamedSharding:
        """Split along the first axis, or a copy on each."""
        mesh = Mesh(np.array(jax.devices()[: self.count]), ("devices",))
        return NamedSharding(mesh, PartitionSpec("devices") if split else PartitionSpec())

    def outputs(self, axes: Any) -> Any:
        """Where what has a seed axis, or has none, goes; None for a single device."""
        if self.count == 1:
            return None
        place = lambda axis: self.over(axis == 0 and self.seeds > 1)  # noqa: E731
        return jax.tree.map(place, axes, is_leaf=lambda axis: axis is None)

    def place(self, state: "RunState") -> "RunState":
        """A restored state where it belongs; what environments on the host hold stays there."""
        if self.count == 1:
            return state
        axes, worlds = self.outputs(SEED_AXES), state.worlds
        held = worlds.written if isinstance(worlds, HostWorlds) else worlds
        placed = RunState(*map(jax.device_put, state._replace(worlds=held), axes))
        if isinstance(worlds, HostWorlds):
            return placed._replace(worlds=worlds._replace(written=placed.worlds))
        return placed

    def spread(self, batch: Transition) -> Transition:
        """The batch of a single seed, a part of it on each device."""
        if self.count == 1 or self.seeds > 1:
            return batch
        return jax.lax.with_sharding_constraint(batch, self.over(split=True))


ONE_DEVICE = Devices()


class Step(NamedTuple):
    """A vector step, ready to be stored."""

    transition: Transition
    ended: Bool[Array, "envs"]
    success: Bool[Array, "envs"]
    terms: dict[str, Float[Array, "envs"]]
    bins: Int[Array, "2 envs"]
    """Coverage bins of the starts of episodes and of the successors; -1 where nothing counts."""
    valid: Bool[Array, "envs"] | None
    """False where an environment had nothing to add; None where all always have."""


@dataclass(frozen=True)
class Loop:
    """One seed of the schedule as pure functions, around any agent and any kind of environment."""

    agent: Agent
    spec: EnvSpec
    settings: LoopSettings
    devices: Devices = ONE_DEVICE

    @cached_property
    def replay(self) -> Replay:
        s = self.settings
        return Replay(self.spec, s.replay_capacity, s.num_envs, self.agent.sequence_length)

    @cached_property
    def round(self) -> Round:
        return Round.of(self.settings)

    @property
    def prefill_vector_steps(self) -> int:
        """Vector steps before the first update."""
        return self.settings.prefill_vector_steps(self.agent.sequence_length)

    def rows(self, steps: int) -> int:
        """Rows of replay for a run of so many steps and a chunk beyond; whole blocks, so that what
        is counted again does not depend on them, and no more than the capacity."""
        s = self.settings
        most = max(-(-steps // s.num_envs), self.prefill_vector_steps)
        blocks = -(-(most + s.chunk_steps() // s.num_envs) // self.block_rows)
        return min(blocks * self.block_rows, self.replay.num_rows)

    @property
    def block_rows(self) -> int:
        """Rows that are counted again at a time."""
        return max(1, BLOCK // self.settings.num_envs)

    def init(self, key: PRNGKeyArray, rows: int | None = None) -> tuple[RunState, PRNGKeyArray]:
        """A run before its first step, without its environments, and the key to reset them with;
        its replay has so many rows, or all that it ever may."""
        agent_key, reset_key, run_key = run_keys(key)
        num_envs, grid = self.settings.num_envs, self.spec.grid
        state = RunState(
            clock=Clock(jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32)),
            key=run_key,
            agent=self.agent.init(agent_key),
            memory=self.agent.remember(num_envs),
            worlds=(),
            episodes=Episodes.start(self.spec, num_envs),
            replay=self.replay.init(rows),
            visits=jnp.zeros(grid.size if grid else 0, jnp.int32),
        )
        return state, reset_key

    def act(
        self, agent: Any, memory: Any, obs: Observation, first: Array, key: PRNGKeyArray
    ) -> tuple[Array, Any, PRNGKeyArray, PRNGKeyArray]:
        """Actions; the memory and the run's key after them; and the environments' key."""
        key, act_key, env_key = jax.random.split(key, 3)
        action, memory = self.agent.act(agent, memory, obs, first, act_key)
        if (exploring := self.settings.exploring_envs) < len(action):
            exploit_key = jax.random.fold_in(act_key, 1)
            tested = self.agent.exploit(agent, obs[exploring:], exploit_key)
            action = action.at[exploring:].set(tested)
        return action, memory, key, env_key

    def store(self, state: RunState, step: Step) -> tuple[RunState, Finished]:
        """A vector step into the replay and the counters."""
        taken, valid = step.transition, step.valid
        outcome = Outcome(taken.reward, 1 - taken.discount, step.success, step.terms)
        episodes, finished = follow(state.episodes, outcome, step.ended, valid)
        written = self.written(state)
        if valid is not None:
            state = state._replace(worlds=state.worlds._replace(written=written + valid))
        state = state._replace(
            clock=state.clock._replace(vector_steps=state.clock.vector_steps + 1),
            episodes=episodes,
            replay=self.replay.add(state.replay, written, taken, valid),
            visits=count_visits(state.visits, step.bins),
        )
        return state, finished

    def observe(self, state: RunState, steps: Step) -> RunState:
        """The agent takes in vector steps, which have a leading axis."""
        taken, valid = jax.tree.map(
            lambda x: x.reshape(-1, *x.shape[2:]), (steps.transition, steps.valid)
        )
        key = jax.random.fold_in(state.key, 2)
        number = state.clock.vector_steps // self.round.vector_steps
        see = partial(observe, self.agent, state.agent, taken, valid, key, number)
        if not getattr(self.agent, "recounts", False):
            return state._replace(agent=see())
        updates = state.clock.updates  # not of the agent, so that one branch runs, not both
        before = jnp.maximum(updates - self.round.updates, 0)
        due = jax.lax.clz(updates) != jax.lax.clz(before)  # a power of two lies between
        return state._replace(agent=jax.lax.cond(due, partial(self._recount, state, key), see))

    def _recount(self, state: RunState, key: PRNGKeyArray) -> Any:
        """The agent after all that the replay holds, in the view of now."""
        held, written = len(state.replay.first), self.written(state)
        rows = min(self.block_rows, held)
        blocks = -(-jnp.minimum(jnp.max(written), held) // rows)

        def see(number: Array, agent: Any) -> Any:
            block, valid = self.replay.block(state.replay, written, number, rows)
            again = jax.random.fold_in(key, number)
            return observe(self.agent, agent, block, valid, again, blocks - 1 - number)

        start = self.agent.forget(state.agent)  # type: ignore[attr-defined]
        return jax.lax.fori_loop(0, blocks, see, start)

    def written(self, state: RunState) -> Int[Array, "*envs"]:
        """Rows ever stored: one number, or one per environment where they may differ."""
        if isinstance(state.worlds, HostWorlds):
            return state.worlds.written
        return state.clock.vector_steps

    def sample(self, state: RunState, key: PRNGKeyArray) -> Transition:
        """A batch of stored experience."""
        return self.replay.sample(state.replay, self.written(state), self.settings.batch_size, key)

    def update(self, state: RunState) -> tuple[RunState, Metrics]:
        """One gradient update."""
        key, sample_key, update_key = jax.random.split(state.key, 3)
        batch = self.devices.spread(self.sample(state, sample_key))
        agent, metrics = self.agent.update(state.agent, batch, update_key)
        clock = state.clock._replace(updates=state.clock.updates + 1)
        return state._replace(agent=agent, key=key, clock=clock), metrics

    def updates(self, state: RunState) -> tuple[RunState, Metrics]:
        """The updates of a round, and the means of their metrics."""
        state, metrics = jax.lax.scan(lambda s, _: self.update(s), state, length=self.round.updates)
        return state, jax.tree.map(lambda x: x.mean(), metrics)

    def summarise(self, state: RunState, finished: Finished, means: Metrics) -> Metrics:
        """What a chunk reports: means over updates, diagnostics, and episodes that ended."""
        batch = self.sample(state, jax.random.fold_in(state.key, 0))
        found = episode_metrics(finished, self.spec)
        return means | self.agent.diagnose(state.agent, batch) | found

    def refresh(self, agent: Any, key: PRNGKeyArray) -> tuple[Any, PRNGKeyArray]:
        """The agent after its soft reset, and the run's key after it."""
        key, reset_key = jax.random.split(key)
        return self.agent.refresh(agent, reset_key), key

    def look(self, state: RunState) -> "Look":
        """The agent's maps in the middle of every bin, or at replayed states; and where it went."""
        assert self.spec.grid is not None
        centers, written = self.spec.grid.centers, self.written(state)
        key = jax.random.fold_in(state.key, 2)  # which leaves the run's own as it was
        envs, steps = min(self.settings.num_envs, PATH[0]), min(self.spec.episode_length, PATH[1])
        path = self.replay.newest(state.replay, written, envs, steps)
        if centers is None:
            runs = max(1, REPLAYED // self.agent.sequence_length) * self.agent.sequence_length
            seen = self.replay.sample(state.replay, written, runs, key).obs
            return Look(self.agent.maps(state.agent, seen), None, seen, *path)
        obs, arrows = jnp.asarray(centers), None
        if self.spec.action == Box(2):
            memory, first = self.agent.remember(len(obs)), jnp.ones(len(obs), bool)
            act = lambda key: self.agent.act(state.agent, memory, obs, first, key)[0]  # noqa: E731
            arrows = jax.vmap(act)(jax.random.split(key, DRAWS)).mean(axis=0)
        return Look(self.agent.maps(state.agent, obs), arrows, None, *path)


def run_keys(key: PRNGKeyArray) -> tuple[PRNGKeyArray, PRNGKeyArray, PRNGKeyArray]:
    """The keys of a run: its fresh agent's, its first episodes', and that of all that follows."""
    agent_key, reset_key, run_key = jax.random.split(key, 3)
    return agent_key, reset_key, run_key


def seed_keys(seeds: tuple[int, ...]) -> Array:
    """The keys that everything of a seed comes from."""
    return jnp.stack([jax.random.key(seed) for seed in seeds])


def count_visits(visits: Int[Array, "bins"], bins: Int[Array, "*many"]) -> Int[Array, "bins"]:
    """Visits with new ones added; bins below 0 are not counted."""
    if visits.size == 0:
        return visits
    return visits.at[jnp.where(bins >= 0, bins, visits.size)].add(1, mode="drop")


def split_seeds(values: dict[str, Array], seeds: int) -> list[dict[str, np.ndarray]]:
    """One dictionary of host arrays per seed; a single seed has no axis of its own."""
    host = {name: np.asarray(value) for name, value in values.items()}
    if seeds == 1:
        return [host]
    return [{name: value[i] for name, value in host.items()} for i in range(seeds)]


Stage = Literal["prefill", "chunk", "refresh", "evaluate"]
"""What a run is made of, by the name of the program's function."""


class InterruptedChunkError(Exception):
    """A chunk could not be finished; `state` is sound, and the cause says why."""

    def __init__(self, state: RunState) -> None:
        super().__init__("a chunk was interrupted")
        self.state = state


class Program(Protocol):
    """A loop made ready for its seeds; with more than one, arrays gain a leading seed axis."""

    @property
    def seeds(self) -> tuple[int, ...]: ...

    @property
    def spec(self) -> EnvSpec: ...

    @property
    def settings(self) -> LoopSettings: ...

    @property
    def devices(self) -> Devices: ...

    def shape(self) -> RunState:
        """Shapes and types of the run's state, without allocating it."""
        ...

    def metric_names(self, shape: RunState) -> tuple[str, ...]:
        """What `chunk` and `evaluate` report."""
        ...

    def rows(self, steps: int) -> int:
        """Rows of replay that a run of so many steps needs."""
        ...

    def init(self, rows: int | None = None) -> RunState:
        """The run before its first step; its replay has so many rows, or all that it may."""
        ...

    def resume(self, state: RunState) -> tuple[RunState, str]:
        """Go on from a checkpoint; the second value says how the environments do."""
        ...

    def snapshot(self, state: RunState) -> RunState:
        """The state with all that a checkpoint needs."""
        ...

    def compile(self, stage: Stage, state: RunState) -> None:
        """Compile what a stage needs, so that its first call is as fast as all others."""
        ...

    def prefill(self, state: RunState) -> RunState:
        """Experience before the first update."""
        ...

    def chunk(self, state: RunState) -> tuple[RunState, Metrics]:
        """Rounds of steps and updates, and the mean of their metrics."""
        ...

    def refresh(self, state: RunState) -> RunState:
        """The agent's soft reset."""
        ...

    def evaluate(self, state: RunState) -> Metrics:
        """The exploitation actor's return; leaves the run as it was."""
        ...

    def look(self, state: RunState) -> Look:
        """What maps are made of, where coverage is counted; leaves the run as it was."""
        ...

    def bin_of(self, obs: np.ndarray) -> np.ndarray:
        """The flat coverage bins of observations; -1 where they count nowhere."""
        ...

    def close(self) -> None:
        """Let go of the environments."""
        ...
