"""Settings of a run changed by name, as typed: `size=20`."""

from collections.abc import Mapping

from devote.core.settings import flat, require_known, with_texts
from devote.run import Run

SHARED = ("env_name", "agent_name", "preset", "seed", "seeds")
"""What a study decides itself."""


def settable(run: Run) -> list[str]:
    """Names of all settings of a run that can be changed."""
    return [name for name in flat(run) if name not in SHARED]


def changed(run: Run, changes: Mapping[str, str]) -> Run:
    """A run with named settings at other values; an unknown name is refused."""
    require_known(changes, settable(run))
    return with_texts(run, changes)
