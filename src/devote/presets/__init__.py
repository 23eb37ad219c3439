"""Named settings. Every run carries the name of its preset; none is ever guessed.

- `paper`: the paper's tables, literally; where the paper is silent, the authors' newest code.
- `authors`: the authors' newest code as it really runs, quirks included.
- `desk`: tuned for two CPU cores: small enough to run a task in minutes.
- `smoke`: seconds, for tests.

Each holds one recipe per task; agents derive their settings from the recipe's. What an agent has of
its own in a preset, everywhere or in one task, is in the table `OWN`.
"""

from collections.abc import Callable

from devote.presets import authors as _authors
from devote.presets import desk as _desk
from devote.presets import paper as _paper
from devote.presets import smoke as _smoke
from devote.run import Run


def paper(env: str, agent: str) -> Run:
    """The paper's hyperparameters, length scales, reset intervals and budgets."""
    return _paper.RECIPES[env].run(env, agent, "paper", _paper.OWN)


def authors(env: str, agent: str) -> Run:
    """The authors' newest argument files as their launcher really executes them."""
    return _authors.RECIPES[env].run(env, agent, "authors", _authors.OWN)


def desk(env: str, agent: str) -> Run:
    """Small networks and large steps for two CPU cores; docs/settings.md says why."""
    return _desk.RECIPES[env].run(env, agent, "desk", _desk.OWN)


def smoke(env: str, agent: str) -> Run:
    """The desk recipe, so small that it runs in seconds."""
    return _smoke.shrunk(_desk.RECIPES[env]).run(env, agent, "smoke", _smoke.OWN)


PRESETS: dict[str, Callable[[str, str], Run]] = {
    "paper": paper,
    "authors": authors,
    "desk": desk,
    "smoke": smoke,
}
