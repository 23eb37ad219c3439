"""Gymnasium's vector environments, whatever they do when an episode ends."""

import multiprocessing
import traceback
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorEnv
from jaxtyping import PRNGKeyArray

from devote.core.errors import EnvironmentFailedError, UserError
from devote.core.types import HostStep
from devote.envs.gymnasium_list import INVALID, SUCCESS, Restorable, Task, require_finite
from devote.envs.seeds import seed_of
from devote.envs.vector_faults import culprits, end_workers, part_of, raiser, silent

FINAL = ("final_obs", "final_observation")
"""Where a successor is kept when a reset has taken its place; the second name is an older one."""


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

    def reset(self, key: PRNGKeyArray) -> np.ndarray:
        """Start every episode afresh, seeded by the key."""
        self.over[:] = False
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
        seen = self._read(obs, taken)
        self._require_info(info, taken)
        terminated, truncated = (
            self._flags(name, flags, taken) & ~self.over
            for name, flags in (("terminated", terminated), ("truncated", truncated))
        )
        done = terminated | truncated
        valid = ~self.over & ~self._told((INVALID,), info, done)
        successor, start = self._part(seen, done, info, taken)
        self.over = done if self.mode is AutoresetMode.NEXT_STEP else np.zeros_like(done)
        return HostStep(
            next_obs=successor,
            obs=start,
            reward=np.where(valid, self._rewards(reward, valid, taken), np.float32(0)),
            terminated=terminated,
            truncated=truncated,
            success=self._told(SUCCESS, info, done) & valid,
            terms={},
            valid=valid,
        )

    def _part(
        self, seen: np.ndarray, done: np.ndarray, info: dict, action: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """True successors, and where the next decisions are made."""
        if self.mode is AutoresetMode.NEXT_STEP or not done.any():
            return seen, seen.copy()
        if self.mode is AutoresetMode.SAME_STEP:
            successor = seen.copy()
            successor[done] = self._final(info, done, action)
            return successor, seen
        options = {"reset_mask": done.copy()}
        fresh, _ = self._ask("reset", action, lambda: self.envs.reset(options=options))
        start = seen.copy()
        start[done] = self._read(fresh, action)[done]
        return seen, start

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

    def _ask(self, what: str, action: Any, call: Any) -> Any:
        """What the vector environment answers, or an error that names the culprit."""
        when = f"{what} (vector step {self.steps:,})"
        try:
            return call()
        except EnvironmentFailedError:
            self.failed = True
            raise
        except (Exception, SystemExit) as error:
            self.failed = True
            hangs = isinstance(error, multiprocessing.TimeoutError)
            words = f"nothing for {self.timeout} s" if hangs else traceback.format_exc()
            which = silent(self.envs) if hangs else culprits(self.envs)
            if (index := raiser(self.envs, error)) is not None:
                which, action = f"environment {index}", None if action is None else action[index]
            raise EnvironmentFailedError.of(which, when, action, words) from error

    def _read(self, obs: Any, action: Any) -> np.ndarray:
        """Observations in our own memory, or an error that names the first one at fault."""
        try:
            flat = self.task.observations.flatten(obs, self.num_envs)
            require_finite(flat, self.task.observations)
        except UserError as error:
            for index in range(self.num_envs):
                self._one(obs, index, action)
            raise self._failure(error, action) from error
        return flat

    def _one(self, obs: Any, index: int, action: Any) -> np.ndarray:
        """The observation of one environment, or an error that names it."""
        try:
            flat = self.task.observations.flatten_one(part_of(obs, index))
            require_finite(flat[None], self.task.observations)
        except (UserError, LookupError, TypeError) as error:
            raise self._failure(error, action, index) from error
        return flat

    def _failure(
        self, error: Exception, action: Any, index: int | None = None
    ) -> EnvironmentFailedError:
        """Says which environment it was, when, and after which action of its own."""
        which = str(self.envs) if index is None else f"environment {index}"
        last = action if index is None or action is None else action[index]
        when = f"vector step {self.steps:,}"
        return EnvironmentFailedError.of(which, when, last, f"{type(error).__name__}: {error}")

    def _rewards(self, reward: Any, valid: np.ndarray, action: np.ndarray) -> np.ndarray:
        array = np.asarray(reward)
        if array.shape != (self.num_envs,) or array.dtype.kind not in "biuf":
            got = f"{array.dtype} of shape {array.shape}"
            fix = "return one number per environment"
            raise self._failure(UserError(f"{self.num_envs} rewards", got, fix), action)
        bad = np.flatnonzero(~np.isfinite(array) & valid)
        if bad.size:
            fix = "look for a division by 0 or a log of 0"
            error = UserError("a finite reward", array[bad[0]], fix)
            raise self._failure(error, action, int(bad[0]))
        return array.astype(np.float32)

    def _flags(self, name: str, flags: Any, action: np.ndarray) -> np.ndarray:
        array = np.asarray(flags)
        if array.shape != (self.num_envs,) or array.dtype.kind != "b":
            got = f"{array.dtype} of shape {array.shape}"
            error = UserError(f"{self.num_envs} booleans {name}", got, "return an array of bool")
            raise self._failure(error, action)
        return array.copy()

    def _require_info(self, info: Any, action: np.ndarray) -> None:
        """Refuse infos that are no dict: the successors of ended episodes may be in it."""
        if not isinstance(info, dict):
            fix = "return one dict for all environments, and leave away DictInfoToList"
            error = UserError("info to be a dict", type(info).__name__, fix)
            raise self._failure(error, action)

    def _told(self, names: tuple[str, ...], info: dict, done: np.ndarray) -> np.ndarray:
        """What infos say; of an episode that was reset in the step, its last info."""
        now = _said(names, info, self.num_envs)
        last = info.get("final_info")
        if self.mode is AutoresetMode.SAME_STEP and isinstance(last, dict):
            return np.where(done, _said(names, last, self.num_envs), now)
        return now

    def bin_of(self, obs: np.ndarray) -> np.ndarray:
        """The flat coverage bins of observations."""
        return self.task.coverage.bin_of(obs)

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
        prefix = "envs/"
        self.envs.load_state(
            {n.removeprefix(prefix): x for n, x in saved.items() if n.startswith(prefix)}
        )

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
