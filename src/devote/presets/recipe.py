"""What a preset says of one task."""

from dataclasses import dataclass

from devote.agents.devote import DevoteSettings
from devote.loops.settings import LoopSettings
from devote.registry import AGENTS, EnvSettings
from devote.run import Run


@dataclass(frozen=True)
class Recipe:
    """How DEVOTE is run on a task; every other agent takes its backbone, schedule and budget."""

    env: EnvSettings
    agent: DevoteSettings
    loop: LoopSettings
    steps: int

    def run(self, env: str, agent: str, preset: str) -> Run:
        """The recipe for a named agent."""
        return Run(
            env_name=env,
            agent_name=agent,
            preset=preset,
            env=self.env,
            agent=AGENTS[agent].like(self.agent),
            loop=self.loop,
            steps=self.steps,
        )
