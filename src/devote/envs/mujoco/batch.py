"""Many MuJoCo worlds of one task, stepped by one native call in a pool of threads; a `HostEnv`.

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

from devote.core.errors import UserError
from devote.core.types import EnvSpec, HostStep
from devote.core.worker import aside


def engine() -> ModuleType:
    """MuJoCo with its batched stepping."""
    try:
        import mujoco
        import mujoco.batch
    except ImportError as error:
        raise UserError(
            "MuJoCo 3.17 or a later 3.x, which steps batches in threads",
            error,
            "install devote[mujoco]",
        ) from error
    if mujoco.get_mju_user_warning() is None:  # MuJoCo's own habit is a file where we stand
        mujoco.set_mju_user_warning(logging.getLogger("devote.mujoco").warning)
    return mujoco


def asset(name: str) -> str:
    """The text of a model that comes with the package."""
    return (files("devote.envs") / "assets" / name).read_text()


def load(text: str) -> Any:
    """A compiled model."""
    return engine().MjModel.from_xml_string(text)


class Physics:
    """Worlds of one model; `qpos`, `qvel`, `ctrl` and `time` are live, one row per world.

    A row of `state` is all there is to a world, the solver's warm start included.
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
        """A derived quantity, live; after `advance` it is that of the last step's start."""
        return self._batch.bind(name)

    def advance(self, steps: int, rows: np.ndarray | None = None) -> None:
        """Step worlds by `steps` time steps under their present controls."""
        self._batch.step(rows, nstep=steps)

    def trace(self, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Step every world; positions and velocities after each step, `(worlds, steps, ...)`."""
        found = self._batch.rollout(steps, record=("qpos", "qvel"))
        return found["qpos"], found["qvel"]

    def restart(self, rows: np.ndarray) -> None:
        """Put worlds into the model's default state."""
        self._batch.reset(rows, stage=engine().mjtStage.mjSTAGE_NONE)


class Judgement(NamedTuple):
    """What a task says of a step of all its worlds."""

    reward: np.ndarray
    terminated: np.ndarray
    success: np.ndarray
    terms: dict[str, np.ndarray]


class Task(Protocol):
    """What makes a batch of worlds a task; it keeps nothing that changes."""

    @property
    def spec(self) -> EnvSpec: ...

    @property
    def model(self) -> Any:
        """The compiled MuJoCo model."""
        ...

    @property
    def step_time(self) -> float:
        """Simulated seconds per decision."""
        ...

    def start(self, physics: Physics, rows: np.ndarray, rng: np.random.Generator) -> None:
        """Begin episodes in `rows`, which are in the model's default state."""
        ...

    def act(self, physics: Physics, action: np.ndarray) -> Judgement:
        """Carry out one decision in every world, and judge it."""
        ...

    def observe(self, physics: Physics) -> np.ndarray:
        """What an agent sees of every world."""
        ...

    def bin_of(self, obs: np.ndarray) -> np.ndarray:
        """The flat coverage bins of observations; -1 where they count nowhere."""
        ...


class MujocoEnv:
    """A task in many worlds at once; a `HostEnv`.

    Chance is drawn from the key alone, for every world whether it restarts or not, so a restart
    depends on the key and the world's number and on nothing else.
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
        """One decision in every world; ended episodes start again at once, or without key stay."""
        before = self.physics.time.copy()
        judged = self.task.act(self.physics, np.clip(np.asarray(action, np.float64), -1.0, 1.0))
        self._elapsed += 1
        next_obs = self._observe()
        # MuJoCo puts a world that has blown up back to its default state and time 0, and goes on.
        sound = self.physics.time > before + 0.5 * self.task.step_time
        if not sound.all():
            judged = _forget(judged, sound)
            next_obs = np.where(sound[:, None], next_obs, self._seen)
        late = self._elapsed >= self.spec.episode_length
        truncated = (late & ~judged.terminated) | ~sound
        self._seen = self._after(judged.terminated | truncated, next_obs, key)
        return HostStep(
            next_obs=next_obs,
            obs=self._seen,
            reward=judged.reward.astype(np.float32),
            terminated=judged.terminated,
            truncated=truncated,
            success=judged.success,
            terms={name: term.astype(np.float32) for name, term in judged.terms.items()},
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
        """Nothing is held that the garbage collector does not free."""

    def _observe(self) -> np.ndarray:
        return self.task.observe(self.physics).astype(np.float32)

    def _after(self, ended: np.ndarray, next_obs: np.ndarray, key: Any) -> np.ndarray:
        """Where the next decisions are made: starts of new episodes in the place of ends."""
        if key is None or not ended.any():
            return next_obs
        self._begin(np.flatnonzero(ended), key)
        return np.where(ended[:, None], self._observe(), next_obs)

    def _begin(self, rows: np.ndarray, key: Any) -> None:
        self.physics.restart(rows)
        self.task.start(self.physics, rows, generator(key))
        # one decision after 0, so that a world that MuJoCo puts back to 0 shows in any episode
        self.physics.time[rows] = self.task.step_time
        self._elapsed[rows] = 0


def native(task: Callable[[Any], Task]) -> Callable[[Any, int], MujocoEnv]:
    """How a batch of a task is built from its settings and its size."""
    return lambda settings, num_envs: MujocoEnv(task(settings), num_envs)


def _check(task: Task, num_envs: int, threads: int) -> None:
    if num_envs < 1 or threads < 0:
        raise UserError(
            "at least 1 environment, and threads from 0 (all cores)",
            f"{num_envs} and {threads}",
            "change them",
        )
    if task.spec.episode_length < 1 or not task.step_time > 0:
        raise UserError(
            "an episode_length and an action_repeat of at least 1",
            f"{task.spec.episode_length} steps of {task.step_time:g} s",
            "raise them",
        )


def _forget(judged: Judgement, sound: np.ndarray) -> Judgement:
    """Nothing is said of worlds that have blown up."""
    return Judgement(
        reward=np.where(sound, judged.reward, 0.0),
        terminated=judged.terminated & sound,
        success=judged.success & sound,
        terms={name: np.where(sound, term, 0.0) for name, term in judged.terms.items()},
    )


def generator(key: PRNGKeyArray | np.ndarray) -> np.random.Generator:
    """Chance as a function of a JAX key, or of unsigned integers."""
    words = key if isinstance(key, np.ndarray) else np.asarray(jax.random.key_data(key))
    return np.random.default_rng(words.ravel())
