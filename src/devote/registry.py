"""The names that users know environments and agents by."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from devote.agents.devote import Devote, DevoteSettings
from devote.agents.sac import Sac, SacSettings
from devote.core import Agent, Env, EnvSpec
from devote.envs import DeepSea, DeepSeaSettings, PointMaze, PointMazeSettings, spiral, u_maze

EnvSettings = DeepSeaSettings | PointMazeSettings
AgentSettings = SacSettings | DevoteSettings


@dataclass(frozen=True)
class EnvEntry:
    """A task by name: its settings as the paper has them, and how to build it."""

    settings: Callable[[], EnvSettings]
    build: Callable[[Any], Env]


@dataclass(frozen=True)
class AgentEntry:
    """An agent by name: its settings as the paper has them, and how to build it."""

    settings: Callable[[], AgentSettings]
    build: Callable[[Any, EnvSpec], Agent]


ENVS = {
    "spiral": EnvEntry(spiral, PointMaze),
    "u_maze": EnvEntry(u_maze, PointMaze),
    "deep_sea": EnvEntry(DeepSeaSettings, DeepSea),
}

AGENTS = {
    "devote": AgentEntry(DevoteSettings, Devote),
    "sac": AgentEntry(SacSettings, Sac),
}
