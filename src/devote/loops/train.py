"""A run from its first step, or its newest checkpoint, to its end."""

import math
import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from devote.core.errors import DivergedError, EnvironmentFailedError, UserError
from devote.core.settings import fit
from devote.core.types import Metrics
from devote.loops import checkpoint
from devote.loops.loop import InterruptedChunkError, Program, RunState, Stage, split_seeds
from devote.loops.memory import require_memory, tree_bytes
from devote.loops.progress import Reporter
from devote.loops.run_dir import DirectoryStore, Row, RunDirectory, Store
from devote.loops.signals import StopRequest
from devote.loops.snapshots import VISITS, take
from devote.measure.coverage import coverage
from devote.replay import grown

Callback = Callable[[list[Row]], bool | None]
"""Called with the metrics of every chunk, a row for each seed; False stops the training."""
WORDS = dict(prefill="first steps", chunk="training", evaluate="evaluation")


@dataclass(frozen=True)
class Plan:
    """What to run and where; `settings` identify the run, `defaults` names those at default."""

    program: Program
    steps: int
    directory: Path
    settings: dict[str, Any]
    defaults: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Result:
    """Where a run ended."""

    program: Program
    state: RunState
    step: int
    stopped_by: str | None
    """The signal that stopped the run, if any."""


def train(plan: Plan, silent: bool = False, callback: Callback | None = None) -> Result:
    """Start or continue a run, until its end or a signal."""
    program = plan.program
    reporter = Reporter(plan.steps, silent)
    with closing(program), RunDirectory(plan.directory), StopRequest() as stop:
        store = DirectoryStore(plan.directory, plan.settings, plan.defaults)
        training = Training(program, reporter, store)
        training.begin()
        training.run(plan.steps, stop, callback)
        return Result(program, training.state, training.step, stop.signal_name)


def columns_of(program: Program, shape: RunState) -> tuple[str, ...]:
    """The columns of metrics.csv."""
    grid = program.spec.grid
    covered = [] if grid is None else list(coverage(np.zeros(grid.size), grid))
    ordered = ["step", "seed", *covered, *program.metric_names(shape)]
    learned = ["train/n_updates", "train/updates_per_step"]
    return (*ordered, *learned, "time/fps", "time/time_elapsed", "time/total_timesteps")


RETURNS = {"rollout/ep_rew_mean": "return", "eval/mean_reward": "evaluation"}


class Training:
    """What happens between chunks: resets, evaluations, checkpoints, metrics."""

    def __init__(self, program: Program, reporter: Reporter, store: Store) -> None:
        self.program, self.reporter, self.store = program, reporter, store
        self.state: RunState
        self.saved_step = -1
        self.reset_due = False  # a soft reset comes before the next chunk, never after the last
        self.compiled: set[Stage] = set()
        self.returns: dict[str, list[float]] = {}  # the latest of every seed
        self.elapsed = 0.0  # seconds of earlier starts
        self.started = time.perf_counter()

    @property
    def step(self) -> int:
        """Environment steps so far, in all environments of one seed."""
        return int(self.state.clock.vector_steps) * self.program.settings.num_envs

    def begin(self, learned: Any = None) -> None:
        """Restore the newest checkpoint, or start with a fresh agent, or one `learned` before."""
        shape, rows = self.program.shape(), self.program.rows(self.reporter.total)
        replay = tree_bytes(shape.replay) * rows // self._rows_of(shape)
        needed = tree_bytes(shape) - tree_bytes(shape.replay) + replay
        require_memory(needed, replay)
        restored = self.store.open(shape, columns_of(self.program, shape))
        if restored is not None:
            self.saved_step = restored.step
            self.elapsed = fit(float, "time_elapsed", restored.note.get("time_elapsed"))
            self.reset_due = fit(bool, "reset_due", restored.note.get("reset_due", False))
            self.state, environments = self.program.resume(restored.state)
            before, now = restored.note.get("devices", 1), self.program.devices.count
            if before != now:
                self.reporter.say(f"{now} devices instead of {before}: equal up to rounding")
            done = self.saved_step >= self.reporter.total
            where = f"at step {self.saved_step:,} in {self.store}; {environments}"
            self.reporter.say(f"{'already finished' if done else 'continuing'} {where}")
            return
        self.reporter.say(f"memory: {needed / 1e6:.0f} MB, of which replay {replay / 1e6:.0f} MB")
        state = self.program.init(rows)
        if learned is not None:  # a copy, as the first steps may donate it
            state = state._replace(agent=jax.tree.map(jnp.copy, learned))
        self._compile("prefill", state)
        self.state = jax.block_until_ready(self.program.prefill(state))
        self._map()

    def run(self, until: int, stop: StopRequest, callback: Callback | None = None) -> None:
        """Train up to a step, a signal or the callback's False, then save."""
        goes_on = True
        with self.reporter.running(self.step):
            while goes_on and self.step < until and not stop.requested:
                rows = self.advance()
                goes_on = callback is None or callback(rows) is not False
        self.end()

    def advance(self) -> list[Row]:
        """One chunk and what is due after it; if environments fail, what came before is saved."""
        try:
            return self._advance()
        except InterruptedChunkError as interruption:
            self.state, reason = interruption.state, interruption.__cause__
        except (EnvironmentFailedError, UserError) as error:  # raised in an evaluation
            reason = error
        self.end()
        self.reporter.say(f"stopped; all up to step {self.step:,} is in {self.store}")
        assert reason is not None
        raise reason

    def _make_room(self) -> None:
        """Enlarge the replay for a longer budget than it was allocated for."""
        rows = self.program.rows(max(self.reporter.total, self.step))
        held = self._rows_of(self.state)
        if held < rows:
            more = tree_bytes(self.state.replay) * rows // held
            require_memory(more, more)  # old and new are both there while copying
            replay = grown(self.state.replay, rows, axis=np.ndim(self.state.key))
            self.state = self.program.devices.place(self.state._replace(replay=replay))
            self.compiled.clear()

    @staticmethod
    def _rows_of(state: RunState) -> int:
        return int(jax.tree.leaves(state.replay)[0].shape[np.ndim(state.key)])

    def _advance(self) -> list[Row]:
        self._make_room()
        if self.reset_due:
            self._compile("refresh", self.state)
            self.state, self.reset_due = self.program.refresh(self.state), False
        self._compile("chunk", self.state)
        before, start = self.step, time.perf_counter()
        self.state, metrics = jax.block_until_ready(self.program.chunk(self.state))
        rate = (self.step - before) / (time.perf_counter() - start)
        loop = self.program.settings
        self.reset_due = self._due(before, loop.reset_interval)
        last = loop.eval_interval > 0 and self.step >= self.reporter.total
        try:
            if last or self._due(before, loop.eval_interval):
                self._compile("evaluate", self.state)
                metrics |= jax.block_until_ready(self.program.evaluate(self.state))
        finally:  # the row is kept even if the evaluation fails
            rows = self._rows(metrics, rate)
            self.store.append(rows)
            self._require_finite(rows)
        if self._due(before, loop.map_interval) or self.step >= self.reporter.total:
            self._map()
        if self._due(before, loop.checkpoint_interval):
            self._save()
        self.reporter.advance(self.step, rows[0]["time/fps"], self._detail(rows))
        return rows

    def end(self) -> None:
        """Save the last step."""
        if self.step != self.saved_step:
            self._save()

    def _map(self) -> None:
        interval = self.program.settings.map_interval
        if self.program.spec.grid is not None and 0 < interval <= self.reporter.total:
            self.store.keep_maps(lambda: take(self.program, self.state, self.step))

    def _due(self, before: int, interval: int) -> bool:
        """Whether a multiple of `interval` was passed since step `before`."""
        return interval > 0 and self.step // interval > before // interval

    def _compile(self, stage: Stage, state: RunState) -> None:
        if stage not in self.compiled:
            self.compiled.add(stage)
            told = self.reporter.compiling(WORDS[stage]) if stage in WORDS else nullcontext()
            with told:
                self.program.compile(stage, state)

    def _save(self) -> None:
        self.state = self.program.snapshot(self.state)
        self._require_finite_state()
        note = {"time_elapsed": self._seconds(), "reset_due": self.reset_due}
        note["devices"] = self.program.devices.count
        self.store.save(self.step, self.state, note)
        self.saved_step = self.step

    def _seconds(self) -> float:
        return self.elapsed + time.perf_counter() - self.started

    def _rows(self, metrics: Metrics, rate: float) -> list[Row]:
        grid = self.program.spec.grid
        seeds, updates = self.program.seeds, int(self.state.clock.updates)
        by_seed = split_seeds(metrics | {VISITS: self.state.visits}, len(seeds))
        rows: list[Row] = []
        for seed, values in zip(seeds, by_seed, strict=True):
            visits = values.pop(VISITS)
            row: Row = {"step": self.step, "seed": seed}
            row |= {} if grid is None else coverage(visits, grid)
            row |= {name: float(value) for name, value in values.items()}
            row |= {
                "train/n_updates": updates,
                "train/updates_per_step": updates / self.step,
                "time/fps": rate,
                "time/time_elapsed": self._seconds(),
                "time/total_timesteps": self.step,
            }
            rows.append(row)
        return rows

    def _require_finite_state(self) -> None:
        """Refuse to save an agent that is not finite; not every NaN shows in a metric."""
        if bool(_all_finite(self.state.agent)):
            return
        leaves = checkpoint.named_leaves(self.state.agent)
        bad = next(name for name, leaf in leaves.items() if not bool(_all_finite(leaf)))
        raise self._diverged(f"{bad} of the agent is not finite at step {self.step:,}")

    def _require_finite(self, rows: list[Row]) -> None:
        for row in rows:
            for name, value in row.items():
                # NaN if no episode ended in the chunk
                if not name.startswith("rollout/") and not math.isfinite(value):
                    words = f"{name} became {value} by step {self.step:,} of seed {row['seed']}"
                    raise self._diverged(words)

    def _diverged(self, words: str) -> DivergedError:
        return DivergedError(
            f"{words}; the last sound checkpoint is at step {max(self.saved_step, 0):,}; "
            "lower learning_rate, or look at metrics.csv for what grew first"
        )

    def _detail(self, rows: list[Row]) -> str:
        """Coverage, and the latest returns in training and evaluation."""
        grid, told = self.program.spec.grid, []
        if grid is not None:
            bins, shares = int(grid.eligible.sum()), [row["explore/coverage"] for row in rows]
            seen = " ".join(f"{share:.3f} ({round(share * bins):,})" for share in shares)
            told.append(f"coverage {seen} of {bins:,} bins")
        for name, words in RETURNS.items():
            found = [row.get(name, math.nan) for row in rows]
            if all(map(math.isfinite, found)):
                self.returns[words] = found
        for words, found in self.returns.items():
            if any(found):
                told.append(f"{words} " + " ".join(f"{value:.4g}" for value in found))
        return "  ".join(told)


@jax.jit
def _all_finite(tree: Any) -> Array:
    """Whether all floating-point numbers of a tree are finite."""
    numbers = [x for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.floating)]
    return jnp.all(jnp.array([True, *(jnp.isfinite(x).all() for x in numbers)]))
