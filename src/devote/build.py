"""From names and users' objects to environments, agents and programs: the only way there is."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from gymnasium import Env as GymnasiumEnv
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from devote.agents import ablations
from devote.agents.by_rows import LearningAgent, by_rows
from devote.agents.devote import Devote, DevoteSettings
from devote.agents.joint_td import JointTd
from devote.agents.normalised import normalised
from devote.agents.rnd import rnd
from devote.agents.rnd_classic import RndClassic, rnd_classic
from devote.agents.sac import Sac
from devote.agents.sombrl import Sombrl, sombrl
from devote.agents.thompson import Thompson, thompson
from devote.core.errors import UserError
from devote.core.settings import defaults, with_values
from devote.core.types import Agent, Env, EnvSpec, HostEnv
from devote.envs import DeepSea, PointMaze
from devote.envs.brax import brax, playground
from devote.envs.gymnasium import (
    GymnasiumSettings,
    from_env,
    from_factory,
    from_vector,
    gymnasium_task,
    require_env,
)
from devote.envs.mujoco import AntMaze, Cartpole, Cheetah, PickAndPlace, native
from devote.envs.naming import import_factory
from devote.envs.spaces import spaces_of
from devote.envs.vector import GymnasiumList, GymnasiumVector
from devote.loops.fused import FusedLoop, FusedProgram
from devote.loops.host import HostProgram
from devote.loops.loop import Program
from devote.loops.train import Plan
from devote.run import AgentSettings, Run

GENERIC = "gymnasium"
"""The recipe of tasks that nobody has tuned."""

JAX_ENVS: dict[str, Callable[[Any], Env]] = {
    "spiral": PointMaze,
    "u_maze": PointMaze,
    "deep_sea": DeepSea,
    "brax": brax,
    "playground": playground,
}
"""How a task in JAX is built from its settings, which presets give."""
HOST_ENVS: dict[str, Callable[[Any, int], HostEnv]] = {
    GENERIC: gymnasium_task,
    "cheetah": native(Cheetah),
    "cartpole_swingup": native(Cartpole),
    "cartpole_swingup_sparse": native(Cartpole),
    "ant_maze": native(AntMaze),
    "pick_and_place": native(PickAndPlace),
}
"""How a batch of tasks on the host is built from its settings and its size."""
TASKS = (*JAX_ENVS, *HOST_ENVS)
"""Every task by name."""


@dataclass(frozen=True)
class AgentEntry:
    """An agent by name: its settings at DEVOTE's backbone, and how to build it."""

    like: Callable[[DevoteSettings], AgentSettings]
    build: Callable[[Any, EnvSpec], LearningAgent]


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
    """The named agent for a task: by rows where observations are an index, normalising where their
    entries have units of their own."""
    return normalised(lambda *given: by_rows(AGENTS[name].build(*given)), settings, spec)


def build_env(run: Run, num_envs: int) -> Env | HostEnv:
    """Environments of a run's task by its name; one in JAX is batched by its loop."""
    if run.env_name in JAX_ENVS:
        return JAX_ENVS[run.env_name](run.env)
    return HOST_ENVS[run.env_name](run.env, num_envs)


def build_program(
    run: Run,
    make: Callable[[int], Env | HostEnv] | None = None,
    env: Env | HostEnv | None = None,
    agent: Agent | None = None,
) -> Program:
    """Environments, agent and loop for all seeds of a run; `make` builds environments of a user's
    own, `env` and `agent` are there already."""
    run.check()
    make = make or partial(build_env, run)
    first = env or make(run.loop.num_envs)
    agent = agent or build_agent(run.agent_name, run.agent, first.spec)
    if not isinstance(first, HostEnv):
        return FusedProgram(FusedLoop(agent, first, run.loop), run.seed_range)
    others: Any = [make(run.loop.num_envs) for _ in run.seed_range[1:]]
    evaluated: Any = make
    return HostProgram(agent, (first, *others), evaluated, run.loop, run.seed_range)


def plan(run: Run, directory: Path) -> Plan:
    """A run with its program built, ready for `loops.train`."""
    run.check()
    run.check_steps()
    return Plan(build_program(run), run.steps, directory, asdict(run), defaults(run))


# Environments that a user gives, whatever they are.

NOT_SETTINGS = {
    "env_name": "give the environment as the first argument",
    "id": "give the id as the first argument",
    "agent_name": "use the class of the agent: Devote, Sac, Rnd, Thompson or Sombrl",
    "steps": "give them to learn(steps)",
    "seeds": "make one model for each seed: seed=0, seed=1, ...",
}
"""Where to say what no setting of a model says."""


@dataclass(frozen=True)
class EnvSource:
    """A user's task: which recipe fits it, and how environments of it are made."""

    recipe: str
    make: Callable[[Run, int], Env | HostEnv]
    """Environments for a run, as many as asked for."""
    fixed: int | None = None
    """How many there are of something that cannot be built again."""
    id: str = ""
    """The Gymnasium id, if it was given by one."""

    @property
    def named(self) -> bool:
        """Whether a name tells which task it is."""
        return self.recipe != GENERIC or self.id != ""

    def adapted(self, run: Run) -> Run:
        """The run with what this task decides itself."""
        if isinstance(run.env, GymnasiumSettings):
            run = replace(run, env=replace(run.env, id=self.id))
        if self.fixed is not None:
            # the one environment is busy with training, so nothing is evaluated in between
            run = replace(run, loop=replace(run.loop, num_envs=self.fixed, eval_interval=0))
        return run

    def with_settings(self, run: Run, settings: Mapping[str, Any]) -> Run:
        """The run with a user's settings; those that are decided elsewhere are refused."""
        for name in settings.keys() & NOT_SETTINGS.keys():
            if name != "id" or self.recipe == GENERIC:
                expected = "a setting of the task, the agent or the schedule"
                raise UserError(expected, repr(name), NOT_SETTINGS[name])
        run = with_values(run, settings)
        if self.fixed is None:
            return run
        if run.loop.num_envs != self.fixed:
            fix = "leave num_envs away, or give a class, a factory or an id"
            expected = f"num_envs {self.fixed}, as many as there are"
            raise UserError(expected, run.loop.num_envs, fix)
        if run.loop.eval_interval > 0:
            fix = "call evaluate() after learn(), or give a class, a factory or an id"
            expected = "eval_interval 0, for the only environment is busy with training"
            raise UserError(expected, run.loop.eval_interval, fix)
        return run


def env_source(env: Any) -> EnvSource:
    """From an id of ours or Gymnasium's, an environment, a factory, a vector environment."""
    if isinstance(env, str):
        return _named(env)
    if isinstance(env, GymnasiumEnv):
        return EnvSource(GENERIC, lambda run, _: from_env(env, _settings(run)), fixed=1)
    if isinstance(env, VectorEnv):
        make = lambda run, _: from_vector(env, _settings(run))  # noqa: E731
        return EnvSource(GENERIC, make, fixed=int(env.num_envs))
    if isinstance(env, HostEnv):
        return EnvSource(GENERIC, lambda run, _: env, fixed=env.num_envs)
    if isinstance(env, Env):
        return EnvSource(GENERIC, lambda run, _: env)
    factory: Any = require_env(env)
    return EnvSource(GENERIC, lambda run, count: from_factory(factory, _settings(run), count))


def _named(name: str) -> EnvSource:
    """The task that a person names; code that a name points to is imported."""
    if name == GENERIC:
        fix = "give the id itself, such as MountainCarContinuous-v0"
        raise UserError("the name of a task", repr(name), fix)
    if name in TASKS:
        return EnvSource(name, build_env)
    import_factory(name)
    return EnvSource(GENERIC, build_env, id=name)


def _settings(run: Run) -> GymnasiumSettings:
    assert isinstance(run.env, GymnasiumSettings)
    return run.env


def spaces_seen(env: Env | HostEnv) -> tuple[spaces.Space, spaces.Space]:
    """The spaces that users speak in: observations, actions."""
    if isinstance(env, GymnasiumList | GymnasiumVector):
        return env.task.observations.space, env.task.actions.space
    return spaces_of(env.spec)
