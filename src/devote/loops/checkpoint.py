"""Checkpoints that survive a crash at any instant: the newest that verifies is used.

`directory` holds one folder for each saved step, `step_000000123/`, with `state.safetensors` (a
tensor for each leaf of the tree) and `manifest.json` (step, note, files, leaves and versions,
sealed by a digest). Only the owner of the run directory may save; anybody may restore at any time.
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
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from safetensors import SafetensorError, safe_open

from devote.core.durable import FileDigest, digest_of, sync, write_synced
from devote.core.errors import UserError

STATE = "state.safetensors"
MANIFEST = "manifest.json"
LARGEST_MANIFEST = 64 * 2**20  # bytes; a real one has about a hundred for each leaf

TEMPORARY = ".tmp_"
ASIDE = "aside_"
REPLACED = "_replaced"
STEP_NAME = re.compile(rf"step_(\d{{9,}})({REPLACED})?")

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

SCHEMA = 1
FIELDS = ("schema", "step", "note", "files", "leaves", "versions")
PACKAGES = ("devote", "jax", "jaxlib", "numpy", "safetensors")
COMPUTING = ("jax", "jaxlib", "numpy")
"""Packages of which another version may give other last bits."""


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
KEY_KINDS = ("threefry2x32", "rbg", "unsafe_rbg")
CODES = {
    "bool": "BOOL",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
}


def save(directory: Path, step: int, tree: Any, note: dict[str, Json], keep: int = 2) -> Path:
    """Write a checkpoint, durable when this returns, then delete all but the newest `keep`."""
    _require_at_least(0, step, "step")
    _require_at_least(1, keep, "keep")
    leaves = named_leaves(tree)
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
    leaves = {root + name: leaf for name, leaf in named_leaves(like).items()}
    damaged = []
    for path in _newest_first(directory):
        try:
            manifest = _verify(path)
            part = {name: leaf for name, leaf in manifest.leaves.items() if name.startswith(root)}
            _require_fit(part, leaves, path)
            values = _read_tensors(path / STATE, leaves, manifest.leaves)
        except (DamagedError, OSError) as error:
            damaged.append(path.name)
            warnings.warn(f"checkpoint {path} is damaged and not used: {error}", stacklevel=2)
            continue
        if exact and (others := _other_versions(manifest.versions)):
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


def _write_state(folder: Path, leaves: dict[str, Leaf]) -> FileDigest:
    return _write_tensors(folder / STATE, leaves)


def _write_manifest(
    folder: Path,
    step: int,
    note: dict[str, Json],
    leaves: dict[str, Leaf],
    state: FileDigest,
) -> None:
    manifest = Manifest(
        step=step,
        note=note,
        files={STATE: state},
        leaves={name: _describe(leaf) for name, leaf in leaves.items()},
        versions=library_versions(),
    )
    write_synced(folder / MANIFEST, [encode_manifest(manifest)])


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
    manifest = decode_manifest((path / MANIFEST).read_bytes())
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


# The manifest.


def encode_manifest(manifest: Manifest) -> bytes:
    """The bytes of `manifest.json`."""
    return _seal(
        {
            "schema": SCHEMA,
            "step": manifest.step,
            "note": manifest.note,
            "files": {name: digest._asdict() for name, digest in manifest.files.items()},
            "leaves": {name: leaf._asdict() for name, leaf in manifest.leaves.items()},
            "versions": manifest.versions,
        }
    )


def decode_manifest(data: bytes) -> Manifest:
    """Read `manifest.json`; anything that `encode_manifest` would not have written is damage."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"manifest.json is not JSON ({error})") from error
    _check(isinstance(body, dict) and "schema" in body, "has no schema version")
    if isinstance(body["schema"], int) and body["schema"] > SCHEMA:
        fix = "use a newer version of devote; the checkpoint is left as it is"
        raise UserError(f"a checkpoint of schema {SCHEMA}", f"schema {body['schema']}", fix)
    _check(body["schema"] == SCHEMA, f"has unknown schema {body['schema']}, known is {SCHEMA}")
    body.pop("sha256", None)
    _check(_seal(body) == data, "does not match its own SHA-256")
    _check(tuple(body) == FIELDS, f"has fields {', '.join(body)}")
    _check(type(body["step"]) is int, "has no whole step")
    for field in ("note", "files", "leaves", "versions"):
        _check(isinstance(body[field], dict), f"has no table {field}")
    return Manifest(
        step=body["step"],
        note=body["note"],
        files={name: _file_digest(value) for name, value in body["files"].items()},
        leaves={name: _leaf_shape(value) for name, value in body["leaves"].items()},
        versions=body["versions"],
    )


def library_versions() -> dict[str, str]:
    """Installed versions of the packages that decide whether a run repeats."""
    return {package: _version(package) for package in PACKAGES}


def _other_versions(saved: dict[str, str]) -> str:
    """Where saved versions of what computes are not those of now; empty if they are the same."""
    now = library_versions()
    return ", ".join(
        f"{package} {saved.get(package)} then and {now[package]} now"
        for package in COMPUTING
        if saved.get(package) != now[package]
    )


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _seal(body: dict[str, Any]) -> bytes:
    """Canonical bytes with their own digest inside, so that no flipped bit goes unseen."""
    digest = hashlib.sha256(_dump(body)).hexdigest()
    return _dump({**body, "sha256": digest})


def _dump(body: dict[str, Any]) -> bytes:
    return json.dumps(body, indent=1).encode() + b"\n"


def _file_digest(value: object) -> FileDigest:
    _check(isinstance(value, dict) and value.keys() == {"size", "sha256"}, "has a bad file entry")
    assert isinstance(value, dict)
    return FileDigest(value["size"], value["sha256"])


def _leaf_shape(value: object) -> LeafShape:
    _check(isinstance(value, dict) and value.keys() == {"shape", "dtype"}, "has a bad leaf entry")
    assert isinstance(value, dict)
    _check(isinstance(value["shape"], list), "has a leaf without shape")
    return LeafShape(tuple(value["shape"]), value["dtype"])


def _check(holds: bool, problem: str) -> None:
    if not holds:
        raise DamagedError(f"manifest.json {problem}")


# The tensors.


def named_leaves(tree: Any) -> dict[str, Leaf]:
    """The leaves of a tree by their path, in the order of the tree."""
    leaves: dict[str, Leaf] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        name = jax.tree_util.keystr(path)
        if name in leaves:
            raise UserError("one leaf for each path", f"two at {name}", "rename one of the keys")
        _require_storable(name, leaf)
        leaves[name] = leaf
    return leaves


def _describe(leaf: Leaf) -> LeafShape:
    """Shape and dtype as the manifest states them."""
    return LeafShape(tuple(leaf.shape), str(leaf.dtype))


def _write_tensors(path: Path, leaves: dict[str, Leaf]) -> FileDigest:
    """Write a safetensors file leaf by leaf, so that the host never holds a second copy."""
    # The library's own writer reports a full disk as something else than an OSError.
    # Wide items come first so that every tensor is aligned.
    names = sorted(leaves, key=lambda name: -_stored(leaves[name]).dtype.itemsize)
    return write_synced(path, _pieces({name: leaves[name] for name in names}))


def _read_tensors(path: Path, like: dict[str, Leaf], held: Collection[str]) -> list[Leaf]:
    """Read the leaves that `like` names from a file of those `held`, whose header must agree."""
    try:
        with safe_open(path, framework="numpy") as file:
            if set(file.keys()) != set(held):
                raise DamagedError(f"{path.name} does not hold the leaves of its manifest")
            for name, leaf in like.items():
                _require_header(file.get_slice(name), name, _stored(leaf))
            return [_as_like(file.get_tensor(name), leaf) for name, leaf in like.items()]
    except SafetensorError as error:
        raise DamagedError(f"{path.name} is not safetensors ({error})") from error


def _require_fit(saved: dict[str, LeafShape], like: dict[str, Leaf], origin: Path) -> None:
    """Refuse a checkpoint of another tree, naming the first leaf that differs."""
    wanted = {name: _describe(leaf) for name, leaf in like.items()}
    differing = [name for name in wanted | saved if wanted.get(name) != saved.get(name)]
    if differing:
        name, more = differing[0], len(differing) - 1
        raise UserError(
            f"{wanted.get(name, 'nothing')} at {name}",
            f"{saved.get(name, 'nothing')} in {origin}"
            + f" and {more} more differences" * (more > 0),
            "resume with the settings the run was started with, or use a new run directory",
        )


def _require_storable(name: str, leaf: Leaf) -> None:
    stored = isinstance(leaf, ARRAYS) and (_is_key(leaf) or str(leaf.dtype) in CODES)
    if not stored:
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


def _require_header(header: Any, name: str, stored: jax.ShapeDtypeStruct) -> None:
    found = (tuple(header.get_shape()), header.get_dtype())
    if found != (stored.shape, CODES[str(stored.dtype)]):
        raise DamagedError(f"state.safetensors holds {found} at {name}, unlike its manifest")


def _is_key(leaf: Leaf) -> bool:
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _stored(leaf: Leaf) -> jax.ShapeDtypeStruct:
    """Shape and dtype of a leaf in the file: a PRNG key becomes its words."""
    if _is_key(leaf):
        return jax.eval_shape(jax.random.key_data, leaf)
    return leaf


def _as_like(value: np.ndarray, like: Leaf) -> Leaf:
    if _is_key(like):
        return jax.random.wrap_key_data(jax.numpy.asarray(value), impl=_key_kind(like))
    if isinstance(like, np.generic):
        return value[()]
    if isinstance(like, np.ndarray):
        return value
    place = like.sharding if isinstance(like, jax.Array) and like.committed else None
    # The run donates its state, so the memory must belong to JAX and not to this array.
    return jax.device_put(value, place, may_alias=False)


def _key_kind(like: Leaf) -> str:
    for kind in KEY_KINDS:
        if jax.eval_shape(lambda kind=kind: jax.random.key(0, impl=kind)).dtype == like.dtype:
            return kind
    raise UserError(f"a PRNG key of {', '.join(KEY_KINDS)}", like.dtype, "use one of JAX's own")
