"""Deep epistemic value functions for optimistic exploration."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devote.api import Devote, DevotePlus, Rnd, Sac, Sombrl, Thompson, agent_class, make_agent
    from devote.envs.check import check_env

    __version__: str

__all__ = [
    "Devote",
    "DevotePlus",
    "Rnd",
    "Sac",
    "Sombrl",
    "Thompson",
    "__version__",
    "agent_class",
    "check_env",
    "make_agent",
]


def __getattr__(name: str) -> Any:
    """Import names on first use, so that `import devote` stays light."""
    if name not in __all__:
        raise AttributeError(f"module 'devote' has no attribute {name!r}")
    from importlib import import_module, metadata

    if name == "__version__":
        return metadata.version("devote")
    home = "devote.envs.check" if name == "check_env" else "devote.api"
    return vars(import_module(home))[name]
