"""Files that are complete or absent, even after a crash, and the folder of our caches."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from devote.core.errors import UserError

LARGEST_TABLE = 64 * 2**20  # bytes


class FileDigest(NamedTuple):
    """What identifies the content of a file."""

    size: int
    sha256: str


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the path to an OSError that lacks it, as those of `write` and `fsync` do."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def sync(path: Path) -> None:
    """Wait until a file, or the entries of a directory, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with naming(path):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_synced(path: Path, pieces: Iterable[bytes | memoryview]) -> FileDigest:
    """Write a new file to disk; the digest is of the bytes in memory, not of what is read back."""
    size, digest = 0, hashlib.sha256()
    with naming(path), open(path, "xb") as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
            size += len(piece)
        file.flush()
        os.fsync(file.fileno())
    return FileDigest(size, digest.hexdigest())


def digest_of(path: Path) -> FileDigest:
    """Size and SHA-256 of a file."""
    with open(path, "rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return FileDigest(file.tell(), sha256)


def atomic_write_text(path: Path, text: str) -> None:
    """`atomic_write` of a string."""
    atomic_write(path, text.encode())


def atomic_write(path: Path, content: bytes, durable: bool = True) -> None:
    """Replace a file: a reader, or a crash, sees all of the old content or all of the new.

    Without `durable` it does not wait for the disk.
    """
    with replacing(path) as temporary:
        if durable:
            write_synced(temporary, [content])
        else:
            temporary.write_bytes(content)
    if durable:
        sync(path.parent)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path to write to, renamed to `path` at the end; a link there is replaced."""
    temporary = path.with_name(f".tmp{os.getpid()}.{path.name}")
    temporary.unlink(missing_ok=True)
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read_table(path: Path, fix: str, largest: int = LARGEST_TABLE) -> dict[str, Any]:
    """Read a JSON object from a file."""
    try:
        if (size := path.stat().st_size) > largest:
            raise ValueError(f"{size:,} bytes")
        table = json.loads(path.read_bytes())
        json.dumps(table, ensure_ascii=False).encode()  # lone surrogates could not be printed
    except (ValueError, RecursionError) as error:
        raise UserError(f"JSON in {path}", f"a damaged file ({error!s:.80})", fix) from error
    if not isinstance(table, dict):
        raise UserError(f"a JSON object in {path}", type(table).__name__, fix)
    return table


def cache_folder(name: str) -> Path:
    """Our folder in the user's cache, for downloads and compiled programs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "devote" / name


def use_compilation_cache() -> None:
    """Keep compiled programs between processes."""
    import jax

    jax.config.update("jax_compilation_cache_dir", str(cache_folder("xla")))
