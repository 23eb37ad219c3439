"""Off-screen images of worlds: with EGL where it works, else OSMesa."""

import os
import subprocess
import sys
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from devote.core.errors import UserError
from devote.envs.mujoco.batch import engine

VIEW = "view"  # a camera that every model of ours has
BACKENDS = ("egl", "osmesa")
PROBE = "from mujoco.{} import GLContext; GLContext(8, 8).make_current()"


class Painter:
    """Draws states of one model; holds an OpenGL context until `close`."""

    def __init__(self, model: Any, height: int = 480, width: int = 640, view: str = VIEW) -> None:
        mujoco = engine()
        self._model, self._data = model, mujoco.MjData(model)
        self._gl = import_module(f"mujoco.{backend()}").GLContext(width, height)
        self._gl.make_current()
        model.vis.global_.offheight = max(height, model.vis.global_.offheight)
        model.vis.global_.offwidth = max(width, model.vis.global_.offwidth)
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._context)
        self._scene = mujoco.MjvScene(model, maxgeom=1000)
        self._options, self._camera = mujoco.MjvOption(), mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._camera.fixedcamid = model.camera(view).id
        self._area = mujoco.MjrRect(0, 0, width, height)

    def frame(self, qpos: np.ndarray) -> np.ndarray:
        """An image of one world, `(height, width, 3)` bytes."""
        mujoco = engine()
        self._data.qpos[:] = qpos
        mujoco.mj_forward(self._model, self._data)
        everything = mujoco.mjtCatBit.mjCAT_ALL.value
        self._gl.make_current()
        what = (self._model, self._data, self._options, None, self._camera, everything)
        mujoco.mjv_updateScene(*what, self._scene)
        mujoco.mjr_render(self._area, self._scene, self._context)
        picture = np.empty((self._area.height, self._area.width, 3), np.uint8)
        mujoco.mjr_readPixels(picture, None, self._area, self._context)
        return picture[::-1].copy()  # OpenGL counts rows from the bottom

    def close(self) -> None:
        """Free the OpenGL context."""
        self._context.free()
        self._gl.free()


def frames(
    model: Any, qpos: np.ndarray, height: int = 480, width: int = 640, view: str = VIEW
) -> np.ndarray:
    """Images of states `(count, positions)`."""
    painter = Painter(model, height, width, view)
    try:
        return np.stack([painter.frame(row) for row in qpos])
    finally:
        painter.close()


@cache
def backend() -> str:
    """EGL or OSMesa, whichever works here; MUJOCO_GL decides where it is set."""
    asked = os.environ.get("MUJOCO_GL", "").lower()
    for name in [asked] if asked in BACKENDS else BACKENDS:
        # a failed attempt leaves OpenGL unusable, so another process tries
        if not subprocess.run(
            [sys.executable, "-c", PROBE.format(name)], capture_output=True
        ).returncode:
            return name
    fix = "install a driver (Debian: libegl1 and libgl1-mesa-dri, or libosmesa6)"
    raise UserError("OpenGL without a display, through EGL or OSMesa", "neither", fix)
