"""Many MuJoCo worlds of one task, stepped in threads by one native call.

MuJoCo is imported when the first model is loaded, so that settings can be read without it.
"""

import logging
from collections.abc import Callable
from importlib.resources import files
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from devote.core.errors import UserError, extra
from devote.core.types import EnvSpec, HostStep
from devote.core.worker import aside


def engine() -> ModuleType:
    """MuJoCo with its batched stepping, which versions before 3.17 lack."""
    with extra("mujoco"):
        import mujoco
        import mujoco.batch
    if mujoco.get_mju_user_warning() is None:  # it would write a file here
        mujoco.set_mju_user_warning(logging.getLogger("devote.mujoco").warning)
    return mujoco


def asset(name: str) -> str:
    """The XML of a model in `envs/assets`."""
    return (files("devote.envs") / "assets" / name).read_text()


def load(text: str) -> Any:
    """A compiled model."""
    return engine().MjModel.from_xml_string(text)


class Physics:
    """Worlds of one model; `qpos`, `qvel`, `ctrl` and `time` are live, one row per world.

    A row of `state` is the whole state of a world, the solver's warm start included.
    """

    def __init__(self, model: Any, num_envs: int, threads: int = 0) -> None:
        self.model = model
        self._batch = aside(lambda: engine().batch.Batch(model, num_envs, threads))
        self.state: np.ndarray = self._batch.state
        self.qpos: np.ndarray = self._batch.bind("qpos")
        self.qvel: np.ndarray = self._batch.bind("qvel")
        self.ctrl: np.ndarray = self._batch.bind("ctrl")
        self.time: np.ndarray = self._batch.bind("time")

    def output(self, name: str) -> np.ndarray:
        """A derived quantity, live; after `advance`, as of the start of its last time step."""
        return self._batch.bind(name)

    def advance(self, steps: int, rows: np.ndarray | None = None) -> None:
        """Step worlds by `steps` time steps with their current controls."""
        self._batch.step(rows, nstep=steps)

    def trace(self, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Step every world; positions and velocities after each step, `(worlds, steps, ...)`."""
        found = self._batch.rollout(steps, record=("qpos", "qvel"))
        return found["qpos"], found["qvel"]

    def restart(self, rows: np.ndarray) -> None:
        """Reset worlds to the model's default state."""
        self._batch.reset(rows, stage=engine().mjtStage.mjSTAGE_NONE)


class StepResult(NamedTuple):
    """What a task returns for a step of all its worlds."""

    reward: np.ndarray
    terminated: np.ndarray
    success: np.ndarray
    terms: dict[str, np.ndarray]


class Task(Protocol):
    """What makes a batch of worlds a task; it has no state of its own."""

    @property
    def spec(self) -> EnvSpec: ...

    @property
    def model(self) -> Any:
        """The compiled MuJoCo model."""

    @property
    def step_time(self) -> float:
        """Simulated seconds per decision."""

    def start(self, physics: Physics, rows: np.ndarray, rng: np.random.Generator) -> None:
        """Begin episodes in `rows`, which are in the model's default state."""

    def act(self, physics: Physics, action: np.ndarray) -> StepResult:
        """Carry out one decision in every world."""

    def observe(self, physics: Physics) -> np.ndarray:
        """The observations of every world."""

    def bin_of(self, obs: np.ndarray) -> np.ndarray:
        """The flat coverage bins of observations; -1 where they count nowhere."""


class MujocoEnv:
    """A task in many worlds at once; a `HostEnv`.

    Random numbers are drawn from the key for every world, whether it restarts or not, so a start
    depends only on the key and the index of the world.
    """

    def __init__(self, task: Task, num_envs: int, threads: int = 0) -> None:
        _check(task, num_envs, threads)
        self.task = task
        self.spec = task.spec
        self.num_envs = num_envs
        self.physics = Physics(task.model, num_envs, threads)
        self._elapsed = np.zeros(num_envs, np.int64)
        self._seen = np.zeros((num_envs, task.spec.observation.size), np.float32)

    def reset(self, key: PRNGKeyArray | np.ndarray) -> np.ndarray:
        """Start every episode afresh; the first observations."""
        self._begin(np.arange(self.num_envs), key)
        self._seen = self._observe()
        return self._seen

    def step(self, action: np.ndarray, key: PRNGKeyArray | np.ndarray | None) -> HostStep:
        """One decision in every world; ended episodes start again, unless `key` is None."""
        before = self.physics.time.copy()
        result = self.task.act(self.physics, np.clip(np.asarray(action, np.float64), -1.0, 1.0))
        self._elapsed += 1
        # MuJoCo resets a world that has blown up to its default state and time 0, and goes on
        sound = self.physics.time > before + 0.5 * self.task.step_time
        next_obs = np.where(sound[:, None], self._observe(), self._seen)
        terminated = result.terminated & sound
        late = self._elapsed >= self.spec.episode_length
        truncated = (late & ~terminated) | ~sound
        self._seen = self._after(terminated | truncated, next_obs, key)
        numbers = {"reward": result.reward} | result.terms
        numbers = {name: np.where(sound, x, 0.0).astype(np.float32) for name, x in numbers.items()}
        return HostStep(
            next_obs=next_obs,
            obs=self._seen,
            reward=numbers.pop("reward"),
            terminated=terminated,
            truncated=truncated,
            success=result.success & sound,
            terms=numbers,
            valid=sound,
        )

    def bin_of(self, obs: np.ndarray) -> np.ndarray:
        """The flat coverage bins of observations; -1 where they count nowhere."""
        return self.task.bin_of(np.asarray(obs, np.float64)).astype(np.int32)

    def save(self) -> dict[str, np.ndarray]:
        """Everything that changes."""
        return {"state": self.physics.state.copy(), "elapsed": self._elapsed.copy()}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Go on, bit for bit, from what `save` gave."""
        self.physics.state[:] = saved["state"]
        self._elapsed[:] = saved["elapsed"]
        self._seen = self._observe()

    def close(self) -> None:
        """Nothing to release."""

    def _observe(self) -> np.ndarray:
        return self.task.observe(self.physics).astype(np.float32)

    def _after(self, ended: np.ndarray, next_obs: np.ndarray, key: Any) -> np.ndarray:
        """Observations for the next decisions, after a reset of ended episodes."""
        if key is None or not ended.any():
            return next_obs
        self._begin(np.flatnonzero(ended), key)
        return np.where(ended[:, None], self._observe(), next_obs)

    def _begin(self, rows: np.ndarray, key: Any) -> None:
        self.physics.restart(rows)
        self.task.start(self.physics, rows, generator(key))
        # not 0, so that a world that MuJoCo resets to 0 is noticed in the first step, too
        self.physics.time[rows] = self.task.step_time
        self._elapsed[rows] = 0


def native(task: Callable[[Any], Task]) -> Callable[[Any, int], MujocoEnv]:
    """A function that builds a batch of a task from its settings and its size."""
    return lambda settings, num_envs: MujocoEnv(task(settings), num_envs)


def _check(task: Task, num_envs: int, threads: int) -> None:
    if num_envs < 1 or threads < 0:
        expected = "at least 1 environment, and threads from 0 (all cores)"
        raise UserError(expected, f"{num_envs} and {threads}", "change them")
    if task.spec.episode_length < 1 or not task.step_time > 0:
        got = f"{task.spec.episode_length} steps of {task.step_time:g} s"
        raise UserError("an episode_length and an action_repeat of at least 1", got, "raise them")


def generator(key: PRNGKeyArray | np.ndarray) -> np.random.Generator:
    """A generator seeded by a JAX key, or by unsigned integers."""
    words = key if isinstance(key, np.ndarray) else np.asarray(jax.random.key_data(key))
    return np.random.default_rng(words.ravel())
