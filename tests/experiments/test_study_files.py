"""The files of a study keep what they hold, whenever the process that writes them is killed."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from devote.experiments import study_files
from devote.experiments.results import Results, write
from devote.experiments.study_files import Entry, RunLine, read_entries, write_entries


def entry(task: str, method: str, value: float) -> Entry:
    line = RunLine(task, method, 0, "desk", 1, "x", value, 1.0, "", "", "", "")
    return Entry(line, {"step": np.array([1.0]), "x": np.array([value])})


def test_a_kill_while_files_are_written_loses_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [entry("sea", "sac", 1.0), entry("sea", "rnd", 2.0), entry("maze", "sac", 3.0)]
    after = [entry("sea", "sac", 1.0), entry("sea", "rnd", 5.0), entry("moon", "sac", 4.0)]
    writes = count_writes(monkeypatch)
    write_entries(before, tmp_path / "whole")
    write_entries(after, tmp_path / "whole")
    for survived in range(len(writes)):
        out = tmp_path / str(survived)
        write_entries(before, out)
        with dying_after(monkeypatch, survived):
            write_entries(after, out)
        found = read_entries(out)  # whatever is there, is whole
        assert found["sea", "sac", 0].columns["x"] == [1.0]
        for one in found.values():
            assert one.line.final == one.columns["x"]


def test_a_kill_while_runs_come_back_from_aside_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = {e.line.key: e for e in (entry("sea", "sac", 1.0), entry("sea", "rnd", 2.0))}
    one = {key: e for key, e in both.items() if key[1] == "sac"}
    writes = count_writes(monkeypatch)
    write(Results(one, both), tmp_path / "whole")
    write(Results(both, both), tmp_path / "whole")
    for survived in range(len(writes)):
        out = tmp_path / str(survived)
        write(Results(one, both), out)
        with dying_after(monkeypatch, survived):
            write(Results(both, both), out)
        assert read_entries(out).keys() == both.keys()


def count_writes(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files as they are written."""
    written, real = [], study_files.atomic_write_text

    def noting(path: Path, text: str) -> None:
        written.append(path)
        real(path, text)

    monkeypatch.setattr(study_files, "atomic_write_text", noting)
    return written


@contextmanager
def dying_after(monkeypatch: pytest.MonkeyPatch, writes: int) -> Iterator[None]:
    """The process ends before the next file, where there is one."""
    left, real = [writes], study_files.atomic_write_text

    def mortal(path: Path, text: str) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        real(path, text)

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(study_files, "atomic_write_text", mortal)
        yield
