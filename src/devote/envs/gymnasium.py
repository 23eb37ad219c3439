"""Any Gymnasium task as a `HostEnv`: from an id, an environment, a factory or a vector one."""

import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import gymnasium
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from devote.core.errors import EnvironmentFailedError, UserError
from devote.core.settings import LONGEST_EPISODE, EpisodeLimit, Timeout
from devote.core.types import EnvSpec, HostEnv
from devote.core.worker import staying
from devote.envs.bins import CoverageSettings, coverage_of
from devote.envs.naming import Factory, Registered, factory_of, with_options
from devote.envs.spaces import Actions, Observations
from devote.envs.vector import (
    GymnasiumList,
    GymnasiumVector,
    Task,
    WatchedFactory,
    own_traceback,
    require_made,
)

DEFAULT_LIMIT = 1000
"""The time limit where neither the task nor the user sets one."""
CONTEXT = "forkserver"
ALIKE = "let every environment have the same spaces, bounds included"
_MADE: WeakValueDictionary[int, gymnasium.Env] = WeakValueDictionary()

Source: TypeAlias = gymnasium.Env | VectorEnv | Callable[[], gymnasium.Env]
SpacesOwner: TypeAlias = gymnasium.Env | VectorEnv


@dataclass(frozen=True)
class GymnasiumSettings(CoverageSettings):
    """A task by its Gymnasium id."""

    id: str = "MountainCarContinuous-v0"
    """The Gymnasium id."""
    env_options: tuple[str, ...] = ()
    """Options of the environment as name=value, for instance `is_slippery=false`."""
    time_limit: EpisodeLimit = 0
    """Steps after which an episode is truncated; 0: the task's own limit, 1,000 if it has none."""
    normalise: bool = True
    """Whether every entry of the observation is normalised by its range."""
    reports_success: bool = False
    """Whether info["is_success"] (or "success") tells that the task is solved."""
    workers: bool = False
    """Whether every environment runs in a process of its own."""
    worker_timeout: Timeout = 60.0
    """Seconds after which a process that does not answer counts as failed."""


def gymnasium_task(settings: GymnasiumSettings, num_envs: int) -> HostEnv:
    """The task that the settings name."""
    return from_factory(factory_of(settings.id), settings, num_envs)


def from_factory(make: Factory, settings: GymnasiumSettings, num_envs: int) -> HostEnv:
    """Environments from a factory, stepped one after the other or each in its own process."""
    make = with_options(make, settings.env_options)
    first = _new(make)
    registered = make.time_limit if isinstance(make, Registered) else None
    declared = declared_limit(first) if registered is None else _require_limit(registered)
    task = _task(settings, first, declared)
    if not settings.workers:
        envs = [first, *(_new(make) for _ in range(num_envs - 1))]
        require_alike(envs, task.spec.name)
        return GymnasiumList(task, envs)
    first.close()
    factories = [WatchedFactory(make, i, task.spec.episode_length) for i in range(num_envs)]
    # not by fork, which deadlocks with the threads of JAX
    multiprocessing.get_context(CONTEXT).set_forkserver_preload([WatchedFactory.__module__])
    try:
        vector = AsyncVectorEnv(factories, context=CONTEXT, autoreset_mode=AutoresetMode.SAME_STEP)
    except RuntimeError as error:  # Gymnasium compares the spaces of the workers
        name = task.spec.name
        raise UserError(f"one kind of environment {name} from the factory", error, ALIKE) from error
    return GymnasiumVector(task, vector, settings.worker_timeout)


def from_env(env: gymnasium.Env, settings: GymnasiumSettings) -> HostEnv:
    """One environment object."""
    return GymnasiumList(_task(settings, env, declared_limit(env)), [env])


def from_vector(envs: VectorEnv, settings: GymnasiumSettings) -> HostEnv:
    """A vector environment object; it limits its own time."""
    if settings.time_limit:
        fix = "leave it out, and put gymnasium.wrappers.TimeLimit around each environment inside"
        raise UserError("no time_limit for a vector environment", settings.time_limit, fix)
    limit = declared_limit(envs) or DEFAULT_LIMIT
    return GymnasiumVector(_task(settings, envs, limit), envs, settings.worker_timeout)


def _task(settings: GymnasiumSettings, env: SpacesOwner, declared: int | None) -> Task:
    """The task as its first environment describes it."""
    single = "single_" if isinstance(env, VectorEnv) else ""
    observations = Observations(space_of(env, f"{single}observation_space"), settings.normalise)
    actions = Actions(space_of(env, f"{single}action_space"))
    integers = observations.integers if settings.coverage_entries else {}
    coverage = coverage_of(observations.spec, settings, integers)
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
    """A space of an environment."""
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
    """The time limit of the spec, or else of the environment and its `TimeLimit` wrapper."""
    if env.spec is not None and env.spec.max_episode_steps is not None:
        return _require_limit(env.spec.max_episode_steps)
    inner = env.unwrapped
    if isinstance(inner, SyncVectorEnv):
        return declared_limit(inner.envs[0])
    own = getattr(inner, "max_episode_steps", None)
    limits = [_require_limit(own)] if isinstance(own, Real) else []
    while isinstance(env, gymnasium.Wrapper):  # without a spec, only the wrapper knows
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            limits.append(_require_limit(env._max_episode_steps))
        env = env.env
    return min(limits, default=None)


def _require_limit(limit: Any) -> int:
    """A valid time limit."""
    number = isinstance(limit, Real) and not isinstance(limit, bool)
    if not (number and 1 <= limit <= LONGEST_EPISODE and float(limit).is_integer()):
        fix = f"set it to a number of steps, at most {LONGEST_EPISODE:,}, or to None"
        raise UserError("max_episode_steps to be a whole number above 0", repr(limit), fix)
    return int(limit)


def require_alike(envs: list[gymnasium.Env], task: str) -> None:
    """Refuse environments whose spaces differ: the first one's are used for all."""
    for name in ("observation_space", "action_space"):
        first = space_of(envs[0], name)
        for index, env in enumerate(envs[1:], 1):
            if (space := space_of(env, name)) != first:
                got = f"{space} in environment {index}, {first} in environment 0"
                raise UserError(f"one {name} from every call of the factory of {task}", got, ALIKE)


def _new(make: Factory) -> gymnasium.Env:
    """A new environment."""
    try:
        with staying():
            env = require_made(make())
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        words = own_traceback(error)
        raise EnvironmentFailedError.of("an environment", "construction", None, words) from error
    require_new(env)
    return env


def require_new(env: gymnasium.Env) -> None:
    """Refuse an environment that was made before: episodes would be interleaved."""
    inner = env.unwrapped
    if _MADE.get(id(inner)) is inner:
        got = f"the same {name_of(env)} again"
        fix = "return a new environment at each call, or give the environment itself"
        raise UserError("a new environment from every call of the factory", got, fix)
    _MADE[id(inner)] = inner


def require_env(source: object) -> Source:
    """Refuse what is not a Gymnasium environment or factory."""
    if isinstance(source, gymnasium.Env | VectorEnv) or callable(source):
        return source
    got = f"{type(source).__module__}.{type(source).__name__}"
    fix = "derive it from gymnasium.Env, or pass an id or a factory"
    if got.split(".")[0] == "gym":
        fix = "wrap it with shimmy, or derive it from gymnasium.Env"
    raise UserError("a Gymnasium id, environment, vector environment or factory", got, fix)
