"""What a checkpoint says about itself: step, note, files, leaves, versions; sealed by a digest."""

import hashlib
import json
from dataclasses import dataclass
from importlib import metadata
from typing import Any, NamedTuple, TypeAlias

from devote.core.durable import FileDigest

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

SCHEMA = 1
FIELDS = ("schema", "step", "note", "files", "leaves", "versions")
PACKAGES = ("devote", "jax", "jaxlib", "numpy", "safetensors")
COMPUTING = ("jax", "jaxlib", "numpy")
"""Packages of which another version may give other last bits."""


class DamagedError(Exception):
    """A checkpoint that must not be used, and why."""


class Leaf(NamedTuple):
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
    leaves: dict[str, Leaf]
    versions: dict[str, str]


def encode(manifest: Manifest) -> bytes:
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


def decode(data: bytes) -> Manifest:
    """Read `manifest.json`; anything that `encode` would not have written is damage."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"manifest.json is not JSON ({error})") from error
    _check(isinstance(body, dict) and "schema" in body, "has no schema version")
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
        leaves={name: _leaf(value) for name, value in body["leaves"].items()},
        versions=body["versions"],
    )


def library_versions() -> dict[str, str]:
    """Installed versions of the packages that decide whether a run repeats."""
    return {package: _version(package) for package in PACKAGES}


def other_versions(saved: dict[str, str]) -> str:
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


def _leaf(value: object) -> Leaf:
    _check(isinstance(value, dict) and value.keys() == {"shape", "dtype"}, "has a bad leaf entry")
    assert isinstance(value, dict)
    _check(isinstance(value["shape"], list), "has a leaf without shape")
    return Leaf(tuple(value["shape"]), value["dtype"])


def _check(holds: bool, problem: str) -> None:
    if not holds:
        raise DamagedError(f"manifest.json {problem}")
