"""A Gymnasium environment that is held to its word, and whose failures say where they happened."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from devote.core.errors import EnvironmentFailedError, UserError
from devote.core.worker import asking_one

T = TypeVar("T")


class Watched(gymnasium.Wrapper):
    """Checks what an environment returns; any error carries its index, step, action and words."""

    def __init__(self, env: gymnasium.Env, index: int) -> None:
        super().__init__(env)
        self.index = index
        self.steps = 0
        self.action: Any = None

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        """The environment's own reset."""
        self.action = None
        result = self._ask("reset", lambda: self.env.reset(seed=seed, options=options))
        return self._ask("reset", lambda: require_reset(result))

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        """The environment's own step."""
        self.action = action
        self.steps += 1
        result = self._ask("step", lambda: self.env.step(action))
        return self._ask("step", lambda: require_step(result))

    def _ask(self, what: str, call: Callable[[], T]) -> T:
        tell = partial(self._tell, what)
        try:
            with asking_one(tell):
                return call()
        except UserError as error:
            words = str(error)
        except (Exception, SystemExit):  # sys.exit() in a step would end the run without a word
            words = traceback.format_exc()
        raise EnvironmentFailedError.of(*tell(), words)

    def _tell(self, what: str) -> tuple[str, str, object]:
        when = f"{what} (step {self.steps:,} of its life)"
        return f"environment {self.index} ({self.env})", when, self.action


@dataclass(frozen=True)
class WatchedFactory:
    """Builds one watched environment of several, here or in another process."""

    make: Callable[[], gymnasium.Env]
    index: int
    time_limit: int | None = None

    def __call__(self) -> gymnasium.Env:
        """The environment, cut after `time_limit` steps if there is one."""
        watched = Watched(require_made(self.make()), self.index)
        if self.time_limit is None:
            return watched
        return gymnasium.wrappers.TimeLimit(watched, self.time_limit)


def require_made(env: Any) -> gymnasium.Env:
    """What a factory made, if that is one environment."""
    if isinstance(env, gymnasium.Env):
        return env
    fix = "return an instance of a class derived from gymnasium.Env"
    if isinstance(env, VectorEnv):
        fix = "return a single environment, or give the vector environment itself"
    kind = f"{type(env).__module__}.{type(env).__name__}"
    raise UserError("a gymnasium.Env from the factory", kind, fix)


def require_reset(result: Any) -> tuple[Any, dict]:
    """`(obs, info)`, or what is wrong with it."""
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], dict):
        raise UserError("reset to return (obs, info)", _shape(result), "return obs, {}")
    return result


def require_step(result: Any) -> tuple[Any, Any, bool, bool, dict]:
    """`(obs, reward, terminated, truncated, info)`, or what is wrong with it."""
    if not isinstance(result, tuple) or len(result) != 5:
        fix = "return obs, reward, terminated, truncated, {}"
        raise UserError("step to return 5 values", _shape(result), fix)
    _, reward, terminated, truncated, info = result
    require_reward(reward)
    require_flag("terminated", terminated)
    require_flag("truncated", truncated)
    require_info(info)
    return result


def require_reward(reward: Any) -> None:
    """Refuse a reward that is not one finite number."""
    number = np.asarray(reward)
    if number.dtype.kind not in "biuf" or number.ndim != 0:
        got = f"{type(reward).__name__} {number.dtype} of shape {number.shape}"
        raise UserError("reward to be one number", got, "return float(reward)")
    if not np.isfinite(number):
        raise UserError("a finite reward", number, "look for a division by 0 or a log of 0")


def require_flag(name: str, flag: Any) -> None:
    """Refuse a flag that is not one boolean."""
    if np.asarray(flag).dtype.kind != "b" or np.ndim(flag) != 0:
        got = f"{type(flag).__name__} {flag!r:.40}"
        raise UserError(f"{name} to be True or False", got, f"return bool({name})")


def require_info(info: Any) -> None:
    """Refuse an info that is no dict."""
    if not isinstance(info, dict):
        raise UserError("info to be a dict", type(info).__name__, "return {} when there is none")


def _shape(result: Any) -> str:
    if isinstance(result, tuple):
        return f"{len(result)} values: " + ", ".join(type(value).__name__ for value in result)
    return type(result).__name__
