"""Results on disk: one small JSON file and one file of arrays per dataset and model."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from devote.core.arrays import write_npz
from devote.core.durable import atomic_write
from devote.core.errors import UserError


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], compressed: bool = True) -> None:
    """Named arrays, as a plain .npz file."""
    buffer = io.BytesIO()
    write_npz(buffer, arrays, compressed)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, buffer.getvalue())


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """What `write_arrays` wrote."""
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def write_json(path: Path, content: Any) -> None:
    """Indented JSON; NaN becomes null."""
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, (json.dumps(_plain(content), indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """What `write_json` wrote."""
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        fix = "delete it: the cell is computed again"
        raise UserError(f"JSON in {path}", f"a damaged file ({error})", fix) from error


def changed_settings(
    saved: Mapping[str, Any], now: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Saved settings with another value now; one that was not saved must be at its default."""
    saved, now, defaults = _plain(saved), _plain(now), _plain(defaults)
    changed = {n: value for n, value in saved.items() if n not in now or now[n] != value}
    new = {n: None for n in now if n not in saved and now[n] != defaults[n]}
    return changed | new


def _plain(content: Any) -> Any:
    """Tuples as lists, numbers as Python's, NaN as null: what reading JSON gives back."""
    if isinstance(content, Mapping):
        return {str(key): _plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    if isinstance(content, float | np.floating):
        return float(content) if np.isfinite(content) else None
    return content
