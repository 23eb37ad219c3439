"""Checkpoints that survive a crash at any instant: the newest that verifies is used.

`directory` holds one folder for each saved step, `step_000000123/`, with `state.safetensors` and
`manifest.json`. Only the owner of the run directory may save; anybody may restore at any time.
Fault tests interrupt at `_write_state`, `_write_manifest`, `_publish` and `_discard`.
"""

import os
import re
import shutil
import stat
import warnings
from pathlib import Path
from typing import Any

import jax

from devote.core.durable import FileDigest, digest_of, sync, write_synced
from devote.core.errors import UserError
from devote.loops import tensors
from devote.loops.manifest import (
    DamagedError,
    Json,
    Manifest,
    decode,
    encode,
    library_versions,
    other_versions,
)

STATE = "state.safetensors"
MANIFEST = "manifest.json"
LARGEST_MANIFEST = 64 * 2**20  # bytes; a real one has about a hundred for each leaf

TEMPORARY = ".tmp_"
ASIDE = "aside_"
REPLACED = "_replaced"
STEP_NAME = re.compile(rf"step_(\d{{9,}})({REPLACED})?")


def save(directory: Path, step: int, tree: Any, note: dict[str, Json], keep: int = 2) -> Path:
    """Write a checkpoint, durable when this returns, then delete all but the newest `keep`."""
    _require_at_least(0, step, "step")
    _require_at_least(1, keep, "keep")
    leaves = tensors.named_leaves(tree)
    final = directory / f"step_{step:09d}"
    temporary = directory / f"{TEMPORARY}{final.name}"
    directory.mkdir(parents=True, exist_ok=True)
    sync(directory.parent)
    _clean(directory)
    try:
        temporary.mkdir()
        digest = _write_state(temporary, leaves)
        _write_manifest(temporary, step, note, leaves, digest)
        sync(temporary)
        _publish(temporary, final)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _set_newer_aside(directory, step)
    prune(directory, keep)
    return final


def restore(
    directory: Path, like: Any, root: str = "", exact: bool = False
) -> tuple[int, Any, dict[str, Json]] | None:
    """Step, tree and note of the newest checkpoint that verifies; None if none was ever saved.

    Arrays come back with the kind, dtype and placement of those of `like`, whose leaves may be
    `jax.ShapeDtypeStruct`; `root` says where in the saved tree `like` is, and only that part is
    read. Damage falls back to the previous checkpoint with a warning. With `exact`, for those who
    mean to go on bit for bit, other versions of the libraries are a warning, too.
    """
    leaves = {root + name: leaf for name, leaf in tensors.named_leaves(like).items()}
    damaged = []
    for path in _newest_first(directory):
        try:
            manifest = _verify(path)
            part = {name: leaf for name, leaf in manifest.leaves.items() if name.startswith(root)}
            tensors.require_fit(part, leaves, path)
            values = tensors.read(path / STATE, leaves, manifest.leaves)
        except (DamagedError, OSError) as error:
            damaged.append(path.name)
            warnings.warn(f"checkpoint {path} is damaged and not used: {error}", stacklevel=2)
            continue
        if exact and (others := other_versions(manifest.versions)):
            message = f"{path} is of other versions ({others}): the run goes on, not bit for bit"
            warnings.warn(message, stacklevel=2)
        return manifest.step, jax.tree.unflatten(jax.tree.structure(like), values), manifest.note
    if damaged:
        # Starting afresh here would bury the run that the user meant to continue.
        fix = "restore them from a copy, or delete them to start from the beginning"
        raise UserError(f"a sound checkpoint in {directory}", f"only damaged {damaged}", fix)
    return None


def newest(directory: Path) -> tuple[Path, dict[str, Json]] | None:
    """Folder and note of the checkpoint that `restore` would use; None if none verifies."""
    for path in _newest_first(directory):
        try:
            return path, _verify(path).note
        except (DamagedError, OSError) as error:
            warnings.warn(f"checkpoint {path} is damaged and not used: {error}", stacklevel=2)
    return None


def prune(directory: Path, keep: int = 2) -> None:
    """Delete all but the newest `keep` checkpoints."""
    _require_at_least(1, keep, "keep")
    kept: set[int] = set()
    for path in _newest_first(directory):
        step, _ = _parse(path)
        if len(kept) < keep and step not in kept:
            kept.add(step)
        else:
            _discard(path)


def _write_state(folder: Path, leaves: dict[str, tensors.Array]) -> FileDigest:
    return tensors.write(folder / STATE, leaves)


def _write_manifest(
    folder: Path,
    step: int,
    note: dict[str, Json],
    leaves: dict[str, tensors.Array],
    state: FileDigest,
) -> None:
    manifest = Manifest(
        step=step,
        note=note,
        files={STATE: state},
        leaves={name: tensors.describe(leaf) for name, leaf in leaves.items()},
        versions=library_versions(),
    )
    write_synced(folder / MANIFEST, [encode(manifest)])


def _publish(temporary: Path, final: Path) -> None:
    """Give a finished checkpoint its name, in one rename: it is there wholly or not at all."""
    if os.path.lexists(final):
        # Saved twice at one step: the first stays readable under another name until the end.
        replaced = final.with_name(final.name + REPLACED)
        if os.path.lexists(replaced):
            _discard(replaced)
        os.rename(final, replaced)
    os.rename(temporary, final)
    sync(final.parent)


def _set_newer_aside(directory: Path, step: int) -> None:
    """After a fall-back the run goes on from an older step; what it left behind is not newest."""
    for path in _newest_first(directory):
        if _parse(path)[0] > step:
            aside = path.with_name(ASIDE + path.name)
            if os.path.lexists(aside):
                _discard(aside)
            os.rename(path, aside)
            warnings.warn(f"the run went on at step {step}: {path} is now {aside}", stacklevel=3)


def _discard(path: Path) -> None:
    """Delete a checkpoint; it loses its name first, so that half of one is never seen."""
    doomed = path.with_name(f"{TEMPORARY}doomed_{path.name}")
    os.rename(path, doomed)
    _remove(doomed)


def _clean(directory: Path) -> None:
    """Remove what interrupted saves left."""
    for path in directory.glob(f"{TEMPORARY}*"):
        _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _newest_first(directory: Path) -> list[Path]:
    found = [path for path in directory.glob("step_*") if STEP_NAME.fullmatch(path.name)]
    return sorted(found, key=_parse, reverse=True)


def _parse(path: Path) -> tuple[int, bool]:
    """Step, and whether the checkpoint has its final name and so precedes a replaced one."""
    match = STEP_NAME.fullmatch(path.name)
    assert match is not None
    return int(match[1]), match[2] is None


def _verify(path: Path) -> Manifest:
    """Check every byte of a checkpoint against its manifest."""
    if not stat.S_ISDIR(path.lstat().st_mode):
        raise DamagedError("it is not a directory")
    sizes = {file.name: _size(file) for file in path.iterdir()}
    for name in (MANIFEST, STATE):
        if name not in sizes:
            raise DamagedError(f"{name} is missing")
    if sizes[MANIFEST] > LARGEST_MANIFEST:
        raise DamagedError(f"{MANIFEST} has {sizes[MANIFEST]} bytes")
    manifest = decode((path / MANIFEST).read_bytes())
    if manifest.step != _parse(path)[0]:
        raise DamagedError(f"{MANIFEST} is of step {manifest.step}")
    if set(manifest.files) != {STATE}:
        raise DamagedError(f"{MANIFEST} lists {sorted(manifest.files)} instead of {STATE}")
    expected = manifest.files[STATE]
    if sizes[STATE] != expected.size:
        raise DamagedError(f"{STATE} has {sizes[STATE]} bytes instead of {expected.size}")
    if digest_of(path / STATE) != expected:
        raise DamagedError(f"{STATE} does not match its SHA-256")
    return manifest


def _size(path: Path) -> int:
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        raise DamagedError(f"{path.name} is not a regular file")
    return status.st_size


def _require_at_least(least: int, value: int, name: str) -> None:
    if value < least:
        raise UserError(f"{name} of at least {least}", value, "pass a larger one")
