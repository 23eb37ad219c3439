"""Results on disk: one small JSON file and one file of arrays per dataset and model."""

import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from devote.core.errors import UserError


def write(path: Path, content: bytes) -> None:
    """Replace a file in one step: a reader, or a crash, sees the old content or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Named numeric arrays."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **dict(arrays))
    write(path, buffer.getvalue())


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """What `write_arrays` wrote."""
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def write_json(path: Path, content: Any) -> None:
    """Indented JSON; NaN becomes null."""
    write(path, (json.dumps(_plain(content), indent=1, allow_nan=False) + "\n").encode())


def finished(path: Path, settings: Mapping[str, Any]) -> bool:
    """Whether a result is there; one of other settings is refused, never mixed in."""
    if not path.is_file():
        return False
    found = json.loads(path.read_text())["settings"]
    if found != _plain(settings):
        raise UserError(
            f"results of these settings in {path}",
            {key: value for key, value in found.items() if value != _plain(settings).get(key)},
            "choose another `out` directory, or delete the file",
        )
    return True


def _plain(content: Any) -> Any:
    """Tuples as lists, numbers as Python's, NaN as null: what reading JSON gives back."""
    if isinstance(content, Mapping):
        return {str(key): _plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    if isinstance(content, float | np.floating):
        return float(content) if np.isfinite(content) else None
    return content
