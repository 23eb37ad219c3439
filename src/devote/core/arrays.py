"""Named arrays in one file that NumPy reads."""

from collections.abc import Mapping
from pathlib import Path
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import numpy as np


def write_npz(
    file: Path | IO[bytes], arrays: Mapping[str, np.ndarray], compressed: bool = True
) -> None:
    """A plain .npz file; objects are refused, never pickled."""
    # Early versions 2 of numpy.savez take allow_pickle=False for one more array to store.
    with ZipFile(file, "w", ZIP_DEFLATED if compressed else ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)
