"""Deep epistemic value functions for optimistic exploration."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devote.api import Devote, Sac
    from devote.envs.check import check_env

__all__ = ["Devote", "Sac", "check_env"]
_HOMES = {"Devote": "devote.api", "Sac": "devote.api", "check_env": "devote.envs.check"}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for, so that `import devote` stays light."""
    if name not in _HOMES:
        raise AttributeError(f"module 'devote' has no attribute {name!r}")
    from importlib import import_module

    return vars(import_module(_HOMES[name]))[name]
