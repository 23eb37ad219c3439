"""The names that users know environments and agents by."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from devote.agents import ablations
from devote.agents.devote import Devote, DevoteSettings
from devote.agents.joint_td import JointTd
from devote.agents.normalised import normalised
from devote.agents.rnd import rnd
from devote.agents.rnd_classic import RndClassic, RndClassicSettings, rnd_classic
from devote.agents.sac import Sac, SacSettings
from devote.agents.sombrl import Sombrl, SombrlSettings, sombrl
from devote.agents.thompson import Thompson, ThompsonSettings, thompson
from devote.core.types import Agent, Env, EnvSpec, HostEnv
from devote.envs import DeepSea, DeepSeaSettings, PointMaze, PointMazeSettings
from devote.envs.brax import BraxSettings, PlaygroundSettings, brax, playground
from devote.envs.gymnasium import GymnasiumSettings, gymnasium_task
from devote.envs.mujoco import (
    AntMaze,
    AntMazeSettings,
    Cartpole,
    CartpoleSettings,
    Cheetah,
    CheetahSettings,
    PickAndPlace,
    PickAndPlaceSettings,
    native,
)

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
class AgentEntry:
    """An agent by name: its settings at DEVOTE's backbone, and how to build it."""

    like: Callable[[DevoteSettings], AgentSettings]
    build: Callable[[Any, EnvSpec], Agent]


ENVS: dict[str, Callable[[Any], Env]] = {
    "spiral": PointMaze,
    "u_maze": PointMaze,
    "deep_sea": DeepSea,
    "brax": brax,
    "playground": playground,
}
"""How a task in JAX is built from its settings, which presets give."""


HOST_ENVS: dict[str, Callable[[Any, int], HostEnv]] = {
    "gymnasium": gymnasium_task,
    "cheetah": native(Cheetah),
    "cartpole_swingup": native(Cartpole),
    "cartpole_swingup_sparse": native(Cartpole),
    "ant_maze": native(AntMaze),
    "pick_and_place": native(PickAndPlace),
}
"""How a batch of tasks on the host is built from its settings and its size."""

TASKS = (*ENVS, *HOST_ENVS)
"""Every task by name."""

AGENTS = {
    "devote": AgentEntry(lambda devote: devote, Devote),
    "sac": AgentEntry(lambda devote: devote.sac, Sac),
    "rnd": AgentEntry(rnd, Devote),
    "rnd-classic": AgentEntry(rnd_classic, RndClassic),
    "thompson": AgentEntry(thompson, Thompson),
    "sombrl": AgentEntry(sombrl, Sombrl),
    "devote-no-rfn": AgentEntry(ablations.no_rfn, Devote),
    "devote-no-resets": AgentEntry(ablations.no_resets, Devote),
    "devote-no-tud-opt": AgentEntry(ablations.no_tud_opt, Devote),
    "devote-no-tud-opt-ucb": AgentEntry(ablations.no_tud_opt_ucb, Devote),
    "devote-no-tud": AgentEntry(ablations.no_tud, JointTd),
    "devote-no-tud-ucb": AgentEntry(ablations.no_tud_ucb, JointTd),
}


def build_agent(name: str, settings: AgentSettings, spec: EnvSpec) -> Agent:
    """The named agent for a task, normalising where observations have units of their own."""
    return normalised(AGENTS[name].build, settings, spec)
