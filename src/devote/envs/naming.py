"""Environments by name: Gymnasium ids, and `module:name` that a person has typed."""

import importlib
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import gymnasium

from devote.core.errors import UserError

Factory = Callable[[], gymnasium.Env]

OWN = "devote/"
_TYPED: dict[str, Factory] = {}
"""What this process was told to import; nothing is ever imported because a file names it."""


@dataclass(frozen=True)
class Registered:
    """Makes an environment of Gymnasium's registry."""

    id: str
    render_mode: str | None = None

    @property
    def time_limit(self) -> int | None:
        """Steps of an episode, as registered."""
        return gymnasium.spec(self.id).max_episode_steps

    def __call__(self) -> gymnasium.Env:
        """A fresh environment; checking it and limiting its time is left to us."""
        # an environment that draws nothing need not take a render_mode
        drawn = {} if self.render_mode is None else {"render_mode": self.render_mode}
        try:
            return gymnasium.make(self.id, max_episode_steps=-1, disable_env_checker=True, **drawn)
        except TypeError as error:
            if not drawn or "render_mode" not in str(error):
                raise
            fix = "let __init__ take it, or use --map"
            raise UserError(f"{self.id} to take a render_mode", error, fix) from error
        except gymnasium.error.DependencyNotInstalled as error:
            raise UserError(f"the packages that {self.id} needs", error, "install them") from error


def import_factory(name: str) -> Factory:
    """Import what a person typed: `module:Class`, `module:factory` or `module:Gymnasium-id-v0`."""
    if ":" not in name:
        return factory_of(name)
    module_name, _, attribute = name.partition(":")
    if not attribute or not _is_module_name(module_name):
        fix = "name the module as Python imports it, without .py or slashes: my_package:MyEnv"
        raise UserError("module:name", repr(name), fix)
    module = _imported(module_name)
    if attribute in vars(module):
        _TYPED[name] = _require_callable(vars(module)[attribute], name)
    elif attribute in gymnasium.registry:
        _TYPED[name] = Registered(attribute)
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
    if ":" in name:
        fix = "name it yourself: code is never imported because a file asks for it"
        raise UserError("an environment that this process knows", repr(name), fix)
    if name.startswith(OWN):
        _register_own()
    try:
        gymnasium.spec(name)
    except gymnasium.error.Error as error:
        fix = "use a Gymnasium id, or module:name for an environment of your own"
        raise UserError("a registered Gymnasium id", f"{name!r} ({error})", fix) from error
    return Registered(name)


def _register_own() -> None:
    """Make the ids of our own MuJoCo tasks known."""
    try:
        from devote.envs.mujoco.gym import register_envs
    except ModuleNotFoundError as error:
        raise UserError("MuJoCo", error, "install devote[mujoco]") from error
    register_envs()


def _require_callable(found: object, name: str) -> Factory:
    if not callable(found):
        fix = "name the class of the environment, or a function without arguments that makes one"
        raise UserError(f"a class or function at {name}", type(found).__name__, fix)
    return found
