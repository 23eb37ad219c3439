"""The log: numbers round-trip, a torn line never counts, a resumed run continues it."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from devote.core.errors import UserError
from devote.loops.metrics_log import MetricsLog, last_step, read

COLUMNS = ("step", "return", "note")


def filled(path: Path, *steps: int) -> MetricsLog:
    log = MetricsLog(path, COLUMNS)
    log.append([{"step": step, "return": step / 3, "note": f"at {step}"} for step in steps])
    return log


def test_numbers_round_trip(tmp_path: Path) -> None:
    values = [0.1, 1 / 3, 1e-320, -0.0, float("inf"), float("nan"), np.float64(2 / 3)]
    values += [np.float32(0.1), np.int64(7), True]
    log = MetricsLog(tmp_path / "log.csv", COLUMNS)
    log.append([{"step": step, "return": value} for step, value in enumerate(values)])
    columns = read(log.path)
    assert columns["step"].tolist() == list(range(len(values)))
    assert columns["return"].tobytes() == np.array([float(value) for value in values]).tobytes()
    assert np.isnan(columns["note"]).all()


def test_missing_cells_and_text(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "log.csv", COLUMNS)
    log.append([{"step": 1, "note": 'a "b", c'}])
    log.append([{"step": 2, "return": 0.5}])
    log.append([])
    assert log.path.read_text() == 'step,return,note\n1,,"a ""b"", c"\n2,0.5,\n'
    columns = read(log.path)
    assert columns["note"].tolist() == ['a "b", c', ""]
    np.testing.assert_array_equal(columns["return"], [np.nan, 0.5])


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"step": 1, "retrun": 2.0}, "got retrun"),
        ({"return": 2.0}, "step"),
        ({"step": 1, "note": "two\nlines"}, "note"),
        ({"step": 1, "return": np.zeros(2)}, "return"),
    ],
)
def test_bad_row_is_refused_with_its_batch(tmp_path: Path, row: dict, words: str) -> None:
    log = filled(tmp_path / "log.csv", 1)
    before = log.path.read_bytes()
    with pytest.raises(UserError, match=words):
        log.append([{"step": 2}, row])
    assert log.path.read_bytes() == before


def test_the_last_step_is_read_from_the_end_of_a_log(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.csv", ("text", "step"))
    assert last_step(log.path) == 0
    for step in range(3):
        log.append([{"text": f"{step}, so far " + "x" * 40_000, "step": step}])
        assert last_step(log.path) == step
    with open(log.path, "a") as file:
        file.write('"torn, 7')
    assert last_step(log.path) == 2
    for damage in (b"\n\n\n", b"short\n", b"text,many\n", b"\xff,7\n"):
        log.path.write_bytes(b"text,step\n" + damage)
        assert last_step(log.path) == 0


def test_truncate_continues_as_if_never_interrupted(tmp_path: Path) -> None:
    whole = filled(tmp_path / "whole.csv", 1, 2, 3, 4).path.read_bytes()
    path = filled(tmp_path / "cut.csv", 1, 2, 3).path
    for torn in (b"", b"4,1.3", b"4,1.3333333333333333,at 4", b'4,1.3,"at', b"\0" * 9, b"4,\xff"):
        path.write_bytes(path.read_bytes() + torn)
        log = MetricsLog(path, COLUMNS)
        log.truncate(2)
        assert read(path)["step"].tolist() == [1, 2]
        log.append([{"step": step, "return": step / 3, "note": f"at {step}"} for step in (3, 4)])
        assert path.read_bytes() == whole, torn
    log.truncate(0)
    assert read(path)["step"].tolist() == []
    assert list(tmp_path.glob(".*")) == []


def test_torn_line_is_not_read_and_not_continued(tmp_path: Path) -> None:
    path = filled(tmp_path / "log.csv", 1).path
    path.write_bytes(path.read_bytes() + b"2,0.6")
    assert read(path)["step"].tolist() == [1]
    filled(path, 3)
    assert read(path)["step"].tolist() == [1, 3]


@pytest.mark.parametrize("columns", [("step", "return"), ("step", "note", "return"), ("step", "x")])
def test_other_header_is_refused_untouched(tmp_path: Path, columns: tuple[str, ...]) -> None:
    path = filled(tmp_path / "log.csv", 1).path
    before = path.read_bytes()
    with pytest.raises(UserError, match="got step, return, note"):
        MetricsLog(path, columns)
    assert path.read_bytes() == before


def test_foreign_files_are_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    for content in (b"no newline", b"\xff\xfe\n", b"step,return,note\n1,2\n", b'"\n'):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"log\.csv"):
            MetricsLog(path, COLUMNS)
        assert path.read_bytes() == content
    for columns in (("return",), ("step", "step")):
        with pytest.raises(UserError, match="step"):
            MetricsLog(tmp_path / "new.csv", columns)


def test_full_disk_leaves_whole_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(tmp_path / "log.csv", 1)
    before = log.path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match=r"No space.*log\.csv"):
            log.append([{"step": 2}])
    assert log.path.read_bytes() == before
    log.append([{"step": 2}])
    assert read(log.path)["step"].tolist() == [1, 2]


def test_rows_are_synced_and_a_deleted_log_is_not_revived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(tmp_path / "log.csv", 1)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    log.append([{"step": 2}])
    assert synced == [log.path.stat().st_size]
    log.path.unlink()
    with pytest.raises(FileNotFoundError):
        log.append([{"step": 3}])
