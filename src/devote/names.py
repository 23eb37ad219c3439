"""Names of tasks, agents and presets, without importing them: a typo is reported at once."""

import os
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches

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
    "devote-plus",
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
    "true-counts",
    "evaluator",
)
PRESETS = ("paper", "authors", "desk", "smoke")


def task_of(name: str) -> str:
    """The task that a word names: one of ours, or `gymnasium` for an id or `module:name`."""
    ours = get_close_matches(name, TASKS) and not (":" in name or re.search(r"-v\d+$", name))
    if name in TASKS or ours:
        return choice("the environment", name, TASKS)
    import_typed(name)
    return "gymnasium"


def import_typed(name: str) -> None:
    """Import the module of a `module:name` that the user typed, also from the current folder."""
    from devote.envs.naming import import_factory

    sys.path.insert(0, os.getcwd())
    import_factory(name)


def choice(what: str, name: str, known: Sequence[str]) -> str:
    """The name, if it is known."""
    if name not in known:
        raise not_among(what, name, known)
    return name
