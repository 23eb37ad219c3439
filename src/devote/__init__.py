"""Deep epistemic value functions for optimistic exploration."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devote.api import Devote, Rnd, Sac, Sombrl, Thompson
    from devote.envs.check import check_env

__all__ = ["Devote", "Rnd", "Sac", "Sombrl", "Thompson", "check_env"]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for, so that `import devote` stays light."""
    if name not in __all__:
        raise AttributeError(f"module 'devote' has no attribute {name!r}")
    from importlib import import_module

    home = "devote.envs.check" if name == "check_env" else "devote.api"
    return vars(import_module(home))[name]
