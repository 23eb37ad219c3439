"""A batch of MuJoCo worlds, stepped by one native call in a pool of threads.

MuJoCo is imported when the first model is loaded, so that settings can be read without it.
"""

import logging
from importlib.resources import files
from types import ModuleType
from typing import Any

import numpy as np

from devote.core.errors import UserError
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
