"""What a preset says of one task."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from devote.agents.devote import DevoteSettings
from devote.build import AGENTS
from devote.loops.schedule import LoopSettings
from devote.run import EnvSettings, Run

Own = Mapping[str | tuple[str, str], Mapping[str, Any]]
"""By agent, or by task and agent, the settings that it does not take from DEVOTE's."""
NOTHING: Own = {}


@dataclass(frozen=True)
class Recipe:
    """How DEVOTE is run on a task; every other agent takes its backbone, schedule and budget."""

    env: EnvSettings
    agent: DevoteSettings
    loop: LoopSettings
    steps: int

    def run(self, env: str, agent: str, preset: str, own: Own = NOTHING) -> Run:
        """The recipe for a named agent; `own` is what the preset says of agents by themselves, the
        entry of task and agent on top of the agent's."""
        changes = {**own.get(agent, {}), **own.get((env, agent), {})}
        return Run(
            env_name=env,
            agent_name=agent,
            preset=preset,
            env=self.env,
            agent=replace(AGENTS[agent].like(self.agent), **changes),
            loop=self.loop,
            steps=self.steps,
        )
