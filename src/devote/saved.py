"""What a run directory holds: its settings, and the newest state that verifies."""

import json
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

from devote.core.errors import UserError
from devote.loops import checkpoint
from devote.loops.fused import RunState
from devote.loops.program import Program
from devote.loops.run_dir import SETTINGS
from devote.loops.store import CHECKPOINTS
from devote.presets import PRESETS
from devote.run import Run
from devote.values import fit


def saved_run(directory: Path) -> Run:
    """The run that a directory's settings describe."""
    path = directory / SETTINGS
    if not path.is_file():
        raise UserError(f"a run in {directory}", f"no {SETTINGS} there", "name a run directory")
    return run_of(json.loads(path.read_text()))


def run_of(saved: dict[str, Any]) -> Run:
    """The run that saved settings describe; one newer than them is at its class's default."""
    return _restored(PRESETS[saved["preset"]](saved["env_name"], saved["agent_name"]), saved)


def saved_state(directory: Path, program: Program) -> RunState:
    """The newest state of a run that verifies."""
    found = checkpoint.restore(directory / CHECKPOINTS, program.shape())
    if found is None:
        fix = "train it first, or restore its checkpoints"
        raise UserError(f"a checkpoint in {directory}", "none that verifies", fix)
    return found[1]


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
