"""Environments by name: Gymnasium ids, `dmc:` tasks, and `module:name` that a person has typed."""

import importlib
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import ModuleType

import gymnasium
import numpy as np
from gymnasium import spaces

from devote.core.errors import UserError
from devote.envs import dmc

Factory = Callable[[], gymnasium.Env]

KNOWN = {"devote/": "devote.envs.mujoco.gym", "MiniGrid-": "minigrid", "BabyAI-": "minigrid"}
"""Where ids that begin so are registered; nothing but these is imported by an id."""
_TYPED: dict[str, Factory] = {}
"""What this process was told to import; nothing is ever imported because a file names it."""


@dataclass(frozen=True)
class Registered:
    """Makes an environment of Gymnasium's registry."""

    id: str
    render_mode: str | None = None
    module: str | None = None
    """What registers it, if a person has typed that; imported in worker processes too."""

    @property
    def time_limit(self) -> int | None:
        """Steps of an episode, as registered."""
        return gymnasium.spec(self.id).max_episode_steps

    def __call__(self) -> gymnasium.Env:
        """A fresh environment; checking it and limiting its time is left to us."""
        if self.module is not None:
            importlib.import_module(self.module)
        _register(self.id)
        # an environment that draws nothing need not take a render_mode
        drawn = {} if self.render_mode is None else {"render_mode": self.render_mode}
        try:
            return _without_words(
                gymnasium.make(self.id, max_episode_steps=-1, disable_env_checker=True, **drawn)
            )
        except TypeError as error:
            if not drawn or "render_mode" not in str(error):
                raise
            fix = "let __init__ take it, or use --map"
            raise UserError(f"{self.id} to take a render_mode", error, fix) from error
        except gymnasium.error.DependencyNotInstalled as error:
            raise UserError(f"the packages that {self.id} needs", error, "install them") from error


def names_code(name: str) -> bool:
    """Whether a name is `module:name`, which is imported only where a person types it."""
    return ":" in name and not name.startswith(dmc.PREFIX)


def import_factory(name: str) -> Factory:
    """Import what a person typed: `module:Class`, `module:factory` or `module:Gymnasium-id-v0`."""
    if not names_code(name):
        return factory_of(name)
    module_name, _, attribute = name.partition(":")
    if not attribute or not _is_module_name(module_name):
        fix = "name the module as Python imports it, without .py or slashes: my_package:MyEnv"
        raise UserError("module:name", repr(name), fix)
    module = _imported(module_name)
    if attribute in vars(module):
        _TYPED[name] = _require_callable(vars(module)[attribute], name)
    elif attribute in gymnasium.registry:
        _TYPED[name] = Registered(attribute, module=module_name)
    else:
        fix = f"define {attribute} in {module_name}, or register it with Gymnasium there"
        raise UserError(f"{attribute} in {module_name}", "no such name", fix)
    return _TYPED[name]


def _is_module_name(name: str) -> bool:
    return all(map(str.isidentifier, name.split("."))) and not name.endswith(".py")


def _imported(name: str) -> ModuleType:
    """The module that a person named, or what its own code says against it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        fix = "install it, or run where Python finds it"
        raise UserError(f"a module {name}", error, fix) from error
    except Exception as error:
        fix = f"correct what raised it:\n{traceback.format_exc()}"
        raise UserError(f"to import {name}", f"{type(error).__name__}: {error}", fix) from error


def factory_of(name: str) -> Factory:
    """How the named environment is made, without importing anything by its name."""
    if name in _TYPED:
        return _TYPED[name]
    if name.startswith(dmc.PREFIX):
        dmc.read_name(name)
        return partial(dmc.DmcEnv, name)
    if names_code(name):
        fix = "name it yourself: code is never imported because a file asks for it"
        raise UserError("an environment that this process knows", repr(name), fix)
    _register(name)
    try:
        gymnasium.spec(name)
    except gymnasium.error.Error as error:
        fix = "use a Gymnasium id, or module:name for an environment of your own"
        raise UserError("a registered Gymnasium id", f"{name!r} ({error})", fix) from error
    return Registered(name)


def _without_words(env: gymnasium.Env) -> gymnasium.Env:
    """A task of MiniGrid with what its cells hold, within bounds that fit, and no mission text.

    Its own bounds are those of pictures, 0 to 255, in which kinds of things would look alike.
    """
    if "minigrid" not in sys.modules:
        return env
    from minigrid.core import constants
    from minigrid.minigrid_env import MiniGridEnv

    if not isinstance(env.unwrapped, MiniGridEnv):
        return env
    ids = (constants.OBJECT_TO_IDX, constants.COLOR_TO_IDX, constants.STATE_TO_IDX)
    shape = env.observation_space["image"].shape  # type: ignore[index]
    high = np.broadcast_to(np.array([max(names.values()) for names in ids], np.uint8), shape)
    image = spaces.Box(np.zeros_like(high), high, dtype=np.uint8)
    space = spaces.Dict({"image": image, "direction": spaces.Discrete(4)})
    limited = gymnasium.wrappers.TimeLimit(env, env.unwrapped.max_steps)  # its own, made known
    return gymnasium.wrappers.TransformObservation(
        limited, lambda obs: {key: obs[key] for key in space}, space
    )


def _register(name: str) -> None:
    """Make an id of our own, or of a library that we know, known to Gymnasium."""
    for beginning, module in KNOWN.items():
        if name.startswith(beginning):
            try:
                importlib.import_module(module)
            except ModuleNotFoundError as error:
                fix = f"install {module.split('.')[0]}"
                raise UserError(f"the package that has {name}", error, fix) from error


def _require_callable(found: object, name: str) -> Factory:
    if not callable(found):
        fix = "name the class of the environment, or a function without arguments that makes one"
        raise UserError(f"a class or function at {name}", type(found).__name__, fix)
    return found
