"""`--help` says what every setting is."""

import ast
import inspect
from dataclasses import fields, is_dataclass
from itertools import pairwise
from typing import Any

from devote.agents.sac import SacSettings
from devote.agents.world_model import WorldModelSettings
from devote.build import AGENTS, TASKS
from devote.cli import CheckEnv, Demo
from devote.doctor import Doctor
from devote.experiments.commands import Compare, Listing, Make, Tune
from devote.live.server import Watch
from devote.loops.schedule import LoopSettings
from devote.presets import smoke
from devote.render import Render


def texts_of(kind: type) -> dict[str, str]:
    """The text after every field of settings, which is what `--help` shows; "" where none is."""
    bases = [base for base in kind.__bases__ if is_dataclass(base)]
    texts = {name: text for base in bases for name, text in texts_of(base).items()}
    (made,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(made, ast.ClassDef)
    for line, after in pairwise([*made.body, ast.Pass()]):
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            told = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            texts[line.target.id] = after.value.value if told else ""
    return texts


def kinds_of(settings: Any) -> set[type]:
    """The class of settings, and of all settings within them."""
    inner = [getattr(settings, entry.name) for entry in fields(settings)]
    return {type(settings)}.union(*(kinds_of(one) for one in inner if is_dataclass(one)))


def test_every_setting_of_every_task_and_agent_has_a_text() -> None:
    runs = [smoke(env, "devote") for env in TASKS] + [smoke("spiral", agent) for agent in AGENTS]
    kinds = {
        kind for run in runs for part in (run.env, run.agent, run.loop) for kind in kinds_of(part)
    }
    assert {SacSettings, WorldModelSettings, LoopSettings} < kinds
    for kind in {*kinds, CheckEnv, Compare, Demo, Listing, Make, Render, Tune, Watch, Doctor}:
        texts = texts_of(kind)
        for entry in fields(kind):
            nested = isinstance(entry.default_factory, type) and is_dataclass(entry.default_factory)
            assert nested or len(texts[entry.name].split()) > 1, f"{kind.__name__}.{entry.name}"
