"""The names that users know environments and agents by."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from devote.agents.devote import Devote, DevoteSettings
from devote.agents.sac import Sac, SacSettings
from devote.core import Agent, Env, EnvSpec, HostEnv
from devote.envs import DeepSea, DeepSeaSettings, PointMaze, PointMazeSettings

EnvSettings = DeepSeaSettings | PointMazeSettings
AgentSettings = SacSettings | DevoteSettings


@dataclass(frozen=True)
class AgentEntry:
    """An agent by name: its settings at DEVOTE's backbone, and how to build it."""

    like: Callable[[DevoteSettings], AgentSettings]
    build: Callable[[Any, EnvSpec], Agent]


ENVS: dict[str, Callable[[Any], Env]] = {
    "spiral": PointMaze,
    "u_maze": PointMaze,
    "deep_sea": DeepSea,
}
"""How a task in JAX is built from its settings, which presets give."""

HOST_ENVS: dict[str, Callable[[Any, int], HostEnv]] = {}
"""How a batch of tasks on the host is built from its settings and its size."""

TASKS = (*ENVS, *HOST_ENVS)
"""Every task by name."""

AGENTS = {
    "devote": AgentEntry(lambda devote: devote, Devote),
    "sac": AgentEntry(lambda devote: devote.sac, Sac),
}
