"""The environment that a user gives, whatever it is, made ready for a loop."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gymnasium import Env as GymnasiumEnv
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from devote.core.errors import UserError
from devote.core.types import Agent, Env, HostEnv
from devote.envs.gymnasium import (
    GymnasiumSettings,
    from_env,
    from_factory,
    from_vector,
    gymnasium_task,
    require_env,
)
from devote.envs.naming import import_factory
from devote.envs.spaces import spaces_of
from devote.envs.vector import GymnasiumList, GymnasiumVector
from devote.loops.fused import FusedLoop
from devote.loops.host_program import HostProgram
from devote.loops.program import FusedProgram, Program
from devote.registry import ENVS, HOST_ENVS
from devote.run import Run
from devote.values import with_values

GENERIC = "gymnasium"
"""The recipe of tasks that nobody has tuned."""
ELSEWHERE = {
    "env_name": "give the environment as the first argument",
    "id": "give the id as the first argument",
    "agent_name": "use the class of the agent: Devote, Sac, Rnd, Thompson or Sombrl",
    "steps": "give them to learn(steps)",
    "seeds": "make one model for each seed: seed=0, seed=1, ...",
}
"""Where is said what no setting of a model says."""


@dataclass(frozen=True)
class Given:
    """A task of a user's: which recipe fits it, and how environments of it are had."""

    recipe: str
    build: Callable[[Run, int], Env | HostEnv]
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

    def settled(self, run: Run, settings: Mapping[str, Any]) -> Run:
        """The run with a user's settings; those that are decided elsewhere are refused."""
        for name in settings.keys() & ELSEWHERE.keys():
            if name != "id" or self.recipe == GENERIC:
                expected = "a setting of the task, the agent or the schedule"
                raise UserError(expected, repr(name), ELSEWHERE[name])
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

    def program(self, run: Run, env: Env | HostEnv, agent: Agent) -> Program:
        """The loop around these environments."""
        if isinstance(env, HostEnv):
            make: Any = partial(self.build, run)
            return HostProgram(agent, (env,), make, run.loop, (run.seed,))
        return FusedProgram(FusedLoop(agent, env, run.loop), (run.seed,))


def given(env: Any) -> Given:
    """An id of ours or Gymnasium's, an environment, a factory, a vector environment, our own."""
    if isinstance(env, str):
        return _named(env)
    if isinstance(env, GymnasiumEnv):
        return Given(GENERIC, lambda run, _: from_env(env, _settings(run)), fixed=1)
    if isinstance(env, VectorEnv):
        build = lambda run, _: from_vector(env, _settings(run))  # noqa: E731
        return Given(GENERIC, build, fixed=int(env.num_envs))
    if isinstance(env, HostEnv):
        return Given(GENERIC, lambda run, _: env, fixed=env.num_envs)
    if isinstance(env, Env):
        return Given(GENERIC, lambda run, _: env)
    factory: Any = require_env(env)
    return Given(GENERIC, lambda run, count: from_factory(factory, _settings(run), count))


def spaces_seen(env: Env | HostEnv) -> tuple[spaces.Space, spaces.Space]:
    """The spaces that users speak in: observations, actions."""
    if isinstance(env, GymnasiumList | GymnasiumVector):
        return env.task.observations.space, env.task.actions.space
    return spaces_of(env.spec)


def _named(name: str) -> Given:
    """The task that a person names; code that a name points to is imported."""
    if name == GENERIC:
        fix = "give the id itself, such as MountainCarContinuous-v0"
        raise UserError("the name of a task", repr(name), fix)
    if name in ENVS:
        return Given(name, lambda run, _: ENVS[name](run.env))
    if name in HOST_ENVS:
        return Given(name, lambda run, count: HOST_ENVS[name](run.env, count))
    import_factory(name)
    return Given(GENERIC, lambda run, count: gymnasium_task(_settings(run), count), id=name)


def _settings(run: Run) -> GymnasiumSettings:
    assert isinstance(run.env, GymnasiumSettings)
    return run.env
