"""Environments by name: Gymnasium ids, `dmc:` tasks, and `module:name` that a person has typed."""

import importlib
import json
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from devote.core.errors import UserError
from devote.envs import dmc

Factory = Callable[[], gymnasium.Env]

KNOWN = {"devote/": "devote.envs.mujoco.gym", "MiniGrid-": "minigrid", "BabyAI-": "minigrid"}
"""What registers the ids with these prefixes; an id never imports anything else."""
_TYPED: dict[str, Factory] = {}
"""Environments whose names were typed in this process; names in files are never imported."""


@dataclass(frozen=True)
class Registered:
    """Makes an environment of Gymnasium's registry."""

    id: str
    render_mode: str | None = None
    module: str | None = None
    """The typed module that registers it; imported in worker processes too."""
    options: tuple[tuple[str, Any], ...] = ()
    """Keyword arguments of the environment."""

    @property
    def time_limit(self) -> int | None:
        """Steps of an episode, as registered."""
        return gymnasium.spec(self.id).max_episode_steps

    def __call__(self) -> gymnasium.Env:
        """A fresh environment, without Gymnasium's checker and time limit: we have our own."""
        if self.module is not None:
            importlib.import_module(self.module)
        _register(self.id)
        # an environment that is not rendered need not take a render_mode
        mode = {} if self.render_mode is None else {"render_mode": self.render_mode}
        options = mode | dict(self.options)
        try:
            return _without_text(
                gymnasium.make(self.id, max_episode_steps=-1, disable_env_checker=True, **options)
            )
        except TypeError as error:
            if any(f"'{name}'" in str(error) for name, _ in self.options):
                fix = "correct the names in --env-options"
                raise UserError(f"options that {self.id} takes", error, fix) from error
            if not mode or "render_mode" not in str(error):
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
    importable = all(map(str.isidentifier, module_name.split("."))) and module_name[-3:] != ".py"
    if not attribute or not importable:
        fix = "name the module as Python imports it, without .py or slashes: my_package:MyEnv"
        raise UserError("module:name", repr(name), fix)
    try:
        found = vars(importlib.import_module(module_name))
    except ModuleNotFoundError as error:
        fix = "install it, or run in the folder that holds it"
        raise UserError(f"a module {module_name}", error, fix) from error
    except Exception as error:
        got = f"{type(error).__name__}: {error}"
        fix = f"fix what raised it:\n{traceback.format_exc()}"
        raise UserError(f"to import {module_name}", got, fix) from error
    if callable(found.get(attribute)):
        _TYPED[name] = found[attribute]
    elif attribute in found:
        fix = "name the class of the environment, or a function without arguments that makes one"
        raise UserError(f"a class or function at {name}", type(found[attribute]).__name__, fix)
    elif attribute in gymnasium.registry:
        _TYPED[name] = Registered(attribute, module=module_name)
    else:
        fix = f"define {attribute} in {module_name}, or register it with Gymnasium there"
        raise UserError(f"{attribute} in {module_name}", "no such name", fix)
    return _TYPED[name]


def factory_of(name: str) -> Factory:
    """A factory for the named environment; nothing is imported by its name."""
    if name in _TYPED:
        return _TYPED[name]
    if name.startswith(dmc.PREFIX):
        dmc.read_name(name)
        return partial(dmc.DmcEnv, name)
    if names_code(name):
        fix = "name it yourself: code is never imported because a file asks for it"
        raise UserError("an environment that was named in this process", repr(name), fix)
    _register(name)
    try:
        gymnasium.spec(name)
    except gymnasium.error.Error as error:
        close = get_close_matches(name, gymnasium.registry, n=1)
        advice = "or name a task of devote, such as spiral, or module:MyEnv of your own"
        advice = f"did you mean {close[0]}?" if close else advice
        raise UserError("a registered Gymnasium id", f"{name!r} ({error})", advice) from error
    return Registered(name)


def with_options(make: Factory, options: Sequence[str]) -> Factory:
    """The same with options `name=value`; values are numbers, true, false, null or plain words."""
    table: dict[str, Any] = {}
    for text in options:
        name, equals, value = text.partition("=")
        if not (equals and name.isidentifier()):
            raise UserError("env_options like is_slippery=false", text, "write name=value")
        try:
            table[name] = json.loads(value)
        except ValueError:
            table[name] = value
    if isinstance(make, Registered):
        return replace(make, options=(*make.options, *table.items()))
    return partial(make, **table) if table else make


def _without_text(env: gymnasium.Env) -> gymnasium.Env:
    """A MiniGrid task without its mission text, and with the true bounds of what its cells hold.

    Its own bounds are those of pictures, 0 to 255, in which kinds of objects would look alike.
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
    limited = gymnasium.wrappers.TimeLimit(env, env.unwrapped.max_steps)  # declares its own limit
    return gymnasium.wrappers.TransformObservation(
        limited, lambda obs: {key: obs[key] for key in space}, space
    )


def _register(name: str) -> None:
    """Register an id of ours, or of a library in `KNOWN`, with Gymnasium."""
    module = next((KNOWN[prefix] for prefix in KNOWN if name.startswith(prefix)), None)
    if module is not None:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            fix = f"install {module.split('.')[0]}"
            raise UserError(f"the package that has {name}", error, fix) from error
