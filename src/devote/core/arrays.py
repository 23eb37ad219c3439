"""Named arrays in one .npz file."""

import math
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np

from devote.core.errors import UserError

LARGEST = 2**30
"""Bytes of all arrays in a file, once decompressed."""
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def write_npz(
    file: Path | IO[bytes], arrays: Mapping[str, np.ndarray], compressed: bool = True
) -> None:
    """Write a plain .npz file; object arrays are refused, never pickled."""
    # numpy.savez of early 2.x would store allow_pickle=False as an array
    with ZipFile(file, "w", ZIP_DEFLATED if compressed else ZIP_STORED) as archive:
        for name, array in arrays.items():
            place = ZipInfo(f"{name}.npy")  # without a date, so equal arrays give equal bytes
            place.compress_type = archive.compression
            with archive.open(place, "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)


def read_npz(
    path: Path, names: Collection[str] = (), largest: int = LARGEST
) -> dict[str, np.ndarray]:
    """All or the named arrays of a file; headers are checked before anything is allocated."""
    try:
        with ZipFile(path) as archive:
            entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
            if sum(entry.file_size for entry in entries.values()) > largest:
                raise ValueError(f"more than {largest:,} bytes")
            return {name: _array(archive, entries[name]) for name in names or entries}
    except (ValueError, KeyError, EOFError, NotImplementedError, BadZipFile, zlib.error) as error:
        fix = "restore it from a copy, or delete it so that it is made again"
        raise UserError(f"named arrays in {path}", f"{error!r:.80}", fix) from error


def _array(archive: ZipFile, entry: ZipInfo) -> np.ndarray:
    with archive.open(entry) as file:
        shape, _, dtype = HEADERS[np.lib.format.read_magic(file)](file)
        if dtype.hasobject or math.prod(shape) * dtype.itemsize != entry.file_size - file.tell():
            raise ValueError(f"the header of {entry.filename} does not fit its size")
        file.seek(0)
        return np.lib.format.read_array(file, allow_pickle=False)
