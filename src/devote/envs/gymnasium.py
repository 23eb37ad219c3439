"""Any Gymnasium task as a `HostEnv`: an id, an environment, a factory or a vector environment."""

import multiprocessing
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import gymnasium
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from devote.core.errors import EnvironmentFailedError, UserError
from devote.core.settings import Positive, Whole
from devote.core.types import EnvSpec, HostEnv
from devote.envs.bins import CoverageSettings, coverage_of
from devote.envs.naming import Factory, Registered, factory_of
from devote.envs.spaces import Actions, Observations
from devote.envs.vector import GymnasiumList, GymnasiumVector, Task, WatchedFactory, require_made

DEFAULT_LIMIT = 1000
"""Steps after which an episode is cut when neither the task nor the user says when."""
CONTEXT = "forkserver"
ALIKE = "let every environment have the same spaces, bounds included"
_MADE: WeakValueDictionary[int, gymnasium.Env] = WeakValueDictionary()

Source: TypeAlias = gymnasium.Env | VectorEnv | Callable[[], gymnasium.Env]
SpacesOwner: TypeAlias = gymnasium.Env | VectorEnv


@dataclass(frozen=True)
class GymnasiumSettings(CoverageSettings):
    """A task by its Gymnasium id, and what its environment leaves open."""

    id: str = "MountainCarContinuous-v0"
    """The Gymnasium id."""
    time_limit: Whole = 0
    """Steps after which an episode is cut; 0: the task's own limit, 1,000 where it has none."""
    normalise: bool = True
    """Whether agents see every entry of the observation relative to its range."""
    reports_success: bool = False
    """Whether info["is_success"] (or "success") says that the task is solved."""
    workers: bool = False
    """Whether every environment gets a process of its own."""
    worker_timeout: Positive = 60.0
    """Seconds after which a process that does not answer is given up."""


def gymnasium_task(settings: GymnasiumSettings, num_envs: int) -> HostEnv:
    """The task that the settings name."""
    return from_factory(factory_of(settings.id), settings, num_envs)


def from_factory(make: Factory, settings: GymnasiumSettings, num_envs: int) -> HostEnv:
    """Environments from a factory, stepped one after the other or in processes of their own."""
    first = _new(make)
    registered = make.time_limit if isinstance(make, Registered) else None
    declared = declared_limit(first) if registered is None else _require_limit(registered)
    task = _task(settings, first, declared)
    if not settings.workers:
        envs = [first, *(_new(make) for _ in range(num_envs - 1))]
        _require_alike(envs)
        return GymnasiumList(task, envs)
    first.close()
    factories = [WatchedFactory(make, i, task.spec.episode_length) for i in range(num_envs)]
    # not by fork: JAX has threads, and a forked copy of them deadlocks
    multiprocessing.get_context(CONTEXT).set_forkserver_preload([WatchedFactory.__module__])
    try:
        vector = AsyncVectorEnv(factories, context=CONTEXT, autoreset_mode=AutoresetMode.SAME_STEP)
    except RuntimeError as error:  # Gymnasium compares the spaces of the workers
        raise UserError("one kind of environment from the factory", error, ALIKE) from error
    return GymnasiumVector(task, vector, settings.worker_timeout)


def from_env(env: gymnasium.Env, settings: GymnasiumSettings) -> HostEnv:
    """One environment that the user has made."""
    return GymnasiumList(_task(settings, env, declared_limit(env)), [env])


def from_vector(envs: VectorEnv, settings: GymnasiumSettings) -> HostEnv:
    """A vector environment that the user has made; it limits its own time."""
    if settings.time_limit:
        fix = "limit the time inside it, as gymnasium.wrappers.TimeLimit does, and leave it out"
        raise UserError("no time_limit for a vector environment", settings.time_limit, fix)
    limit = declared_limit(envs) or DEFAULT_LIMIT
    return GymnasiumVector(_task(settings, envs, limit), envs, settings.worker_timeout)


def _task(settings: GymnasiumSettings, env: SpacesOwner, declared: int | None) -> Task:
    """The task's sizes and spaces, read from its first environment."""
    single = "single_" if isinstance(env, VectorEnv) else ""
    observations = Observations(space_of(env, f"{single}observation_space"), settings.normalise)
    actions = Actions(space_of(env, f"{single}action_space"))
    coverage = coverage_of(observations.spec, settings, observations.integers)
    limit = settings.time_limit or declared
    spec = EnvSpec(
        name=name_of(env),
        observation=observations.spec,
        action=actions.spec,
        episode_length=limit or DEFAULT_LIMIT,
        grid=None if coverage is None else coverage.grid,
        says_success=settings.reports_success,
    )
    return Task(spec, observations, actions, coverage, declared=limit is not None)


def space_of(env: SpacesOwner, name: str) -> spaces.Space:
    """A space of an environment, or what is missing."""
    try:
        space = env.get_wrapper_attr(name) if isinstance(env, gymnasium.Env) else getattr(env, name)
    except AttributeError as error:
        fix = f"set self.{name} in __init__"
        raise UserError(f"{name_of(env)} to have an attribute {name}", "none", fix) from error
    if not isinstance(space, spaces.Space):
        fix = f"set self.{name} to a space of gymnasium.spaces"
        expected = f"{name} of {name_of(env)} to be a gymnasium Space"
        raise UserError(expected, type(space).__name__, fix)
    return space


def name_of(env: SpacesOwner) -> str:
    """The registered id, or the class of the innermost environment."""
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def declared_limit(env: SpacesOwner) -> int | None:
    """Steps of an episode by the spec, or else by what the environment says and its wrapper."""
    if env.spec is not None and env.spec.max_episode_steps is not None:
        return _require_limit(env.spec.max_episode_steps)
    inner = env.unwrapped
    if isinstance(inner, SyncVectorEnv):
        return declared_limit(inner.envs[0])
    own = getattr(inner, "max_episode_steps", None)
    limits = [_require_limit(own)] if isinstance(own, Real) else []
    while isinstance(env, gymnasium.Wrapper):  # an environment without a spec has no other trace
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            limits.append(_require_limit(env._max_episode_steps))
        env = env.env
    return min(limits, default=None)


def _require_limit(limit: Any) -> int:
    """A number of steps that an episode can have."""
    number = isinstance(limit, Real) and not isinstance(limit, bool)
    if not (number and float(limit).is_integer() and limit >= 1):
        fix = "give the steps after which an episode is cut, or None"
        raise UserError("max_episode_steps to be a whole number above 0", repr(limit), fix)
    return int(limit)


def _require_alike(envs: list[gymnasium.Env]) -> None:
    """Refuse environments that the first one's bounds would misread."""
    for name in ("observation_space", "action_space"):
        first = space_of(envs[0], name)
        for index, env in enumerate(envs[1:], 1):
            if (space := space_of(env, name)) != first:
                got = f"{space} in environment {index}, {first} in environment 0"
                raise UserError(f"one {name} from every call of the factory", got, ALIKE)


def _new(make: Factory) -> gymnasium.Env:
    """An environment that nobody else has: episodes of a shared one would be interleaved."""
    env = require_made(_made(make))
    inner = env.unwrapped
    if _MADE.get(id(inner)) is inner:
        got = f"the same {name_of(env)} again"
        fix = "return a new environment at each call, or give the environment itself"
        raise UserError("a new environment from every call of the factory", got, fix)
    _MADE[id(inner)] = inner
    return env


def _made(make: Factory) -> object:
    try:
        return make()
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        words = traceback.format_exc()
        raise EnvironmentFailedError.of("an environment", "construction", None, words) from error


def require_env(source: object) -> Source:
    """Refuse what is no environment of Gymnasium, and say what to do about a `gym` one."""
    if isinstance(source, gymnasium.Env | VectorEnv) or callable(source):
        return source
    module = type(source).__module__.split(".")[0]
    fix = (
        "wrap it with shimmy, or derive it from gymnasium.Env"
        if module == "gym"
        else "derive it from gymnasium.Env, or pass an id or a factory"
    )
    got = f"{type(source).__module__}.{type(source).__name__}"
    raise UserError("a Gymnasium id, environment, vector environment or factory", got, fix)
