"""Names as they are typed, known without importing what they stand for: a typo is told at once."""

import os
import re
import sys
from collections.abc import Sequence

from devote.core.errors import not_among

TASKS = (
    "spiral",
    "u_maze",
    "deep_sea",
    "brax",
    "playground",
    "gymnasium",
    "cheetah",
    "cartpole_swingup",
    "cartpole_swingup_sparse",
    "ant_maze",
    "pick_and_place",
)
AGENTS = (
    "devote",
    "sac",
    "rnd",
    "rnd-classic",
    "thompson",
    "sombrl",
    "devote-no-rfn",
    "devote-no-resets",
    "devote-no-tud-opt",
    "devote-no-tud-opt-ucb",
    "devote-no-tud",
    "devote-no-tud-ucb",
)
PRESETS = ("paper", "authors", "desk", "smoke")


def task_of(name: str) -> str:
    """The task that a word names: one of ours, or `gymnasium` for an id of Gymnasium's."""
    if name in TASKS or not (":" in name or re.search(r"-v\d+$", name)):
        return choice("the environment", name, TASKS)
    import_typed(name)
    return "gymnasium"


def import_typed(name: str) -> None:
    """Import the module of `module:name`, which a person has typed, also from where they are."""
    from devote.envs.naming import import_factory

    sys.path.insert(0, os.getcwd())
    import_factory(name)


def choice(what: str, name: str, known: Sequence[str]) -> str:
    """The name, if it is one of those known."""
    if name not in known:
        raise not_among(what, name, known)
    return name
