"""Files that are wholly there or not there at all, also after a crash."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class FileDigest(NamedTuple):
    """What identifies the content of a file."""

    size: int
    sha256: str


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of the disk say which file they are about; those of a write do not by themselves."""
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
    """Write the pieces to disk and digest what was meant, not what could be read back."""
    size, digest = 0, hashlib.sha256()
    with naming(path), open(path, "wb") as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
            size += len(piece)
        file.flush()
        os.fsync(file.fileno())
    return FileDigest(size, digest.hexdigest())


def digest_of(path: Path) -> FileDigest:
    """Size and SHA-256 of a file, read in pieces."""
    with open(path, "rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return FileDigest(file.tell(), sha256)


def atomic_write_text(path: Path, text: str) -> None:
    """`atomic_write` of a text."""
    atomic_write(path, text.encode())


def atomic_write(path: Path, content: bytes) -> None:
    """Replace a file in one step: a reader, or a crash, sees the old content or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write_synced(temporary, [content])
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)
