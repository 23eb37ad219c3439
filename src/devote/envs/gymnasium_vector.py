"""Gymnasium's vector environments, whatever they do when an episode ends."""

import multiprocessing
import traceback
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorEnv
from jaxtyping import PRNGKeyArray

from devote.core.errors import EnvironmentFailedError, UserError
from devote.core.types import HostStep
from devote.envs.gymnasium_list import SUCCESS, Task, require_finite
from devote.envs.seeds import seed_of

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
        valid, seen = ~self.over, self._read(obs, taken)
        terminated, truncated = (
            self._flags(name, flags) & valid
            for name, flags in (("terminated", terminated), ("truncated", truncated))
        )
        done = terminated | truncated
        successor, start = self._part(seen, done, info, taken)
        self.over = done if self.mode is AutoresetMode.NEXT_STEP else np.zeros_like(done)
        return HostStep(
            next_obs=successor,
            obs=start,
            reward=np.where(valid, self._rewards(reward, valid, taken), np.float32(0)),
            terminated=terminated,
            truncated=truncated,
            success=self._success(info, done) & valid,
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
        final, observations = info[name], self.task.observations
        if isinstance(final, np.ndarray) and final.dtype == object:
            rows = np.stack([observations.flatten_one(final[i]) for i in np.flatnonzero(done)])
        else:
            rows = observations.flatten(final, self.num_envs)[done]
        require_finite(rows, observations)
        return rows

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
        except Exception as error:
            self.failed = True
            hangs = isinstance(error, multiprocessing.TimeoutError)
            words = f"nothing for {self.timeout} s" if hangs else traceback.format_exc()
            which = silent(self.envs) if hangs else culprits(self.envs)
            raise EnvironmentFailedError.of(which, when, action, words) from error

    def _read(self, obs: Any, action: Any) -> np.ndarray:
        flat = self.task.observations.flatten(obs, self.num_envs)
        bad = ~np.isfinite(flat).reshape(self.num_envs, -1).all(axis=1)
        if bad.any():
            index = int(np.flatnonzero(bad)[0])
            try:
                require_finite(flat[index : index + 1], self.task.observations)
            except UserError as error:
                which, when = f"environment {index}", f"vector step {self.steps:,}"
                last = None if action is None else action[index]
                raise EnvironmentFailedError.of(which, when, last, str(error)) from error
        return flat

    def _rewards(self, reward: Any, valid: np.ndarray, action: np.ndarray) -> np.ndarray:
        array = np.asarray(reward)
        if array.shape != (self.num_envs,) or array.dtype.kind not in "biuf":
            got = f"{array.dtype} of shape {array.shape}"
            raise UserError(f"{self.num_envs} rewards", got, "return one number per environment")
        bad = np.flatnonzero(~np.isfinite(array) & valid)
        if bad.size:
            index, when = int(bad[0]), f"vector step {self.steps:,}"
            words = f"expected a finite reward; got {array[index]}"
            raise EnvironmentFailedError.of(f"environment {index}", when, action[index], words)
        return array.astype(np.float32)

    def _flags(self, name: str, flags: Any) -> np.ndarray:
        array = np.asarray(flags)
        if array.shape != (self.num_envs,) or array.dtype.kind != "b":
            got = f"{array.dtype} of shape {array.shape}"
            raise UserError(f"{self.num_envs} booleans {name}", got, "return an array of bool")
        return array.copy()

    def _success(self, info: dict, done: np.ndarray) -> np.ndarray:
        """What infos say of success; of an episode that was reset in the step, its last info."""
        now = _said(info, self.num_envs)
        last = info.get("final_info")
        if self.mode is AutoresetMode.SAME_STEP and isinstance(last, dict):
            return np.where(done, _said(last, self.num_envs), now)
        return now

    def bin_of(self, obs: np.ndarray) -> np.ndarray:
        """The flat coverage bins of observations."""
        return self.task.coverage.bin_of(obs)

    def save(self) -> None:
        """A vector environment cannot tell what changes in it."""
        return None

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Nothing was ever saved."""
        raise AssertionError("save gives None")

    def close(self) -> None:
        """Close the vector environment; after a failure its worker processes are ended."""
        if self.failed and isinstance(self.envs, AsyncVectorEnv):
            end_workers(self.envs)
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


def culprits(envs: gymnasium.vector.VectorEnv) -> str:
    """The environments whose worker has died or given up, as far as the parent can tell."""
    if not isinstance(envs, AsyncVectorEnv):
        return str(envs)
    for process in envs.processes:
        process.join(timeout=0.2)  # one that is dying may not be dead yet
    dead = [
        f"environment {index} (its process ended with exit code {process.exitcode})"
        for index, process in enumerate(envs.processes)
        if envs.parent_pipes[index] is None or not process.is_alive()
    ]
    return ", ".join(dead) or f"a worker of {envs}"


def silent(envs: gymnasium.vector.VectorEnv) -> str:
    """The environments that have not answered yet."""
    late = [
        f"environment {index}"
        for index, pipe in enumerate(getattr(envs, "parent_pipes", ()))
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


def _said(info: Any, count: int) -> np.ndarray:
    """Where a batch of infos says success."""
    said = np.zeros(count, bool)
    for name in SUCCESS:
        if name in info:
            given = info.get(f"_{name}", np.ones(count, bool))
            said |= np.asarray(info[name]).astype(bool) & given
    return said
