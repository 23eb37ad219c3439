"""Gymnasium environments as one batch: single ones that we step, or a vector environment.

Here results only take our form, and what cannot is refused; `core.guard` looks at the numbers.
"""

import multiprocessing
import signal
import threading
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Protocol, TypeVar, runtime_checkable

import gymnasium
import jax
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker
from jaxtyping import PRNGKeyArray

from devote.core.errors import EnvironmentFailedError, UserError
from devote.core.types import EnvSpec, HostStep
from devote.core.worker import asking_one
from devote.envs.bins import Coverage
from devote.envs.spaces import Actions, Observations

SUCCESS = ("is_success", "success")
INVALID = "invalid_transition"
"""What an info says of a step that means nothing, such as one in which a simulation blew up."""
FINAL = ("final_obs", "final_observation")
"""Where a successor is kept when a reset has taken its place; the second name is an older one."""
T = TypeVar("T")


@runtime_checkable
class Restorable(Protocol):
    """What an environment offers so that a run with it resumes exactly."""

    def save_state(self) -> dict[str, np.ndarray]:
        """Copies of everything that changes, its random generator included."""
        ...

    def load_state(self, saved: dict[str, np.ndarray]) -> None:
        """Go on from what `save_state` gave."""
        ...


@dataclass(frozen=True)
class Task:
    """What is known of a Gymnasium task before it is stepped."""

    spec: EnvSpec
    observations: Observations
    actions: Actions
    coverage: Coverage
    declared: bool = True
    """Whether somebody said how long an episode is."""

    def bin_of(self, obs: np.ndarray) -> np.ndarray:
        """The flat coverage bins of observations."""
        return np.full(len(obs), -1) if self.coverage is None else self.coverage.bin_of(obs)

    def warn_of_cut(self, cut: bool | np.bool_) -> None:
        """Say, the first time, that an episode was cut without anybody having asked for it."""
        if cut and not self.declared:
            _warn_of_cut(self.spec.name, self.spec.episode_length)


@cache
def _warn_of_cut(name: str, limit: int) -> None:
    message = (
        f"an episode of {name}, which declares no time limit, was cut (truncated, not terminated) "
        f"after {limit:,} steps, as all that long are; set time_limit to change that"
    )
    warnings.warn(message, stacklevel=3)


def seed_of(key: PRNGKeyArray) -> int:
    """A non-negative seed, a function of the key alone."""
    words = np.asarray(jax.random.key_data(key)).reshape(-1).tolist()
    return int(np.random.SeedSequence(words).generate_state(1)[0] >> 1)


class Watched(gymnasium.Wrapper):
    """An environment whose results have the right form; errors tell its index, step and action."""

    def __init__(self, env: gymnasium.Env, index: int) -> None:
        super().__init__(env)
        self.index = index
        self.steps = 0
        self.action: Any = None

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        """The environment's own reset."""
        self.action = None
        return self.ask("reset", lambda: read_reset(self.env.reset(seed=seed, options=options)))

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        """The environment's own step."""
        self.action = action
        self.steps += 1
        return self.ask("step", lambda: read_step(self.env.step(action)))

    def ask(self, what: str, call: Callable[[], T]) -> T:
        """The answer, or an error that says who failed, when, after what, and in which words."""
        tell = partial(self._tell, what)
        try:
            with asking_one(tell):
                return call()
        except UserError as error:
            words = str(error)
        except (Exception, SystemExit):  # sys.exit() in a step would end the run without a word
            words = traceback.format_exc()
        except KeyboardInterrupt:
            if _may_be_interrupted():
                raise
            words = traceback.format_exc()
        raise EnvironmentFailedError.of(*tell(), words)

    def _tell(self, what: str) -> tuple[str, str, object]:
        when = f"{what} (step {self.steps:,} of its life)"
        return f"environment {self.index} ({self.env})", when, self.action


def _may_be_interrupted() -> bool:
    """Whether a KeyboardInterrupt here may be a person's; no signal reaches other threads."""
    main = threading.current_thread() is threading.main_thread()
    return main and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


@dataclass(frozen=True)
class WatchedFactory:
    """Builds one watched environment of several, here or in another process."""

    make: Callable[[], gymnasium.Env]
    index: int
    time_limit: int

    def __call__(self) -> gymnasium.Env:
        """The environment, cut after `time_limit` steps."""
        if multiprocessing.parent_process() is not None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the training to stop safely
        watched = Watched(require_made(self.make()), self.index)
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


def read_reset(result: Any) -> tuple[Any, dict]:
    """`(obs, info)`, or what is wrong with it."""
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], dict):
        raise UserError("reset to return (obs, info)", _shape(result), "return obs, {}")
    return result


def read_step(result: Any) -> tuple[Any, Any, bool, bool, dict]:
    """`(obs, reward, terminated, truncated, info)`, or what is wrong with it."""
    require_five(result)
    require_reward(result[1])
    require_flags(result)
    require_info(result[4])
    return result


def require_five(result: Any) -> None:
    """Refuse a step that is not five values."""
    if not isinstance(result, tuple) or len(result) != 5:
        fix = "return obs, reward, terminated, truncated, {}"
        raise UserError("step to return 5 values", _shape(result), fix)


def require_reward(reward: Any) -> None:
    """Refuse a reward that is not one number."""
    number = np.asarray(reward)
    if number.dtype.kind not in "biuf" or number.ndim != 0:
        got = f"{type(reward).__name__} {number.dtype} of shape {number.shape}"
        raise UserError("reward to be one number", got, "return float(reward)")


def require_flags(result: tuple[Any, ...]) -> None:
    """Refuse ends that are not booleans."""
    for name, flag in zip(("terminated", "truncated"), result[2:4], strict=True):
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


class GymnasiumList:
    """A `HostEnv` of single environments, one after the other; we limit their time and reset."""

    def __init__(self, task: Task, envs: list[gymnasium.Env]) -> None:
        self.task = task
        self.spec = task.spec
        self.num_envs = len(envs)
        self.envs = [Watched(env, index) for index, env in enumerate(envs)]
        self.elapsed = np.zeros(self.num_envs, np.int64)

    def reset(self, key: PRNGKeyArray) -> np.ndarray:
        """Start every episode afresh, seeded by the key."""
        seed = seed_of(key)
        # as Gymnasium's vector environments do it
        return np.stack([self._start(i, seed + i) for i in range(self.num_envs)])

    def step(self, action: np.ndarray, key: PRNGKeyArray) -> HostStep:
        """Step every environment; chance is the environments' own, seeded at the first reset."""
        taken = self.task.actions.to_env(np.asarray(action))
        rows = [self._step(i, taken[i]) for i in range(self.num_envs)]
        successor, reward, terminated, truncated, success, valid = map(
            np.stack, zip(*rows, strict=True)
        )
        obs = successor.copy()
        for i in np.flatnonzero(terminated | truncated).tolist():
            obs[i] = self._start(i, None)
        return HostStep(
            next_obs=successor,
            obs=obs,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            success=success,
            terms={},
            valid=valid,
        )

    def _start(self, index: int, seed: int | None) -> np.ndarray:
        self.elapsed[index] = 0
        obs, _ = self.envs[index].reset(seed=seed)
        return self._read(index, obs, "reset")

    def _step(self, index: int, action: Any) -> tuple[np.ndarray | np.generic, ...]:
        obs, reward, terminated, truncated, info = self.envs[index].step(action)
        self.elapsed[index] += 1
        late = self.elapsed[index] >= self.spec.episode_length
        self.task.warn_of_cut(late and not (terminated or truncated))
        return (
            self._read(index, obs, "step"),
            np.float32(reward),
            np.bool_(terminated),
            np.bool_(truncated or late),
            np.bool_(any(info.get(name, False) for name in SUCCESS)),
            np.bool_(not info.get(INVALID, False)),
        )

    def _read(self, index: int, obs: Any, what: str) -> np.ndarray:
        """The observation in our own form and memory."""
        flatten = partial(self.task.observations.flatten_one, obs)
        return self.envs[index].ask(what, flatten)

    def bin_of(self, obs: np.ndarray) -> np.ndarray:
        """The flat coverage bins of observations."""
        return self.task.bin_of(obs)

    def save(self) -> dict[str, np.ndarray] | None:
        """Everything that changes, if every environment is `Restorable`."""
        cores = [_restorable(env) for env in self.envs]
        saved: dict[str, np.ndarray] = {"elapsed": self.elapsed.copy()}
        for index, core in enumerate(cores):
            if core is None:
                return None
            saved |= {f"{index}/{name}": value for name, value in core.save_state().items()}
        return saved

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Go on from what `save` gave."""
        self.elapsed = saved["elapsed"].copy()
        for index, env in enumerate(self.envs):
            core = _restorable(env)
            assert core is not None, "save would have been None"
            env.reset()  # wrappers insist that an environment is reset before it is stepped
            core.load_state(_under(f"{index}/", saved))

    def close(self) -> None:
        """Close every environment."""
        for env in self.envs:
            env.close()


def _restorable(env: gymnasium.Env) -> Restorable | None:
    """The environment under wrappers that keep nothing, if it can save itself."""
    while not isinstance(env, Restorable):
        if not isinstance(env, Watched | OrderEnforcing | PassiveEnvChecker):
            return None
        env = env.env
    return env


def _under(prefix: str, saved: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {n.removeprefix(prefix): x for n, x in saved.items() if n.startswith(prefix)}


class GymnasiumVector:
    """A `HostEnv` of a vector environment; true successors under every autoreset mode."""

    def __init__(self, task: Task, envs: VectorEnv, timeout: float | None = None) -> None:
        self.task = task
        self.spec = task.spec
        self.envs = envs
        self.num_envs = int(envs.num_envs)
        self.timeout = timeout
        self.mode = autoreset_mode(envs)
        self.steps = 0
        self.failed = False
        self.over = np.zeros(self.num_envs, bool)
        """Episodes that have ended and whose reset takes the next step."""
        self.elapsed = np.zeros(self.num_envs, np.int64)

    def reset(self, key: PRNGKeyArray) -> np.ndarray:
        """Start every episode afresh, seeded by the key."""
        self.over[:], self.elapsed[:] = False, 0
        seed = seed_of(key)
        obs, _ = self._ask("reset", None, lambda: self.envs.reset(seed=seed))
        return self._read(obs, None)

    def step(self, action: np.ndarray, key: PRNGKeyArray) -> HostStep:
        """Step every environment; chance is the environments' own, seeded at the first reset."""
        self.steps += 1
        taken = self.task.actions.to_env(np.asarray(action))
        obs, reward, terminated, truncated, info = self._ask(
            "step", taken, lambda: self._step(taken)
        )
        observed = self._read(obs, taken)
        if not isinstance(info, dict):  # successors of ended episodes may be in it
            fix = "return one dict for all environments, and leave away DictInfoToList"
            raise self._failure(UserError("info to be a dict", type(info).__name__, fix), taken)
        terminated = self._each("booleans terminated", terminated, "b", taken) & ~self.over
        truncated = self._each("booleans truncated", truncated, "b", taken) & ~self.over
        rewards = self._each("rewards", reward, "biuf", taken)
        done = terminated | truncated
        self._count(done, truncated)
        valid = ~self.over & ~self._told((INVALID,), info, done)
        successor, start = self._part(observed, done, info, taken)
        self.over = done if self.mode is AutoresetMode.NEXT_STEP else np.zeros_like(done)
        return HostStep(
            next_obs=successor,
            obs=start,
            reward=np.where(valid, rewards.astype(np.float32), np.float32(0)),
            terminated=terminated,
            truncated=truncated,
            success=self._told(SUCCESS, info, done) & valid,
            terms={},
            valid=valid,
        )

    def _count(self, done: np.ndarray, truncated: np.ndarray) -> None:
        """Keep the lengths of episodes, for a word on those that we cut."""
        self.elapsed += ~self.over
        late = truncated & (self.elapsed == self.spec.episode_length)
        self.task.warn_of_cut(late.any())
        self.elapsed[done] = 0

    def _part(
        self, observed: np.ndarray, done: np.ndarray, info: dict, action: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """True successors, and where the next decisions are made."""
        if self.mode is AutoresetMode.NEXT_STEP or not done.any():
            return observed, observed.copy()
        if self.mode is AutoresetMode.SAME_STEP:
            successor = observed.copy()
            successor[done] = self._final(info, done, action)
            return successor, observed
        options = {"reset_mask": done.copy()}
        fresh, _ = self._ask("reset", action, lambda: self.envs.reset(options=options))
        start = observed.copy()
        start[done] = self._read(fresh, action)[done]
        return observed, start

    def _final(self, info: dict, done: np.ndarray, action: np.ndarray) -> np.ndarray:
        """Successors that a reset in the same step has replaced."""
        name = next((name for name in FINAL if name in info), None)
        if name is None:
            got = f"info with {sorted(map(str, info))}"
            fix = "return it, or use another autoreset mode"
            raise UserError("info['final_obs'] where an episode ended", got, fix)
        return np.stack([self._one(info[name], i, action) for i in np.flatnonzero(done).tolist()])

    def _step(self, action: np.ndarray) -> Any:
        if self.timeout is None or not isinstance(self.envs, AsyncVectorEnv):
            return self.envs.step(action)
        self.envs.step_async(action)
        return self.envs.step_wait(timeout=self.timeout)

    def _ask(self, what: str, action: Any, call: Callable[[], Any]) -> Any:
        """What the vector environment answers, or an error that names the culprit."""
        when = f"{what} (vector step {self.steps:,})"
        try:
            return call()
        except EnvironmentFailedError:
            self.failed = True
            raise
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            if isinstance(error, KeyboardInterrupt) and _may_be_interrupted():
                raise
            self.failed = True
            hangs = isinstance(error, multiprocessing.TimeoutError)
            words = f"nothing for {self.timeout} s" if hangs else traceback.format_exc()
            which = silent(self.envs) if hangs else culprits(self.envs)
            if (index := raiser(self.envs, error)) is not None:
                which, action = f"environment {index}", None if action is None else action[index]
            raise EnvironmentFailedError.of(which, when, action, words) from error

    def _read(self, obs: Any, action: Any) -> np.ndarray:
        """Observations in our own form and memory, or an error that names the first at fault."""
        try:
            return self.task.observations.flatten(obs, self.num_envs)
        except UserError as error:
            for index in range(self.num_envs):
                self._one(obs, index, action)
            raise self._failure(error, action) from error

    def _one(self, obs: Any, index: int, action: Any) -> np.ndarray:
        """The observation of one environment, or an error that names it."""
        try:
            return self.task.observations.flatten_one(part_of(obs, index))
        except (UserError, LookupError, TypeError) as error:
            raise self._failure(error, action, index) from error

    def _failure(
        self, error: Exception, action: Any, index: int | None = None
    ) -> EnvironmentFailedError:
        """Says which environment it was, when, and after which action of its own."""
        which = str(self.envs) if index is None else f"environment {index}"
        last = action if index is None or action is None else action[index]
        when = f"vector step {self.steps:,}"
        return EnvironmentFailedError.of(which, when, last, f"{type(error).__name__}: {error}")

    def _each(self, what: str, values: Any, kinds: str, action: np.ndarray) -> np.ndarray:
        """A copy of one value for each environment, or an error if it is not that."""
        array = np.array(values)
        if array.shape != (self.num_envs,) or array.dtype.kind not in kinds:
            got = f"{array.dtype} of shape {array.shape}"
            fix = "return an array with one for each environment"
            raise self._failure(UserError(f"{self.num_envs} {what}", got, fix), action)
        return array

    def _told(self, names: tuple[str, ...], info: dict, done: np.ndarray) -> np.ndarray:
        """What infos say; of an episode that was reset in the step, its last info."""
        now = _said(names, info, self.num_envs)
        last = info.get("final_info")
        if self.mode is AutoresetMode.SAME_STEP and isinstance(last, dict):
            return np.where(done, _said(names, last, self.num_envs), now)
        return now

    def bin_of(self, obs: np.ndarray) -> np.ndarray:
        """The flat coverage bins of observations."""
        return self.task.bin_of(obs)

    def save(self) -> dict[str, np.ndarray] | None:
        """Everything that changes, if the vector environment is `Restorable`."""
        if not isinstance(self.envs, Restorable):
            return None
        saved = {f"envs/{name}": value for name, value in self.envs.save_state().items()}
        return saved | {"over": self.over.copy(), "steps": np.asarray(self.steps)}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Go on from what `save` gave."""
        assert isinstance(self.envs, Restorable), "save would have been None"
        self.over, self.steps = saved["over"].copy(), int(saved["steps"])
        self.envs.load_state(_under("envs/", saved))

    def close(self) -> None:
        """Close the vector environment; after a failure its worker processes are ended."""
        inner = self.envs.unwrapped  # wrappers would ask workers that answer no more
        if self.failed and isinstance(inner, AsyncVectorEnv):
            end_workers(inner)
        else:
            self.envs.close()


def autoreset_mode(envs: VectorEnv) -> AutoresetMode:
    """What a vector environment says it does when an episode ends; silence is refused."""
    said = envs.metadata.get("autoreset_mode")
    try:
        return AutoresetMode(said)
    except ValueError as error:
        fix = (
            'set metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP} '
            "(or what is true) in the class of the vector environment"
        )
        modes = ", ".join(mode.name for mode in AutoresetMode)
        expected = f"metadata['autoreset_mode'] of {envs} to be one of {modes}"
        raise UserError(expected, repr(said), fix) from error


def _said(names: tuple[str, ...], info: Any, count: int) -> np.ndarray:
    """Where a batch of infos says yes under one of the names."""
    said = np.zeros(count, bool)
    for name in names:
        if name in info:
            given = info.get(f"_{name}", np.ones(count, bool))
            said |= np.asarray(info[name]).astype(bool) & given
    return said


def part_of(obs: Any, index: int) -> Any:
    """The observation of one environment in a batch of them."""
    if isinstance(obs, dict):
        return {key: part_of(value, index) for key, value in obs.items()}
    if isinstance(obs, tuple):
        return tuple(part_of(value, index) for value in obs)
    return obs[index]


def raiser(envs: VectorEnv, error: BaseException) -> int | None:
    """The environment of a `SyncVectorEnv` in whose own code an error was raised."""
    inner = envs.unwrapped
    if not isinstance(inner, SyncVectorEnv):
        return None
    numbers = {id(env): index for index, env in enumerate(inner.envs)}
    for frame, _ in traceback.walk_tb(error.__traceback__):
        index = numbers.get(id(frame.f_locals.get("self")))
        if index is not None:
            return index
    return None


def culprits(envs: VectorEnv) -> str:
    """The environments whose worker has died or given up, as far as the parent can tell."""
    inner = envs.unwrapped
    if not isinstance(inner, AsyncVectorEnv):
        return str(envs)
    for process in inner.processes:
        process.join(timeout=0.2)  # one that is dying may not be dead yet
    dead = [
        f"environment {index} (its process ended with exit code {process.exitcode})"
        for index, process in enumerate(inner.processes)
        if inner.parent_pipes[index] is None or not process.is_alive()
    ]
    return ", ".join(dead) or f"a worker of {envs}"


def silent(envs: VectorEnv) -> str:
    """The environments that have not answered yet."""
    late = [
        f"environment {index}"
        for index, pipe in enumerate(getattr(envs.unwrapped, "parent_pipes", ()))
        if pipe is not None and not pipe.poll()
    ]
    return ", ".join(late) or f"a worker of {envs}"


def end_workers(envs: AsyncVectorEnv) -> None:
    """End worker processes that can no longer be asked to."""
    for process in envs.processes:
        process.kill()
        process.join()
    for pipe in envs.parent_pipes:
        if pipe is not None:
            pipe.close()
    envs.closed = True
