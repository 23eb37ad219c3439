"""Results on disk: one small JSON file and one file of arrays per dataset and model."""

import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from devote.core.arrays import write_npz


def write(path: Path, content: bytes) -> None:
    """Replace a file in one step: a reader, or a crash, sees the old content or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], compressed: bool = True) -> None:
    """Named arrays, as a plain .npz file."""
    buffer = io.BytesIO()
    write_npz(buffer, arrays, compressed)
    write(path, buffer.getvalue())


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """What `write_arrays` wrote."""
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def write_json(path: Path, content: Any) -> None:
    """Indented JSON; NaN becomes null."""
    write(path, (json.dumps(_plain(content), indent=1, allow_nan=False) + "\n").encode())


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
