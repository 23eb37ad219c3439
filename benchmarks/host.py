"""The host loop against its parts: `python benchmarks/host.py [TASK] [--seconds S]`.

Speed as a ratio measured in one run: chunks of the loop, physics alone and learning alone take
turns, and in every turn the loop is compared with the slower of the two; medians over the turns
count, for the best moment of a busy machine favours whatever is short. `TASK` is any task on the
host of the registry, or `synthetic`, whose vector step takes `--milliseconds` without the
interpreter's lock.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from devote.build import HOST_ENVS, build_agent
from devote.core.types import Box, EnvSpec, HostEnv, HostStep, Vector
from devote.loops.host import HostProgram, empty_steps, on_device
from devote.presets import desk

WANTED = 0.8
CHUNK = 16  # vector steps


@dataclass
class Synthetic:
    """A task of settable cost that does nothing."""

    num_envs: int
    milliseconds: float
    spec: EnvSpec = field(
        default_factory=lambda: EnvSpec("synthetic", Vector((-1.0,) * 17, (1.0,) * 17), Box(6), 500)
    )

    def reset(self, key: Any) -> np.ndarray:
        """Zeros."""
        return np.zeros((self.num_envs, 17), np.float32)

    def step(self, action: np.ndarray, key: Any) -> HostStep:
        """Zeros, after a while."""
        time.sleep(self.milliseconds / 1e3)
        obs, flags = self.reset(key), np.zeros(self.num_envs, bool)
        reward = np.zeros(self.num_envs, np.float32)
        return HostStep(obs, obs, reward, flags, flags, flags, {}, ~flags)

    def bin_of(self, obs: np.ndarray) -> np.ndarray:
        """Nowhere."""
        return np.full(len(obs), -1, np.int32)

    def save(self) -> None:
        """Nothing changes, but nobody asks."""

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Nothing to restore."""

    def close(self) -> None:
        """Nothing to close."""


class Measured:
    """A desk run on a task, its physics alone, and its learning alone."""

    def __init__(self, task: str, milliseconds: float, num_envs: int | None, overlap: bool) -> None:
        name = "cheetah" if task == "synthetic" else task
        run = desk(name, "devote")
        num_envs = num_envs or run.loop.num_envs
        chunk = CHUNK * num_envs
        self.loop = replace(run.loop, num_envs=num_envs, overlap=overlap, log_interval=chunk)

        def make(number: int) -> HostEnv:
            if task == "synthetic":
                return Synthetic(number, milliseconds)
            return HOST_ENVS[name](run.env, number)

        env = make(num_envs)
        self.env = make(num_envs)
        agent = build_agent("devote", run.agent, env.spec)
        self.program = HostProgram(agent, (env,), make, self.loop, (0,))
        self.state = self.program.prefill(self.program.init())
        self.rounds = self.loop.rounds_per_chunk()
        self.vector_steps = self.rounds * self.program.loop.round.vector_steps
        self._prepare_parts()

    def _prepare_parts(self) -> None:
        steps, spec = self.program.loop.round.vector_steps, self.program.spec
        self.rows = empty_steps(spec, (steps, self.loop.num_envs))
        self.rows.valid[:] = True  # type: ignore[index]
        other = on_device(self.program.init())
        self.learn = self.program.learn
        self.learner = (
            tuple(jax.tree.leaves(other.agent)),
            other._replace(agent=()),
            self.program.no_tally(other),
        )
        rng = np.random.default_rng(0)
        self.actions = rng.uniform(-1, 1, (16, self.loop.num_envs, spec.action.size))
        self.env.reset(jax.random.key(0))
        self.key = jax.random.key(1)

    def whole(self) -> None:
        """A chunk of the loop."""
        self.state, _ = jax.block_until_ready(self.program.chunk(self.state))

    def physics(self) -> None:
        """As many steps of the environments, with actions drawn beforehand."""
        for t in range(self.vector_steps):
            self.env.step(self.actions[t % 16].astype(np.float32), self.key)

    def learning(self) -> None:
        """As many rounds of storing and updating, with experience made up beforehand."""
        for _ in range(self.rounds):
            self.learner = self.learn(*self.learner, self.rows)
        jax.block_until_ready(self.learner)


def turns(parts: dict[str, Callable[[], None]], seconds: float) -> dict[str, np.ndarray]:
    """Times of each part, one after another in every turn."""
    for part in parts.values():
        part()
    times: dict[str, list[float]] = {name: [] for name in parts}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, part in parts.items():
            start = time.perf_counter()
            part()
            times[name].append(time.perf_counter() - start)
    return {name: np.array(found) for name, found in times.items()}


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("task", nargs="?", default="synthetic", choices=["synthetic", *HOST_ENVS])
    parser.add_argument("--milliseconds", type=float, default=4.0)
    parser.add_argument("--num-envs", type=int, help="the desk recipe's where not given")
    parser.add_argument("--seconds", type=float, default=30.0)
    asked = parser.parse_args()
    beside, in_turn = (
        Measured(asked.task, asked.milliseconds, asked.num_envs, overlap)
        for overlap in (True, False)
    )
    times = turns(
        {
            "loop, side by side": beside.whole,
            "loop, in turn": in_turn.whole,
            "physics alone": beside.physics,
            "learning alone": in_turn.learning,
        },
        asked.seconds,
    )
    slower = np.maximum(times["physics alone"], times["learning alone"])
    table = Table("what", "vector step", "slower part / this", "wanted")
    for name, found in times.items():
        wanted = f">= {WANTED}" if name == "loop, side by side" else ""
        each = f"{1e3 * np.median(found) / beside.vector_steps:.2f} ms"
        table.add_row(name, each, f"{np.median(slower / found):.2f}", wanted)
    size = f"{beside.loop.num_envs} environments, {len(slower)} turns"
    Console().print(table, f"{asked.task}, {size}, devote desk")


if __name__ == "__main__":
    main()
