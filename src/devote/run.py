"""A run as a frozen value of names and settings; it builds nothing."""

from dataclasses import dataclass
from typing import Any

from devote.agents.devote import DevoteSettings
from devote.agents.rnd_classic import RndClassicSettings
from devote.agents.sac import SacSettings
from devote.agents.sombrl import SombrlSettings
from devote.agents.thompson import ThompsonSettings
from devote.core.errors import UserError
from devote.core.settings import Count, Few, Seed, check_ranges, flag, flat
from devote.envs import DeepSeaSettings, PointMazeSettings
from devote.envs.brax import BraxSettings, PlaygroundSettings
from devote.envs.gymnasium import GymnasiumSettings
from devote.envs.mujoco import (
    AntMazeSettings,
    CartpoleSettings,
    CheetahSettings,
    PickAndPlaceSettings,
)
from devote.loops.schedule import LoopSettings

EnvSettings = (
    DeepSeaSettings
    | PointMazeSettings
    | GymnasiumSettings
    | BraxSettings
    | PlaygroundSettings
    | CheetahSettings
    | CartpoleSettings
    | AntMazeSettings
    | PickAndPlaceSettings
)
AgentSettings = (
    SacSettings | DevoteSettings | RndClassicSettings | ThompsonSettings | SombrlSettings
)


@dataclass(frozen=True)
class Run:
    """What is run; equal runs give equal numbers."""

    env_name: str
    agent_name: str
    preset: str
    env: EnvSettings
    agent: AgentSettings
    loop: LoopSettings
    steps: Count
    """Environment steps (agent decisions) of each seed."""
    seed: Seed = 0
    """The first seed."""
    seeds: Few = 1
    """How many seeds, from the first on, run as one program."""

    @property
    def seed_range(self) -> tuple[int, ...]:
        """All seeds of the run."""
        return tuple(range(self.seed, self.seed + self.seeds))

    @property
    def whole_steps(self) -> int:
        """The steps that are taken: a run ends with a whole chunk."""
        return self._whole(self.steps)

    def _whole(self, steps: int) -> int:
        # only agents that learn from sequences have this setting
        return self.loop.whole_steps(steps, flat(self.agent).get("sequence_length", 1))

    def difference(self, other: "Run") -> dict[str, tuple[Any, Any]]:
        """Settings in which two runs differ: name to (this value, the other's)."""
        mine, theirs = flat(self), flat(other)
        return {name: (mine[name], theirs[name]) for name in mine if mine[name] != theirs[name]}

    def check(self) -> None:
        """Refuse settings outside their range, or that contradict each other."""
        check_ranges(self)
        if self.seed + self.seeds > 2**32:
            last = f"seed {self.seed} and {self.seeds} seeds"
            raise UserError("seeds below 4,294,967,296", last, "lower --seed or --seeds")
        if self.steps * self.loop.updates_per_step >= 2**31:
            got = f"{self.steps * self.loop.updates_per_step:g}"
            raise UserError("less than 2,147,483,648 updates", got, "lower --updates-per-step")
        if self.loop.replay_capacity < self.loop.num_envs:
            raise UserError(
                f"a replay_capacity of at least num_envs = {self.loop.num_envs}",
                self.loop.replay_capacity,
                "raise --replay-capacity or lower --num-envs",
            )
        _check_intervals(self.loop)
        _check_spread(flat(self.agent))

    def check_steps(self) -> None:
        """Refuse a budget in which nothing is learned."""
        first = self._whole(0)
        if self.steps <= first:
            expected = f"steps above {first}, because the first ones only fill the replay"
            raise UserError(expected, self.steps, "raise --steps or lower --learning-starts")


def _check_spread(agent: dict[str, Any]) -> None:
    """Refuse a spread over one member, which is 0, as the bonus."""
    spread = ["num_guessers"] + (["num_indices"] if agent.get("bonus") == "std" else [])
    for name in spread:
        if agent.get(name, 2) < 2:
            expected = f"{name} of at least 2, because their spread is the bonus"
            raise UserError(expected, agent[name], f"raise {flag(name)}")


def _check_intervals(loop: LoopSettings) -> None:
    """Refuse intervals shorter than a chunk."""
    least = max(loop.log_interval, loop.chunk_steps())
    for name in ("reset_interval", "eval_interval", "checkpoint_interval"):
        interval = getattr(loop, name)
        if 0 < interval < least:
            fix = f"raise {flag(name)} or lower --log-interval"
            expected = f"{name} of at least {least}, the steps between rows of metrics"
            raise UserError(expected, interval, fix)
