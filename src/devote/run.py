"""A run as a value: names, numbers and settings, everything frozen."""

import math
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

from devote.core.errors import UserError
from devote.identity import defaults
from devote.loops.fused import FusedLoop, FusedProgram
from devote.loops.host import HostProgram
from devote.loops.loop import Program
from devote.loops.settings import LoopSettings
from devote.loops.train import Plan
from devote.registry import ENVS, HOST_ENVS, AgentSettings, EnvSettings, build_agent


@dataclass(frozen=True)
class Run:
    """What is run; two equal values give the same numbers."""

    env_name: str
    agent_name: str
    preset: str
    env: EnvSettings
    agent: AgentSettings
    loop: LoopSettings
    steps: int
    """Environment steps (agent decisions) of each seed."""
    seed: int = 0
    """The first seed."""
    seeds: int = 1
    """How many seeds, counted up from the first, run as one program."""

    def plan(self, directory: Path) -> Plan:
        """The run with its environment and agent built, ready for `loops.train`."""
        check(self)
        self.require_learning()
        return Plan(self.program(), self.steps, directory, asdict(self), defaults(self))

    def require_learning(self) -> None:
        """Refuse steps that no update follows."""
        first = self._whole(0)
        if self.steps <= first:
            expected = f"steps above {first}, for the first ones only fill the replay"
            raise UserError(expected, self.steps, "raise --steps or lower --learning-starts")

    @property
    def whole_steps(self) -> int:
        """The steps that are really taken: a run ends with a whole chunk."""
        return self._whole(self.steps)

    def _whole(self, steps: int) -> int:
        # agents that learn from sequences have a setting of this name, all others learn from steps
        return self.loop.whole_steps(steps, flat(self.agent).get("sequence_length", 1))

    def program(self) -> Program:
        """The run's environment, agent and loop, for all its seeds."""
        check(self)
        seeds = tuple(range(self.seed, self.seed + self.seeds))
        learner = partial(build_agent, self.agent_name, self.agent)
        if self.env_name in ENVS:
            env = ENVS[self.env_name](self.env)
            return FusedProgram(FusedLoop(learner(env.spec), env, self.loop), seeds)
        make = partial(HOST_ENVS[self.env_name], self.env)
        envs = tuple(make(self.loop.num_envs) for _ in seeds)
        return HostProgram(learner(envs[0].spec), envs, make, self.loop, seeds)

    def difference(self, other: "Run") -> dict[str, tuple[Any, Any]]:
        """Fields in which two runs differ: name to (this value, the other's)."""
        mine, theirs = flat(self), flat(other)
        return {name: (mine[name], theirs[name]) for name in mine if mine[name] != theirs[name]}


def flat(settings: Any) -> dict[str, Any]:
    """Every leaf of nested settings under its own name."""
    values: dict[str, Any] = {}
    for entry in fields(settings):
        value = getattr(settings, entry.name)
        values |= flat(value) if is_dataclass(value) else {entry.name: value}
    return values


POSITIVE = {
    "steps",
    "seeds",
    "num_envs",
    "updates_per_step",
    "batch_size",
    "replay_capacity",
    "log_interval",
    "eval_episodes",
    "checkpoint_interval",
    "coverage_bins",
    "worker_timeout",
    "critic_width",
    "critic_depth",
    "actor_width",
    "actor_depth",
    "learning_rate",
    "temperature_rate",
    "initial_temperature",
    "num_indices",
    "num_members",
    "num_features",
    "prior_width",
    "width",
    "embedding",
    "observation_clip",
    "length_scale",
    "input_length",
    "model_width",
    "model_depth",
    "memory_size",
    "memory_blocks",
    "code_groups",
    "code_classes",
    "sequence_length",
    "num_guessers",
    "guesser_width",
    "guesser_depth",
    "embedding_size",
    "intrinsic_weight",
}
SHARES = {
    "discount",
    "polyak",
    "corrector_polyak",
    "bootstrap_probability",
    "reset_strength",
    "target_entropy_fraction",
    "uniform_mix",
    "slow_explorer_polyak",
}
SIGNED = {"target_entropy_per_dimension"}


def check(run: Run) -> None:
    """Refuse numbers outside their range before anything is built."""
    for name, value in flat(run).items():
        if isinstance(value, bool | str | tuple) or name in SIGNED:
            continue
        if name in POSITIVE:
            fits, expected = value > 0, "above 0"
        elif name in SHARES:
            fits, expected = 0 <= value <= 1, "from 0 to 1"
        else:
            fits, expected = value >= 0, "0 or more"
        if not (fits and math.isfinite(value)):
            raise UserError(f"{name} {expected}", value, f"change --{name.replace('_', '-')}")
    if run.loop.replay_capacity < run.loop.num_envs:
        raise UserError(
            f"a replay_capacity of at least num_envs = {run.loop.num_envs}",
            run.loop.replay_capacity,
            "raise --replay-capacity or lower --num-envs",
        )
    _check_intervals(run.loop)
    _check_spread(flat(run.agent))


def _check_spread(agent: dict[str, Any]) -> None:
    """One alone never disagrees: where a spread is the bonus there would be none."""
    spread = ["num_guessers"] + (["num_indices"] if agent.get("bonus") == "std" else [])
    for name in spread:
        if agent.get(name, 2) < 2:
            expected = f"{name} of at least 2, for their spread is the bonus"
            raise UserError(expected, agent[name], f"raise --{name.replace('_', '-')}")


def _check_intervals(loop: LoopSettings) -> None:
    """Whatever is rare happens once after a chunk at most."""
    least = max(loop.log_interval, loop.chunk_steps())
    for name in ("reset_interval", "eval_interval", "checkpoint_interval"):
        interval = getattr(loop, name)
        if 0 < interval < least:
            fix = f"raise --{name.replace('_', '-')} or lower --log-interval"
            expected = f"{name} of at least {least}, the steps between rows of metrics"
            raise UserError(expected, interval, fix)
