"""A run from its first step, or its last checkpoint, to its end."""

import math
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from devote.core.errors import DivergedError, EnvironmentFailedError, UserError
from devote.core.types import Metrics
from devote.loops import checkpoint
from devote.loops.loop import InterruptedChunkError, Program, RunState, Stage, split_seeds
from devote.loops.memory import require_memory, tree_bytes
from devote.loops.progress import Reporter
from devote.loops.run_dir import CHECKPOINTS, METRICS, DirectoryStore, Row, RunDirectory, Store
from devote.loops.signals import StopRequest
from devote.measure.coverage import coverage

__all__ = ["CHECKPOINTS", "METRICS", "DivergedError", "Plan", "Result", "Training", "train"]

Callback = Callable[[list[Row]], bool | None]
"""Told the metrics of every chunk, a row for each seed; False ends the learning."""
WORDS: dict[Stage, str] = {
    "prefill": "first steps",
    "chunk": "training",
    "refresh": "soft reset",
    "evaluate": "evaluation",
}


@dataclass(frozen=True)
class Plan:
    """What to run and where; `settings` identifies the run, `defaults` names those at default."""

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
    """The signal that stopped the run early, if one did."""


def train(plan: Plan, silent: bool = False) -> Result:
    """Run to the end, or on from the newest checkpoint; stop safely when a signal asks."""
    program = plan.program
    reporter = Reporter(plan.steps, silent)
    with closing(program), RunDirectory(plan.directory), StopRequest() as stop:
        store = DirectoryStore(plan.directory, plan.settings, plan.defaults)
        training = Training(program, reporter, store)
        training.begin()
        training.run(plan.steps, stop)
        return Result(program, training.state, training.step, stop.signal_name)


def columns_of(program: Program, shape: RunState) -> tuple[str, ...]:
    """What a run logs."""
    grid = program.spec.grid
    covered = [] if grid is None else list(coverage(np.zeros(grid.size), grid))
    ordered = ["step", "seed", *covered, *program.metric_names(shape)]
    learned = ["train/n_updates", "train/updates_per_step"]
    return (*ordered, *learned, "time/fps", "time/time_elapsed", "time/total_timesteps")


class Training:
    """The host's side of a run: everything rare, between chunks."""

    def __init__(self, program: Program, reporter: Reporter, store: Store) -> None:
        self.program, self.reporter, self.store = program, reporter, store
        self.state: RunState
        self.saved_step = -1
        self.reset_due = False  # a soft reset comes before the next update, never after the last
        self.compiled: set[Stage] = set()
        self.elapsed = 0.0  # seconds of earlier starts
        self.started = time.perf_counter()

    @property
    def step(self) -> int:
        """Environment steps taken, over all parallel environments of one seed."""
        return int(self.state.clock.vector_steps) * self.program.settings.num_envs

    def begin(self, learned: Any = None) -> None:
        """Restore the newest checkpoint, or start, with the agent that was learned elsewhere."""
        shape = self.program.shape()
        capacity, steps = self.program.settings.replay_capacity, self.reporter.total
        require_memory(tree_bytes(shape), tree_bytes(shape.replay), capacity, steps)
        restored = self.store.open(shape, columns_of(self.program, shape))
        if restored is not None:
            self.saved_step = restored.step
            self.elapsed = float(restored.note["time_elapsed"])
            self.reset_due = bool(restored.note.get("reset_due", False))
            self.state, environments = self.program.resume(restored.state)
            done = self.saved_step >= self.reporter.total
            self.reporter.say(
                f"{'finished already' if done else 'continuing'} at step {self.saved_step:,}"
                f" in {self.store}; {environments}"
            )
            return
        megabytes, replay = tree_bytes(shape) / 1e6, tree_bytes(shape.replay) / 1e6
        self.reporter.say(f"memory: {megabytes:.0f} MB, of which replay {replay:.0f} MB")
        state = self.program.init()
        if learned is not None:  # a copy, for the first steps may take its memory
            state = state._replace(agent=jax.tree.map(jnp.copy, learned))
        self._compile("prefill", state)
        self.state = jax.block_until_ready(self.program.prefill(state))

    def run(self, until: int, stop: StopRequest, callback: Callback | None = None) -> None:
        """Learn up to a step, or until a signal or the callback ends it; all is saved then."""
        goes_on = True
        with self.reporter.running(self.step):
            while goes_on and self.step < until and not stop.requested:
                rows = self.advance()
                goes_on = callback is None or callback(rows) is not False
        self.end()

    def advance(self) -> list[Row]:
        """One chunk and what is due after it; when environments fail, all before that is saved."""
        try:
            return self._advance()
        except InterruptedChunkError as interruption:
            self.state, reason = interruption.state, interruption.__cause__
        except (EnvironmentFailedError, UserError) as error:  # in an evaluation
            reason = error
        self.end()
        self.reporter.say(f"stopped; all up to step {self.step:,} is in {self.store}")
        assert reason is not None
        raise reason

    def _advance(self) -> list[Row]:
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
        finally:  # what was learned is saved also when the evaluation fails, and so is its row
            rows = self._rows(metrics, rate)
            self.store.append(rows)
            self._require_finite(rows)
        if self._due(before, loop.checkpoint_interval):
            self._save()
        self.reporter.advance(self.step, rows[0]["time/fps"], self._detail(rows))
        return rows

    def end(self) -> None:
        """Make the last step durable."""
        if self.step != self.saved_step:
            self._save()

    def _due(self, before: int, interval: int) -> bool:
        """Whether a multiple of `interval` was passed since step `before`."""
        return interval > 0 and self.step // interval > before // interval

    def _compile(self, stage: Stage, state: RunState) -> None:
        if stage not in self.compiled:
            self.compiled.add(stage)
            with self.reporter.compiling(WORDS[stage]):
                self.program.compile(stage, state)

    def _save(self) -> None:
        self.state = self.program.snapshot(self.state)
        self._require_finite_state()
        note = {"time_elapsed": self._seconds(), "reset_due": self.reset_due}
        self.store.save(self.step, self.state, note)
        self.saved_step = self.step

    def _seconds(self) -> float:
        return self.elapsed + time.perf_counter() - self.started

    def _rows(self, metrics: Metrics, rate: float) -> list[Row]:
        grid = self.program.spec.grid
        visits = self._by_seed({"visits": self.state.visits})
        rows: list[Row] = []
        for seed, values, counts in zip(
            self.program.seeds, self._by_seed(metrics), visits, strict=True
        ):
            row: Row = {"step": self.step, "seed": seed}
            row |= {} if grid is None else coverage(counts["visits"], grid)
            row |= {name: float(value) for name, value in values.items()}
            row |= {
                "train/n_updates": int(self.state.clock.updates),
                "train/updates_per_step": int(self.state.clock.updates) / self.step,
                "time/fps": rate,
                "time/time_elapsed": self._seconds(),
                "time/total_timesteps": self.step,
            }
            rows.append(row)
        return rows

    def _require_finite_state(self) -> None:
        """Only a state that can be continued is saved; not every NaN shows in a metric at once."""
        if bool(_all_finite(self.state.agent)):
            return
        leaves = checkpoint.named_leaves(self.state.agent)
        bad = next(name for name, leaf in leaves.items() if not bool(_all_finite(leaf)))
        raise DivergedError(
            f"{bad} of the agent is not finite at step {self.step:,}; the last sound "
            f"checkpoint is at step {max(self.saved_step, 0):,}; lower learning_rate"
        )

    def _by_seed(self, values: dict[str, Array]) -> list[dict[str, np.ndarray]]:
        return split_seeds(values, len(self.program.seeds))

    def _require_finite(self, rows: list[Row]) -> None:
        for row in rows:
            for name, value in row.items():
                # a chunk in which no episode ended has no mean of them
                if not name.startswith("rollout/") and not math.isfinite(value):
                    raise DivergedError(
                        f"{name} became {value} by step {self.step:,} of seed {row['seed']}; "
                        f"the last sound checkpoint is at step {max(self.saved_step, 0):,}; "
                        "lower learning_rate, or look at metrics.csv for what grew first"
                    )

    def _detail(self, rows: list[Row]) -> str:
        grid = self.program.spec.grid
        if grid is None:
            return "ep_rew_mean " + " ".join(f"{row['rollout/ep_rew_mean']:.3f}" for row in rows)
        bins, shares = int(grid.eligible.sum()), [row["explore/coverage"] for row in rows]
        seen = " ".join(f"{share:.3f} ({round(share * bins):,})" for share in shares)
        return f"coverage {seen} of {bins:,} bins"


@jax.jit
def _all_finite(tree: Any) -> Array:
    """Whether every floating-point number of a tree is finite."""
    numbers = [x for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.floating)]
    return jnp.all(jnp.array([True, *(jnp.isfinite(x).all() for x in numbers)]))
