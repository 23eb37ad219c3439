"""Named settings. Every run carries the name of its preset; none is ever guessed.

- `paper`: the paper's tables, literally; where the paper is silent, the authors' newest code.
- `authors`: the authors' newest code as it really runs, quirks included.
- `desk`: tuned for two CPU cores: small enough to run a task in minutes.
- `smoke`: seconds, for tests.

Each holds one recipe per task; agents derive their settings from the recipe's. What an agent has of
its own in a preset, everywhere or in one task, is in the table `OWN`.
"""

from collections.abc import Callable
from types import ModuleType

from devote.presets import authors as _authors
from devote.presets import desk as _desk
from devote.presets import paper as _paper
from devote.presets import smoke as _smoke
from devote.run import Run

Preset = Callable[[str, str], Run]
"""From a task and an agent to the run."""


def _named(name: str, tables: ModuleType) -> Preset:
    return lambda env, agent: tables.RECIPES[env].run(env, agent, name, tables.OWN)


paper, authors = _named("paper", _paper), _named("authors", _authors)
desk, smoke = _named("desk", _desk), _named("smoke", _smoke)
PRESETS = {"paper": paper, "authors": authors, "desk": desk, "smoke": smoke}
