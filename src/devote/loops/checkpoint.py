"""Checkpoints that survive a crash at any instant: the newest one that verifies is used.

`directory` holds a folder for each saved step, `step_000000123/`, with `state.safetensors` (a
tensor for each leaf of the tree) and `manifest.json` (step, note, files, leaves and versions, with
its own digest). Only the owner of the run directory may save; anybody may restore at any time.
Fault tests interrupt at `_write_state`, `_write_manifest`, `_publish` and `_discard`.
"""

import hashlib
import json
import os
import re
import shutil
import stat
import warnings
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from safetensors import SafetensorError, safe_open

from devote.core.durable import LARGEST_TABLE, FileDigest, digest_of, sync, write_synced
from devote.core.errors import UserError

STATE = "state.safetensors"
MANIFEST = "manifest.json"

TEMPORARY = ".tmp_"
ASIDE = "aside_"
REPLACED = "_replaced"
STEP_NAME = re.compile(rf"step_(\d{{9,}})({REPLACED})?")

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

SCHEMA = 1
FIELDS = {"schema": int, "step": int, "note": dict, "files": dict, "leaves": dict, "versions": dict}
PACKAGES = ("devote", "jax", "jaxlib", "numpy", "safetensors")
COMPUTING = ("jax", "jaxlib", "numpy")
"""Packages whose version may change the last bits of results."""


class DamagedError(Exception):
    """A checkpoint that must not be used, and why."""


class LeafShape(NamedTuple):
    """Shape and dtype of one array of the tree."""

    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True)
class Manifest:
    """The content of `manifest.json`."""

    step: int
    note: dict[str, Json]
    files: dict[str, FileDigest]
    leaves: dict[str, LeafShape]
    versions: dict[str, str]


Leaf: TypeAlias = Any  # jax.Array, np.ndarray, np.generic, or jax.ShapeDtypeStruct as a pattern

ARRAYS = (jax.Array, np.ndarray, np.generic, jax.ShapeDtypeStruct)
KEYS = {"key<fry>": "threefry2x32", "key<rbg>": "rbg", "key<urbg>": "unsafe_rbg"}
"""JAX's kinds of PRNG keys, by dtype."""
CODES = {"bool": "BOOL", "bfloat16": "BF16", "complex64": "C64"}
CODES |= {
    f"{k}int{bits}": f"{k or 'i'}{bits}".upper() for k in ("", "u") for bits in (8, 16, 32, 64)
}
CODES |= {f"float{bits}": f"F{bits}" for bits in (16, 32, 64)}


def save(directory: Path, step: int, tree: Any, note: dict[str, Json], keep: int = 2) -> Path:
    """Write a checkpoint, on disk when this returns, then delete all but the newest `keep`."""
    _require_at_least(0, step, "step")
    _require_at_least(1, keep, "keep")
    leaves = named_leaves(tree)
    final = directory / f"step_{step:09d}"
    temporary = directory / f"{TEMPORARY}{final.name}"
    directory.mkdir(parents=True, exist_ok=True)
    if directory.is_symlink():  # the files there are not ours to delete
        got = f"a link to {os.readlink(directory)}"
        raise UserError(f"{directory} itself", got, "name another place, or remove the link")
    sync(directory.parent)
    for remains in directory.glob(f"{TEMPORARY}*"):  # of interrupted saves
        _remove(remains)
    try:
        temporary.mkdir()
        digest = _write_state(temporary, leaves)
        shapes = {name: _describe(leaf) for name, leaf in leaves.items()}
        manifest = Manifest(step, note, {STATE: digest}, shapes, library_versions())
        _write_manifest(temporary, manifest)
        sync(temporary)
        _publish(temporary, final)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _set_newer_aside(directory, step)
    prune(directory, keep)
    return final


def restore(
    directory: Path,
    like: Any,
    root: str = "",
    exact: bool = False,
    shorter: tuple[str, int] | None = None,
) -> tuple[int, Any, dict[str, Json]] | None:
    """Step, tree and note of the newest checkpoint that verifies; None if none was ever saved.

    Arrays have the kind, dtype and placement of those in `like`, whose leaves may be
    `jax.ShapeDtypeStruct`. Only the part of the saved tree at `root` is read. A damaged checkpoint
    is skipped with a warning. `exact` also warns of other library versions, with which a run does
    not continue bit for bit. With `shorter`, (name, axis), arrays below that name may be shorter
    along that axis.
    """
    leaves = {root + name: leaf for name, leaf in named_leaves(like).items()}
    damaged = []
    for path in _newest_first(directory):
        try:
            manifest = _verify(path)
            part = {name: leaf for name, leaf in manifest.leaves.items() if name.startswith(root)}
            wanted = leaves if shorter is None else _shortened(leaves, part, *shorter)
            _require_fit(part, wanted, path)
            values = _read_tensors(path / STATE, wanted, manifest.leaves)
        except (DamagedError, OSError) as error:
            damaged.append(path.name)
            warnings.warn(f"checkpoint {path} is damaged and not used: {error}", stacklevel=2)
            continue
        if exact and (others := _other_versions(manifest.versions)):
            message = f"{path} is of other versions ({others}): not continued bit for bit"
            warnings.warn(message, stacklevel=2)
        return manifest.step, jax.tree.unflatten(jax.tree.structure(like), values), manifest.note
    if damaged:
        fix = "restore them from a copy, or delete them to start from the beginning"
        raise UserError(f"a sound checkpoint in {directory}", f"only damaged {damaged}", fix)
    return None


def newest(directory: Path) -> tuple[Path, dict[str, Json]] | None:
    """Folder and note of the newest checkpoint that verifies, if there is one."""
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


def _write_state(folder: Path, leaves: dict[str, Leaf]) -> FileDigest:
    """Write a safetensors file leaf by leaf, without a second copy in memory."""
    # not the library's own writer, which raises no OSError on a full disk; wide items come first,
    # so that every tensor is aligned
    names = sorted(leaves, key=lambda name: -_stored(leaves[name]).dtype.itemsize)
    return write_synced(folder / STATE, _pieces({name: leaves[name] for name in names}))


def _write_manifest(folder: Path, manifest: Manifest) -> None:
    write_synced(folder / MANIFEST, [encode_manifest(manifest)])


def _publish(temporary: Path, final: Path) -> None:
    """Move a complete checkpoint to its name, in one rename."""
    if os.path.lexists(final):
        # saved twice at one step: the first stays readable until the second is in place
        replaced = final.with_name(final.name + REPLACED)
        if os.path.lexists(replaced):
            _discard(replaced)
        os.rename(final, replaced)
    os.rename(temporary, final)
    sync(final.parent)


def _set_newer_aside(directory: Path, step: int) -> None:
    """Rename later checkpoints, which are stale once a run continued from an earlier step."""
    for path in _newest_first(directory):
        if _parse(path)[0] > step:
            aside = path.with_name(ASIDE + path.name)
            if os.path.lexists(aside):
                _discard(aside)
            os.rename(path, aside)
            warnings.warn(f"the run went on at step {step}: {path} is now {aside}", stacklevel=3)


def _discard(path: Path) -> None:
    """Rename a checkpoint, then delete it, so that a part of it is never read."""
    doomed = path.with_name(f"{TEMPORARY}doomed_{path.name}")
    os.rename(path, doomed)
    _remove(doomed)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _newest_first(directory: Path) -> list[Path]:
    found = [path for path in directory.glob("step_*") if STEP_NAME.fullmatch(path.name)]
    return sorted(found, key=_parse, reverse=True)


def _parse(path: Path) -> tuple[int, bool]:
    """Step, and whether the checkpoint is not a replaced one."""
    match = STEP_NAME.fullmatch(path.name)
    assert match is not None
    return int(match[1]), match[2] is None


def _verify(path: Path) -> Manifest:
    """Check every byte of a checkpoint against its manifest."""
    if not stat.S_ISDIR(path.lstat().st_mode):
        raise DamagedError("it is not a directory")
    sizes = {file.name: _size(file) for file in path.iterdir()}
    for name in (MANIFEST, STATE):
        _check(name in sizes, "is missing", name)
    _check(sizes[MANIFEST] <= LARGEST_TABLE, f"has {sizes[MANIFEST]} bytes")
    manifest = decode_manifest((path / MANIFEST).read_bytes())
    _check(manifest.step == _parse(path)[0], f"is of step {manifest.step}")
    _check(set(manifest.files) == {STATE}, f"lists {sorted(manifest.files)} instead of {STATE}")
    size, expected = sizes[STATE], manifest.files[STATE]
    _check(size == expected.size, f"has {size} bytes instead of {expected.size}", STATE)
    _check(digest_of(path / STATE) == expected, "does not match its SHA-256", STATE)
    return manifest


def _size(path: Path) -> int:
    status = path.lstat()
    _check(stat.S_ISREG(status.st_mode), "is not a regular file", path.name)
    return status.st_size


def _require_at_least(least: int, value: int, name: str) -> None:
    if value < least:
        raise UserError(f"{name} of at least {least}", value, "pass a larger one")


# The manifest.


def encode_manifest(manifest: Manifest) -> bytes:
    """The bytes of `manifest.json`."""
    tables = {
        field: {name: entry._asdict() for name, entry in getattr(manifest, field).items()}
        for field in ("files", "leaves")
    }
    return _seal({"schema": SCHEMA, **vars(manifest), **tables})


def decode_manifest(data: bytes) -> Manifest:
    """Read `manifest.json`; whatever `encode_manifest` would not write is damage."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"manifest.json is not JSON ({error})") from error
    _check(isinstance(body, dict) and "schema" in body, "has no schema version")
    seal, schema = body.pop("sha256", None), body["schema"]
    flipped = seal == _digest(body | {"schema": SCHEMA})  # only this number is damaged
    if isinstance(schema, int) and schema > SCHEMA and not flipped:
        fix = "use a newer version of devote; the checkpoint is left as it is"
        raise UserError(f"a checkpoint of schema {SCHEMA}", f"schema {schema}", fix)
    _check(schema == SCHEMA, f"has unknown schema {schema}, known is {SCHEMA}")
    _check(_seal(body) == data, "does not match its own SHA-256")
    _check(tuple(body) == tuple(FIELDS), f"has fields {', '.join(body)}")
    for field, kind in FIELDS.items():
        _check(type(body[field]) is kind, f"has {field} that is no {kind.__name__}")
    return Manifest(
        step=body["step"],
        note=body["note"],
        files={n: FileDigest(*_entry(x, "size", "sha256")) for n, x in body["files"].items()},
        leaves={n: _leaf_shape(x) for n, x in body["leaves"].items()},
        versions=body["versions"],
    )


def library_versions() -> dict[str, str]:
    """Installed versions of the packages that results depend on."""
    found = {}
    for package in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def _other_versions(saved: dict[str, str]) -> str:
    """How the versions of `COMPUTING` differ from the saved ones; empty if they do not."""
    now = library_versions()
    pairs = [(package, saved.get(package), now.get(package)) for package in COMPUTING]
    return ", ".join(f"{name} {a} then and {b} now" for name, a, b in pairs if a != b)


def _seal(body: dict[str, Any]) -> bytes:
    """Canonical bytes that contain their own digest."""
    return _dump({**body, "sha256": _digest(body)})


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(_dump(body)).hexdigest()


def _dump(body: dict[str, Any]) -> bytes:
    return json.dumps(body, indent=1).encode() + b"\n"


def _leaf_shape(value: Any) -> LeafShape:
    shape, dtype = _entry(value, "shape", "dtype")
    whole = isinstance(shape, list) and all(type(length) is int for length in shape)
    _check(whole, "has a leaf without shape")
    return LeafShape(tuple(shape), dtype)


def _entry(value: Any, first: str, second: str) -> tuple[Any, Any]:
    _check(isinstance(value, dict) and value.keys() == {first, second}, "has a bad entry")
    return value[first], value[second]


def _check(holds: bool, problem: str, file: str = MANIFEST) -> None:
    if not holds:
        raise DamagedError(f"{file} {problem}")


# The tensors.


def named_leaves(tree: Any) -> dict[str, Leaf]:
    """The leaves of a tree by path, in order."""
    leaves: dict[str, Leaf] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        name = jax.tree_util.keystr(path)
        if name in leaves:
            raise UserError("one leaf for each path", f"two at {name}", "rename one of the keys")
        _require_storable(name, leaf)
        leaves[name] = leaf
    return leaves


def _describe(leaf: Leaf) -> LeafShape:
    """Shape and dtype, as in the manifest."""
    return LeafShape(tuple(leaf.shape), str(leaf.dtype))


def _read_tensors(path: Path, like: dict[str, Leaf], held: Collection[str]) -> list[Leaf]:
    """Read the leaves in `like` from a file whose header must list exactly those in `held`."""
    try:
        with safe_open(path, framework="numpy") as file:
            if set(file.keys()) != set(held):
                raise DamagedError(f"{path.name} does not hold the leaves of its manifest")
            for name, leaf in like.items():
                header, stored = file.get_slice(name), _stored(leaf)
                found = (tuple(header.get_shape()), header.get_dtype())
                if found != (stored.shape, CODES[str(stored.dtype)]):
                    raise DamagedError(f"{STATE} holds {found} at {name}, unlike its manifest")
            return [_as_like(file.get_tensor(name), leaf) for name, leaf in like.items()]
    except SafetensorError as error:
        raise DamagedError(f"{path.name} is not safetensors ({error})") from error


def _shortened(
    like: dict[str, Leaf], saved: dict[str, LeafShape], below: str, axis: int
) -> dict[str, Leaf]:
    """`like`, with all arrays below a name cut to the shortest saved length."""
    named = [n for n in like if n.startswith(below) and n in saved]
    lengths = [saved[n].shape[axis] for n in named if len(saved[n].shape) > axis]

    def cut(leaf: Leaf) -> Leaf:
        shape = list(leaf.shape)
        shape[axis] = max(1, min(shape[axis], *lengths))
        return jax.ShapeDtypeStruct(tuple(shape), leaf.dtype)

    return like | {name: cut(like[name]) for name in named if lengths}


def _require_fit(saved: dict[str, LeafShape], like: dict[str, Leaf], origin: Path) -> None:
    """Refuse a checkpoint of another tree and name the first leaf that differs."""
    wanted = {name: _describe(leaf) for name, leaf in like.items()}
    differing = [name for name in wanted | saved if wanted.get(name) != saved.get(name)]
    if differing:
        name, more = differing[0], f" and {len(differing) - 1} more differences"
        got = f"{saved.get(name, 'nothing')} in {origin}" + more * (len(differing) > 1)
        fix = "resume with the settings the run was started with, or use a new run directory"
        raise UserError(f"{wanted.get(name, 'nothing')} at {name}", got, fix)


def _require_storable(name: str, leaf: Leaf) -> None:
    if not isinstance(leaf, ARRAYS) or str(leaf.dtype) not in CODES | KEYS:
        kind = f"{type(leaf).__name__} {leaf!r:.60}"
        fix = f"make it an array of {', '.join(CODES)}, or a typed PRNG key"
        raise UserError(f"an array at {name}", kind, fix)


def _pieces(leaves: dict[str, Leaf]) -> Iterator[bytes | memoryview]:
    header, end = {}, 0
    for name, leaf in leaves.items():
        stored = _stored(leaf)
        start, end = end, end + stored.size * stored.dtype.itemsize
        code = CODES[str(stored.dtype)]
        header[name] = {"dtype": code, "shape": stored.shape, "data_offsets": (start, end)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little")
    yield text
    for leaf in leaves.values():
        host = np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf, order="C")
        yield host.reshape(-1).view(np.uint8).data


def _is_key(leaf: Leaf) -> bool:
    return str(leaf.dtype) in KEYS


def _stored(leaf: Leaf) -> jax.ShapeDtypeStruct:
    """Shape and dtype of a leaf in the file: a PRNG key becomes its words."""
    if _is_key(leaf):
        return jax.eval_shape(jax.random.key_data, leaf)
    return leaf


def _as_like(value: np.ndarray, like: Leaf) -> Leaf:
    if _is_key(like):
        return jax.random.wrap_key_data(jax.numpy.asarray(value), impl=KEYS[str(like.dtype)])
    if isinstance(like, np.generic):
        return value[()]
    if isinstance(like, np.ndarray):
        return value
    place = like.sharding if isinstance(like, jax.Array) and like.committed else None
    # the run donates its state, so JAX must own the memory
    return jax.device_put(value, place, may_alias=False)
