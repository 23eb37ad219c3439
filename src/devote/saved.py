"""What a run directory holds: its settings, and the newest state that verifies."""

from dataclasses import MISSING, Field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

import jax

from devote.core.errors import UserError
from devote.core.types import Agent
from devote.loops import checkpoint
from devote.loops.loop import seed_keys
from devote.loops.run_dir import CHECKPOINTS, SETTINGS, read_settings
from devote.presets import PRESETS
from devote.registry import AGENTS, TASKS
from devote.run import Run
from devote.values import fit


def saved_run(directory: Path) -> Run:
    """The run that a directory's settings describe."""
    return run_of(_settings(directory))


def saved_task(directory: Path) -> str | None:
    """What the task of a run calls itself, where no name of ours or Gymnasium's tells."""
    return fit(str | None, "task", _settings(directory).get("task"))


def run_of(saved: dict[str, Any]) -> Run:
    """The run that saved settings describe; one newer than them is at its class's default."""
    return _restored(PRESETS[saved["preset"]](saved["env_name"], saved["agent_name"]), saved)


def saved_agent(directory: Path, agent: Agent, seeds: int = 1) -> tuple[int, Any] | None:
    """Step and agent of the newest checkpoint that verifies; None where none was ever saved."""
    keys = seed_keys(tuple(range(seeds)))
    shape = (
        jax.eval_shape(agent.init, keys[0])
        if seeds == 1
        else jax.eval_shape(jax.vmap(agent.init), keys)
    )
    found = checkpoint.restore(directory / CHECKPOINTS, shape, root=".agent")
    return None if found is None else found[:2]


def _settings(directory: Path) -> dict[str, Any]:
    path = directory / SETTINGS
    if not path.is_file():
        raise UserError(f"a run in {directory}", f"no {SETTINGS} there", "name a run directory")
    saved = read_settings(path)
    for name, known in (("preset", PRESETS), ("env_name", TASKS), ("agent_name", AGENTS)):
        if saved.get(name) not in known:
            fix = "use the version of devote that wrote it"
            raise UserError(f"a known {name} in {path}", repr(saved.get(name)), fix)
    return saved


def _restored(settings: Any, saved: dict[str, Any]) -> Any:
    hints, values = get_type_hints(type(settings)), {}
    for entry in fields(settings):
        value = getattr(settings, entry.name)
        if entry.name not in saved:
            values[entry.name] = _default(entry, value)
            continue
        found = saved[entry.name]
        nested = is_dataclass(value)
        values[entry.name] = (
            _restored(value, found) if nested else fit(hints[entry.name], entry.name, found)
        )
    return replace(settings, **values)


def _default(entry: Field[Any], value: Any) -> Any:
    """What was done before there was such a setting."""
    if entry.default is not MISSING:
        return entry.default
    if entry.default_factory is not MISSING:
        return entry.default_factory()
    if is_dataclass(value):
        return _restored(value, {})
    fix = "use the version of devote that wrote them"
    raise UserError(f"{entry.name} in the saved settings", "nothing", fix)
