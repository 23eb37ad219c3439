"""Files of named arrays hold these arrays, and nothing that could be run."""

import io

import numpy as np
import pytest

from devote.core.arrays import write_npz


@pytest.mark.parametrize("compressed", [True, False])
def test_exactly_the_named_arrays_come_back(tmp_path, compressed) -> None:
    arrays = {
        "novelty |c + g|": np.arange(6.0).reshape(2, 3),
        "one": np.int32(7),
        "none": np.ones(0),
    }
    write_npz(tmp_path / "a.npz", arrays, compressed)
    with np.load(tmp_path / "a.npz", allow_pickle=False) as found:
        assert set(found.files) == set(arrays)
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name], array)
            assert found[name].dtype == array.dtype


def test_compression_makes_files_smaller() -> None:
    sizes = []
    for compressed in (True, False):
        file = io.BytesIO()
        write_npz(file, {"zeros": np.zeros(10_000)}, compressed)
        sizes.append(len(file.getvalue()))
    assert 10 * sizes[0] < sizes[1]


def test_objects_are_refused() -> None:
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        write_npz(io.BytesIO(), {"object": np.array([print])})
