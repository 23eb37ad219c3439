"""Gymnasium environments as one batch: a list of single ones that we step, or a vector environment.

Results are converted here, and refused if that is impossible; `core.guard` checks the numbers.
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
from devote.core.guard import read_reset, read_step
from devote.core.types import EnvSpec, HostStep
from devote.core.worker import asking_one
from devote.envs.bins import Coverage
from devote.envs.spaces import Actions, Observations

SUCCESS = ("is_success", "success")
INVALID = "invalid_transition"
"""Marks, in an info, a step to be ignored, such as one in which a simulation blew up."""
FINAL = ("final_obs", "final_observation")
"""Where the successor is when a reset has taken its place; the second name is older."""
CALLERS = tuple(f"devote.envs.{name}" for name in ("check", "gymnasium", "vector"))
T = TypeVar("T")


@runtime_checkable
class Restorable(Protocol):
    """What an environment offers so that a run with it resumes exactly."""

    def save_state(self) -> dict[str, np.ndarray]:
        """Copies of everything that changes, its random generator included."""

    def load_state(self, saved: dict[str, np.ndarray]) -> None:
        """Go on from what `save_state` gave."""


@dataclass(frozen=True)
class Task:
    """What is known of a Gymnasium task before it is stepped."""

    spec: EnvSpec
    observations: Observations
    actions: Actions
    coverage: Coverage
    declared: bool = True
    """Whether the task or the user sets a time limit."""


@cache  # once per task
def _warn_of_limit(name: str, limit: int) -> None:
    message = (
        f"{name} declares no time limit: its episodes are truncated after {limit:,} steps; "
        "set time_limit to change that"
    )
    warnings.warn(message, stacklevel=2)


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

    def close(self) -> None:
        """The environment's own close."""
        self.ask("close", self.env.close)

    def ask(self, what: str, call: Callable[[], T]) -> T:
        """The answer, or an error that names the environment, the step and the action."""
        tell = partial(self._tell, what)
        try:
            with asking_one(tell):
                return call()
        except BaseException as error:
            raise EnvironmentFailedError.of(*tell(), _words(error)) from None

    def _tell(self, what: str) -> tuple[str, str, object]:
        when = f"step {self.steps:,}" if what == "step" else f"{what} after {self.steps:,} steps"
        return f"environment {self.index} ({self.env})", when, self.action


def _words(error: BaseException) -> str:
    """What went wrong in an environment, for its error message; a user's Ctrl-C is raised again.

    sys.exit() in a step counts as a failure: it would end the run without a message.
    """
    if isinstance(error, UserError):
        return str(error)
    main = threading.current_thread() is threading.main_thread()
    by_user = main and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    if not isinstance(error, Exception | SystemExit | KeyboardInterrupt) or (
        isinstance(error, KeyboardInterrupt) and by_user  # no signal reaches other threads
    ):
        raise error
    return own_traceback(error)


def own_traceback(error: BaseException) -> str:
    """The traceback of what an environment raised, without the frames that called it."""
    own = error.__traceback__
    while own is not None and own.tb_frame.f_globals.get("__name__") in CALLERS:
        own = own.tb_next
    return "".join(traceback.format_exception(type(error), error, own or error.__traceback__))


@dataclass(frozen=True)
class WatchedFactory:
    """Builds one watched environment of several, here or in another process."""

    make: Callable[[], gymnasium.Env]
    index: int
    time_limit: int

    def __call__(self) -> gymnasium.Env:
        """The environment, truncated after `time_limit` steps."""
        if multiprocessing.parent_process() is not None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the training stops safely by itself
        watched = Watched(require_made(self.make()), self.index)
        return gymnasium.wrappers.TimeLimit(watched, self.time_limit)


def require_made(env: Any) -> gymnasium.Env:
    """What a factory made, if that is a single environment."""
    if isinstance(env, gymnasium.Env):
        return env
    fix = "return an instance of a class derived from gymnasium.Env"
    if isinstance(env, VectorEnv):
        fix = "return a single environment, or in Python pass the vector environment itself"
    kind = f"{type(env).__module__}.{type(env).__name__}"
    raise UserError("a gymnasium.Env from the factory", kind, fix)


class _Batch:
    """What both kinds of batches share."""

    def __init__(self, task: Task, num_envs: int) -> None:
        self.task, self.spec, self.num_envs = task, task.spec, num_envs
        self.elapsed = np.zeros(num_envs, np.int64)

    def bin_of(self, obs: np.ndarray) -> np.ndarray:
        """The flat coverage bins of observations."""
        coverage = self.task.coverage
        return np.full(len(obs), -1) if coverage is None else coverage.bin_of(obs)

    def _warn_if(self, cut: Any) -> None:
        """Warn once that episodes are truncated by default."""
        if cut and not self.task.declared:
            _warn_of_limit(self.spec.name, self.spec.episode_length)


class GymnasiumList(_Batch):
    """A `HostEnv` of single environments, one after the other; we limit their time and reset."""

    def __init__(self, task: Task, envs: list[gymnasium.Env]) -> None:
        super().__init__(task, len(envs))
        self.envs = [Watched(env, index) for index, env in enumerate(envs)]

    def reset(self, key: PRNGKeyArray) -> np.ndarray:
        """Start every episode afresh, seeded by the key."""
        seed = seed_of(key)
        # as Gymnasium's vector environments do it
        return np.stack([self._start(i, seed + i) for i in range(self.num_envs)])

    def step(self, action: np.ndarray, key: PRNGKeyArray) -> HostStep:
        """Step every environment; their generators were seeded at the first reset."""
        taken = self.task.actions.to_env(np.asarray(action))
        rows = [self._step(i, taken[i]) for i in range(self.num_envs)]
        columns = map(np.stack, zip(*rows, strict=True))
        successor, reward, terminated, truncated, success, valid = columns
        obs = successor.copy()
        for i in np.flatnonzero(terminated | truncated).tolist():
            obs[i] = self._start(i, None)
        return HostStep(successor, obs, reward, terminated, truncated, success, {}, valid)

    def _start(self, index: int, seed: int | None) -> np.ndarray:
        self.elapsed[index] = 0
        obs, _ = self.envs[index].reset(seed=seed)
        return self._read(index, obs, "reset")

    def _step(self, index: int, action: Any) -> tuple[np.ndarray | np.generic, ...]:
        obs, reward, terminated, truncated, info = self.envs[index].step(action)
        self.elapsed[index] += 1
        late = self.elapsed[index] >= self.spec.episode_length
        self._warn_if(late and not (terminated or truncated))
        return (
            self._read(index, obs, "step"),
            np.float32(reward),
            np.bool_(terminated),
            np.bool_(truncated or late),
            np.bool_(any(info.get(name, False) for name in SUCCESS)),
            np.bool_(not info.get(INVALID, False)),
        )

    def _read(self, index: int, obs: Any, what: str) -> np.ndarray:
        """The observation as a flat copy."""
        flatten = partial(self.task.observations.flatten_one, obs)
        return self.envs[index].ask(what, flatten)

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


class GymnasiumVector(_Batch):
    """A `HostEnv` of a vector environment; true successors under every autoreset mode."""

    def __init__(self, task: Task, envs: VectorEnv, timeout: float | None = None) -> None:
        super().__init__(task, int(envs.num_envs))
        self.envs, self.timeout, self.mode = envs, timeout, autoreset_mode(envs)
        self.steps, self.failed = 0, False
        self.over = np.zeros(self.num_envs, bool)
        """Episodes that have ended and whose reset takes the next step."""

    def reset(self, key: PRNGKeyArray) -> np.ndarray:
        """Start every episode afresh, seeded by the key."""
        self.over[:], self.elapsed[:] = False, 0
        seed = seed_of(key)
        return self._ask("reset", None, lambda: self._read(self.envs.reset(seed=seed)[0], None))

    def step(self, action: np.ndarray, key: PRNGKeyArray) -> HostStep:
        """Step every environment; their generators were seeded at the first reset."""
        self.steps += 1
        taken = self.task.actions.to_env(np.asarray(action))
        return self._ask(f"vector step {self.steps:,}", taken, lambda: self._step(taken))

    def _step(self, action: np.ndarray) -> HostStep:
        if self.timeout is None or not isinstance(self.envs, AsyncVectorEnv):
            obs, reward, terminated, truncated, info = self.envs.step(action)
        else:
            self.envs.step_async(action)
            obs, reward, terminated, truncated, info = self.envs.step_wait(timeout=self.timeout)
        observed = self._read(obs, action)
        if not isinstance(info, dict):  # successors of ended episodes may be in it
            fix = "return one dict for all environments, and remove DictInfoToList"
            raise UserError("info to be a dict", type(info).__name__, fix)
        terminated = self._each("booleans terminated", terminated, "b") & ~self.over
        truncated = self._each("booleans truncated", truncated, "b") & ~self.over
        rewards = self._each("rewards", reward, "biuf")
        done = terminated | truncated
        self.elapsed += ~self.over
        self._warn_if((truncated & (self.elapsed == self.spec.episode_length)).any())
        self.elapsed[done] = 0
        valid = ~self.over & ~self._told((INVALID,), info, done)
        successor, start = self._split(observed, done, info, action)
        self.over = done if self.mode is AutoresetMode.NEXT_STEP else np.zeros_like(done)
        reward = np.where(valid, rewards.astype(np.float32), np.float32(0))
        success = self._told(SUCCESS, info, done) & valid
        return HostStep(successor, start, reward, terminated, truncated, success, {}, valid)

    def _split(
        self, observed: np.ndarray, done: np.ndarray, info: dict, action: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """True successors, and the observations of the next decisions."""
        if self.mode is AutoresetMode.NEXT_STEP or not done.any():
            return observed, observed.copy()
        ended = np.flatnonzero(done).tolist()
        if self.mode is AutoresetMode.SAME_STEP:
            name = next((name for name in FINAL if name in info), None)
            if name is None:
                got = f"info with {sorted(map(str, info))}"
                fix = "return it, or use another autoreset mode"
                raise UserError("info['final_obs'] where an episode ended", got, fix)
            successor = observed.copy()
            successor[done] = np.stack([self._one(info[name], i, action) for i in ended])
            return successor, observed
        fresh, _ = self.envs.reset(options={"reset_mask": done.copy()})
        start = observed.copy()
        start[done] = self._read(fresh, action)[done]
        return observed, start

    def _ask(self, when: str, action: Any, call: Callable[[], T]) -> T:
        """The answer, or an error that names the environment, the step and the action."""
        try:
            return call()
        except EnvironmentFailedError:
            self.failed = True
            raise
        except BaseException as error:
            words = _words(error)
            self.failed = not isinstance(error, UserError)
            which, index = culprits(self.envs), raiser(self.envs, error)
            if isinstance(error, multiprocessing.TimeoutError):
                which, words = silent(self.envs), f"nothing for {self.timeout} s"
            if index is not None:
                which, action = f"environment {index}", None if action is None else action[index]
            raise EnvironmentFailedError.of(which, when, action, words) from error

    def _read(self, obs: Any, action: Any) -> np.ndarray:
        """Observations as flat copies, or an error that names the first environment at fault."""
        try:
            return self.task.observations.flatten(obs, self.num_envs)
        except UserError:
            for index in range(self.num_envs):
                self._one(obs, index, action)
            raise

    def _one(self, obs: Any, index: int, action: Any) -> np.ndarray:
        """The observation of one environment, or an error that names it."""
        try:
            return self.task.observations.flatten_one(part_of(obs, index))
        except (UserError, LookupError, TypeError) as error:
            when = "reset" if action is None else f"vector step {self.steps:,}"
            last = None if action is None else action[index]
            which, words = f"environment {index}", _words(error)
            raise EnvironmentFailedError.of(which, when, last, words) from error

    def _each(self, what: str, values: Any, kinds: str) -> np.ndarray:
        """A copy of one value for each environment."""
        array = np.array(values)
        if array.shape != (self.num_envs,) or array.dtype.kind not in kinds:
            got = f"{array.dtype} of shape {array.shape}"
            fix = "return an array with one for each environment"
            raise UserError(f"{self.num_envs} {what}", got, fix)
        return array

    def _told(self, names: tuple[str, ...], info: dict, done: np.ndarray) -> np.ndarray:
        """What infos say; of an episode that was reset in the step, its last info."""
        now = _said(names, info, self.num_envs)
        last = info.get("final_info")
        if self.mode is AutoresetMode.SAME_STEP and isinstance(last, dict):
            return np.where(done, _said(names, last, self.num_envs), now)
        return now

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
        """Close the vector environment; after a failure its worker processes are killed."""
        inner = self.envs.unwrapped  # wrappers would ask workers that no longer answer
        if self.failed and isinstance(inner, AsyncVectorEnv):
            end_workers(inner)
        else:
            self.envs.close()


def autoreset_mode(envs: VectorEnv) -> AutoresetMode:
    """What a vector environment declares to do when an episode ends."""
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
    """Where a batch of infos is true under one of the names."""
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
    frames = traceback.walk_tb(error.__traceback__)
    owners = (id(frame.f_locals.get("self")) for frame, _ in frames)
    return next((numbers[owner] for owner in owners if owner in numbers), None)


def culprits(envs: VectorEnv) -> str:
    """The environments whose worker process has ended, as far as can be told from here."""
    inner = envs.unwrapped
    if not isinstance(inner, AsyncVectorEnv):
        return str(envs)
    for process in inner.processes:
        process.join(timeout=0.2)  # it may still be dying
    dead = [
        f"environment {index} (its process ended with exit code {process.exitcode})"
        for index, process in enumerate(inner.processes)
        if inner.parent_pipes[index] is None or not process.is_alive()
    ]
    return ", ".join(dead) or f"a worker of {envs}"


def silent(envs: VectorEnv) -> str:
    """The environments that have not answered yet."""
    pipes = enumerate(getattr(envs.unwrapped, "parent_pipes", ()))
    late = [f"environment {i}" for i, pipe in pipes if pipe is not None and not pipe.poll()]
    return ", ".join(late) or f"a worker of {envs}"


def end_workers(envs: AsyncVectorEnv) -> None:
    """Kill worker processes that no longer answer."""
    for process in envs.processes:
        process.kill()
        process.join()
    for pipe in envs.parent_pipes:
        if pipe is not None:
            pipe.close()
    envs.closed = True
