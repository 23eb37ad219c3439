"""Builds environments, agents and programs from names and users' objects, in this one place."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
from gymnasium import Env as GymnasiumEnv
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from devote.agents import variants
from devote.agents.by_rows import LearningAgent, by_rows
from devote.agents.devote import Devote, DevoteSettings
from devote.agents.evaluator import Evaluator, EvaluatorSettings, evaluator
from devote.agents.joint_td import JointTd
from devote.agents.normalised import normalised
from devote.agents.rnd_classic import RndClassic, rnd_classic
from devote.agents.sac import Sac
from devote.agents.sombrl import Sombrl, sombrl
from devote.agents.thompson import Thompson, thompson
from devote.core.errors import UserError
from devote.core.settings import defaults, flag, with_values
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
from devote.loops.checkpoint import restore
from devote.loops.fused import FusedLoop, FusedProgram
from devote.loops.host import HostProgram
from devote.loops.loop import Devices, Program
from devote.loops.run_dir import CHECKPOINTS, SETTINGS, read_settings
from devote.loops.train import Plan
from devote.nets.own import Own
from devote.run import AgentSettings, Run

GENERIC = "gymnasium"
"""The recipe of tasks that are not ours."""

JAX_ENVS: dict[str, Callable[[Any], Env]] = {
    "spiral": PointMaze,
    "u_maze": PointMaze,
    "deep_sea": DeepSea,
    "brax": brax,
    "playground": playground,
}
"""Tasks in JAX, built from their settings."""
HOST_ENVS: dict[str, Callable[[Any, int], HostEnv]] = {
    GENERIC: gymnasium_task,
    "cheetah": native(Cheetah),
    "cartpole_swingup": native(Cartpole),
    "cartpole_swingup_sparse": native(Cartpole),
    "ant_maze": native(AntMaze),
    "pick_and_place": native(PickAndPlace),
}
"""Tasks on the host, built from their settings and the number of environments."""
TASKS = (*JAX_ENVS, *HOST_ENVS)
"""Every task by name."""


@dataclass(frozen=True)
class AgentEntry:
    """Settings of an agent, given DEVOTE's, and how to build it."""

    like: Callable[[DevoteSettings], AgentSettings]
    build: Callable[[Any, EnvSpec], LearningAgent]


def _evaluator(settings: EvaluatorSettings, spec: EnvSpec) -> Evaluator:
    """An evaluator of the latest policy of a run of SAC."""
    directory = Path(settings.policy)
    if not settings.policy:
        return Evaluator(settings, spec)
    fix = "give --policy the directory of a run of sac in the same task, with the same actor"
    if read_settings(directory / SETTINGS).get("agent_name") != "sac":
        raise UserError(f"a run of sac in {directory}", "another agent's", fix)
    key = jax.ShapeDtypeStruct((), jax.random.key(0).dtype)
    like = jax.eval_shape(Sac(settings.sac, spec).start_policy, key)
    found = restore(directory / CHECKPOINTS, like, root=".agent.policy")
    if found is None:
        raise UserError(f"a checkpoint in {directory}", "none", fix)
    return Evaluator(settings, spec, lambda: found[1])


AGENTS = {
    "devote": AgentEntry(lambda devote: devote, Devote),
    "devote-plus": AgentEntry(variants.devote_plus, Devote),
    "sac": AgentEntry(lambda devote: devote.sac, Sac),
    "rnd": AgentEntry(variants.rnd, Devote),
    "rnd-classic": AgentEntry(rnd_classic, RndClassic),
    "thompson": AgentEntry(thompson, Thompson),
    "sombrl": AgentEntry(sombrl, Sombrl),
    "devote-no-rfn": AgentEntry(variants.no_rfn, Devote),
    "devote-no-resets": AgentEntry(variants.no_resets, Devote),
    "devote-no-tud-opt": AgentEntry(variants.no_tud_opt, Devote),
    "devote-no-tud-opt-ucb": AgentEntry(variants.no_tud_opt_ucb, Devote),
    "devote-no-tud": AgentEntry(variants.no_tud, JointTd),
    "devote-no-tud-ucb": AgentEntry(variants.no_tud_ucb, JointTd),
    "true-counts": AgentEntry(variants.true_counts, Devote),
    "evaluator": AgentEntry(evaluator, _evaluator),
}


def build_agent(name: str, settings: AgentSettings, spec: EnvSpec, own: Own | None = None) -> Agent:
    """The named agent for a task: by rows where observations are an index, normalising where their
    entries have units of their own. With `own` parts every update is dense."""

    def build(settings: AgentSettings, spec: EnvSpec) -> Agent:
        agent = AGENTS[name].build(settings, spec)
        return with_own(name, agent, own) if own else by_rows(agent)

    return normalised(build, settings, spec)


def with_own(name: str, agent: LearningAgent, own: Own) -> Agent:
    """The agent with a user's own parts, or why it cannot have them."""
    given = ", ".join(own.names())
    if not isinstance(agent, Sac | Devote):
        expected = "sac or a kind of devote, which take own parts"
        raise UserError(expected, f"{name} with {given}", "leave them out")
    if own.prior is not None and (isinstance(agent, Sac) or agent.exact is not None):
        fix = "leave out prior, or use Devote"
        raise UserError("an agent that trains a corrector", f"{name} with a prior of its own", fix)
    agent = replace(agent, own=own)
    draws = [jax.eval_shape(lambda key: agent.init(key), jax.random.key(0)) for _ in range(2)]
    if len({jax.tree.structure(draw) for draw in draws}) > 1:
        fix = "define functions such as activations outside of the one that builds the network"
        raise UserError("one structure at every call", f"two, from {given}", fix)
    return agent


def build_env(run: Run, num_envs: int) -> Env | HostEnv:
    """Environments of a run's task; one in JAX is batched by its loop."""
    if run.env_name in JAX_ENVS:
        return JAX_ENVS[run.env_name](run.env)
    return HOST_ENVS[run.env_name](run.env, num_envs)


def build_program(
    run: Run,
    make: Callable[[int], Env | HostEnv] | None = None,
    env: Env | HostEnv | None = None,
    agent: Agent | None = None,
    devices: int | None = None,
) -> Program:
    """Environments, agent and loop for all seeds of a run; `make` builds a user's environments,
    `env` and `agent` are used where given."""
    run.check()
    places = devices_of(run, devices)
    make = make or partial(build_env, run)
    first = env or make(run.loop.num_envs)
    agent = agent or build_agent(run.agent_name, run.agent, first.spec)
    if not isinstance(first, HostEnv):
        return FusedProgram(FusedLoop(agent, first, run.loop, places), run.seed_range)
    others: Any = [make(run.loop.num_envs) for _ in run.seed_range[1:]]
    evaluated: Any = make
    return HostProgram(agent, (first, *others), evaluated, run.loop, run.seed_range, places)


def devices_of(run: Run, asked: int | None) -> Devices:
    """The devices asked for; by default one, or for several seeds as many as divide them evenly."""
    if asked is None:
        fitting = [n for n in range(1, run.seeds + 1) if run.seeds % n == 0]
        there = jax.device_count() if run.seeds > 1 else 1
        return Devices(run.seeds, max(n for n in fitting if n <= there))
    if not 1 <= asked <= jax.device_count():
        fix = "lower --devices; on CPU, XLA_FLAGS=--xla_force_host_platform_device_count=N makes N"
        raise UserError(f"1 to {jax.device_count()} devices, as many as there are", asked, fix)
    what, number = ("seeds", run.seeds) if run.seeds > 1 else ("batch_size", run.loop.batch_size)
    if number % asked:
        expected = f"{what} that can be spread evenly over {asked} devices"
        raise UserError(expected, number, f"change {flag(what)} or --devices")
    return Devices(run.seeds, asked)


def plan(run: Run, directory: Path, devices: int | None = None) -> Plan:
    """A run and its program, for `loops.train`."""
    run.check()
    run.check_steps()
    program = build_program(run, devices=devices)
    return Plan(program, run.steps, directory, asdict(run), defaults(run))


# Environments that users pass: ids, objects and factories.

NOT_SETTINGS = {
    "env_name": "give the environment as the first argument",
    "id": "give the id as the first argument",
    "agent_name": "use the class of the agent: Devote, Sac, Rnd, Thompson or Sombrl",
    "steps": "give them to learn(steps)",
    "seeds": "make one model for each seed: seed=0, seed=1, ...",
}
"""How to set what is not a setting of a model."""


@dataclass(frozen=True)
class EnvSource:
    """A user's task: its recipe, and how to make its environments."""

    recipe: str
    make: Callable[[Run, int], Env | HostEnv]
    """Makes so many environments for a run."""
    fixed: int | None = None
    """The number of environments, if they cannot be made again."""
    id: str = ""
    """The Gymnasium id, if it has one."""

    @property
    def named(self) -> bool:
        """Whether the task has a name that identifies it."""
        return self.recipe != GENERIC or self.id != ""

    def adapted(self, run: Run) -> Run:
        """The run with the settings that the task determines."""
        if isinstance(run.env, GymnasiumSettings):
            run = replace(run, env=replace(run.env, id=self.id))
        if self.fixed is not None:
            # there is no other environment to evaluate in during training
            run = replace(run, loop=replace(run.loop, num_envs=self.fixed, eval_interval=0))
        return run

    def with_settings(self, run: Run, settings: Mapping[str, Any]) -> Run:
        """The run with a user's settings; those that belong elsewhere are refused."""
        for name in settings.keys() & NOT_SETTINGS.keys():
            if name != "id" or self.recipe == GENERIC:
                expected = "a setting of the task, the agent or the schedule"
                raise UserError(expected, repr(name), NOT_SETTINGS[name])
        run = with_values(run, settings)
        if self.fixed is None:
            return run
        if run.loop.num_envs != self.fixed:
            fix = "leave out num_envs, or give a class, a factory or an id"
            expected = f"num_envs {self.fixed}, as many as there are"
            raise UserError(expected, run.loop.num_envs, fix)
        if run.loop.eval_interval > 0:
            fix = "call evaluate() after learn(), or give a class, a factory or an id"
            expected = "eval_interval 0, because the only environment is busy with training"
            raise UserError(expected, run.loop.eval_interval, fix)
        return run


def env_source(env: Any) -> EnvSource:
    """From the name of a task, an environment, a factory or a vector environment."""
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
    """The task of a name that a person gave; `module:name` is imported."""
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
    """The user's spaces of observations and actions."""
    if isinstance(env, GymnasiumList | GymnasiumVector):
        return env.task.observations.space, env.task.actions.space
    return spaces_of(env.spec)
