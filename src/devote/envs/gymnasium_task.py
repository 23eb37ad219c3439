"""Any Gymnasium task as a `HostEnv`: an id, an environment, a factory or a vector environment."""

import multiprocessing
import traceback
import warnings
from collections.abc import Callable
from typing import TypeAlias
from weakref import WeakValueDictionary

import gymnasium
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from devote.core.errors import EnvironmentFailedError, UserError
from devote.core.types import EnvSpec, HostEnv
from devote.envs.coverage_bins import coverage_of
from devote.envs.gymnasium_list import GymnasiumList, Task
from devote.envs.gymnasium_settings import GymnasiumSettings
from devote.envs.gymnasium_vector import GymnasiumVector
from devote.envs.naming import Factory, Registered, factory_of
from devote.envs.spaces import Actions, Observations
from devote.envs.watched import WatchedFactory, require_made

DEFAULT_LIMIT = 1000
"""Steps after which an episode is cut when neither the task nor the user says when."""
CONTEXT = "forkserver"
_MADE: WeakValueDictionary[int, gymnasium.Env] = WeakValueDictionary()
FRESH = "return a new environment at each call, or give the environment itself"

Source: TypeAlias = gymnasium.Env | VectorEnv | Callable[[], gymnasium.Env]
SpacesOwner: TypeAlias = gymnasium.Env | VectorEnv


def gymnasium_task(settings: GymnasiumSettings, num_envs: int) -> HostEnv:
    """The task that the settings name."""
    return from_factory(factory_of(settings.id), settings, num_envs)


def from_factory(make: Factory, settings: GymnasiumSettings, num_envs: int) -> HostEnv:
    """Environments from a factory, stepped one after the other or in processes of their own."""
    first = _new(make)
    registered = make.time_limit if isinstance(make, Registered) else None
    declared = registered or declared_limit(first)
    task = _task(settings, first, _limit(settings, first, declared))
    if not settings.workers:
        return GymnasiumList(task, [first, *(_new(make) for _ in range(num_envs - 1))])
    first.close()
    factories = [WatchedFactory(make, i, task.spec.episode_length) for i in range(num_envs)]
    # not by fork: JAX has threads, and a forked copy of them deadlocks
    multiprocessing.get_context(CONTEXT).set_forkserver_preload([WatchedFactory.__module__])
    vector = AsyncVectorEnv(factories, context=CONTEXT, autoreset_mode=AutoresetMode.SAME_STEP)
    return GymnasiumVector(task, vector, settings.worker_timeout)


def from_env(env: gymnasium.Env, settings: GymnasiumSettings) -> HostEnv:
    """One environment that the user has made."""
    return GymnasiumList(_task(settings, env, _limit(settings, env, declared_limit(env))), [env])


def from_vector(envs: VectorEnv, settings: GymnasiumSettings) -> HostEnv:
    """A vector environment that the user has made; it limits its own time."""
    if settings.time_limit:
        fix = "limit the time inside it, as gymnasium.wrappers.TimeLimit does, and leave it out"
        raise UserError("no time_limit for a vector environment", settings.time_limit, fix)
    limit = declared_limit(envs) or DEFAULT_LIMIT
    return GymnasiumVector(_task(settings, envs, limit), envs, settings.worker_timeout)


def _task(settings: GymnasiumSettings, env: SpacesOwner, limit: int) -> Task:
    """The task's sizes and spaces, read from its first environment."""
    if isinstance(env, VectorEnv):
        seen, done = env.single_observation_space, env.single_action_space
    else:
        seen, done = env.observation_space, env.action_space
    observations, actions = Observations(seen, settings.normalise), Actions(done)
    coverage = coverage_of(observations.spec, settings)
    spec = EnvSpec(
        name=name_of(env),
        observation=observations.spec,
        action=actions.spec,
        episode_length=limit,
        grid=coverage.grid,
        says_success=settings.reports_success,
    )
    return Task(spec, observations, actions, coverage)


def name_of(env: SpacesOwner) -> str:
    """The registered id, or the class of the innermost environment."""
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def _limit(settings: GymnasiumSettings, env: gymnasium.Env, declared: int | None) -> int:
    """Steps of an episode: the user's word, the task's, or the default, which is said aloud."""
    if settings.time_limit:
        return settings.time_limit
    if declared is not None:
        return declared
    message = (
        f"{name_of(env)} declares no time limit: episodes are cut (truncated, not terminated) "
        f"after {DEFAULT_LIMIT:,} steps; set time_limit to change that"
    )
    warnings.warn(message, stacklevel=4)
    return DEFAULT_LIMIT


def declared_limit(env: SpacesOwner) -> int | None:
    """Steps of an episode by the spec, or else by what the environment says and its wrapper."""
    if env.spec is not None and env.spec.max_episode_steps is not None:
        return env.spec.max_episode_steps
    inner = env.unwrapped
    if isinstance(inner, SyncVectorEnv):
        return declared_limit(inner.envs[0])
    own = getattr(inner, "max_episode_steps", None)
    limits = [own] if isinstance(own, int) else []
    while isinstance(env, gymnasium.Wrapper):  # an environment without a spec has no other trace
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            limits.append(env._max_episode_steps)
        env = env.env
    return min(limits, default=None)


def _new(make: Factory) -> gymnasium.Env:
    """An environment that nobody else has: episodes of a shared one would be interleaved."""
    env = require_made(_made(make))
    inner = env.unwrapped
    if _MADE.get(id(inner)) is inner:
        got = f"the same {name_of(env)} again"
        raise UserError("a new environment from every call of the factory", got, FRESH)
    _MADE[id(inner)] = inner
    return env


def _made(make: Factory) -> object:
    try:
        return make()
    except UserError:
        raise
    except Exception as error:
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
