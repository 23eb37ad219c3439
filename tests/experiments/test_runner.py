"""The frame: each cell once, whoever is killed; failures are told and do not stop the others."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

import pytest
from fake import RELEASE, FakeCell

from devote.core.errors import UserError
from devote.experiments import runner
from devote.experiments.cells import read_record
from devote.experiments.durations import Board
from devote.experiments.runner import LocalEngine, available_cores, locked, run_cells

FAKE = Path(__file__).parent / "fake.py"


def lines(path: Path) -> list[int]:
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def one_core(folder: Path) -> LocalEngine:
    return LocalEngine(folder / "work", 1)


def start(folder: Path, count: int, pause: float) -> subprocess.Popen[bytes]:
    """A runner in a process group of its own."""
    words = [sys.executable, str(FAKE), str(folder), str(count), str(pause)]
    return subprocess.Popen(words, start_new_session=True, stdout=subprocess.PIPE)


def catches_interrupts(process: int) -> bool:
    """Whether the first worker of a runner is so far that Ctrl-C would be an exception in it."""
    for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
        if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text():
            status = dict(
                line.split(":\t", 1)
                for line in Path(f"/proc/{child}/status").read_text().splitlines()
            )
            return bool(int(status["SigCgt"], 16) & 1 << signal.SIGINT - 1)
    return False


def test_every_cell_is_made_once_though_the_runner_is_killed_again_and_again(
    tmp_path: Path,
) -> None:
    count, kills = 4, 0
    while len(lines(tmp_path / "ends")) < count - 1 and kills < 6:
        before = len(lines(tmp_path / "ends"))
        runner = start(tmp_path, count, 0.3)
        while len(lines(tmp_path / "ends")) < before + 1 and runner.poll() is None:
            time.sleep(0.02)
        os.kill(runner.pid, signal.SIGKILL)  # at once, workers in the middle of their cells
        runner.wait()
        kills += 1
    runner = start(tmp_path, count + 1, 0.0)
    assert runner.wait(60) == 0, runner.stdout
    assert kills >= 2
    assert Counter(lines(tmp_path / "ends")) == Counter(range(count + 1))
    # a cell whose worker died between its result and its record keeps the result alone; the last
    # cell was made by the runner that was not killed
    record = read_record(tmp_path / "records" / f"{count}.json")
    assert record is not None
    assert record["command"] == f"make {count}"


def hold(path: Path, seconds: float) -> TextIO:
    """The lock of a cell, when whoever has it lets go."""
    lock = open(path, "a")  # noqa: SIM115
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            assert time.monotonic() < end, "the worker outlived its runner"
            time.sleep(0.05)


def test_a_worker_does_not_outlive_its_runner(tmp_path: Path) -> None:
    runner = start(tmp_path, 1, 60.0)
    while not lines(tmp_path / "starts"):
        time.sleep(0.02)
    os.kill(runner.pid, signal.SIGKILL)
    hold(tmp_path / "work" / "fake0.lock", 20).close()
    assert not lines(tmp_path / "ends")


@pytest.mark.parametrize("made", [True, False], ids=["made by the other", "given up"])
def test_a_cell_that_another_process_is_at_comes_later_and_holds_no_core(
    made: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "RETRY_SECONDS", 0.2)
    (tmp_path / "work").mkdir()
    lock, cells = hold(tmp_path / "work" / "fake0.lock", 1), [FakeCell(tmp_path, i) for i in (0, 1)]

    def release() -> None:
        end = time.monotonic() + 20
        while not cells[1].record.exists() and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(1.0)  # several pauses
        if made:
            cells[0].result.touch()
        lock.close()

    other = threading.Thread(target=release)
    other.start()
    spawned = []
    monkeypatch.setattr(Board, "started", lambda _, cell: spawned.append(cell.number))
    monkeypatch.setattr(Board, "done", lambda *_: None)
    outcome = run_cells(cells, tmp_path, one_core(tmp_path), silent=True)
    other.join()
    assert (outcome.finished, outcome.failures) == (2, [])
    assert spawned == ([0, 1] if made else [0, 1, 0])  # none is started to see that it must wait
    assert lines(tmp_path / "starts") == ([1] if made else [1, 0])


def test_finished_cells_are_left_alone_and_others_get_a_record(tmp_path: Path) -> None:
    cells = [FakeCell(tmp_path, i) for i in range(3)]
    cells[1].result.touch()
    assert run_cells(cells, tmp_path, silent=True).finished == 2
    assert sorted(lines(tmp_path / "starts")) == [0, 2]
    record = read_record(cells[0].record)
    assert record is not None
    assert {"seconds", "finished", "machine", "versions", "command"} <= set(record)
    assert run_cells(cells, tmp_path, silent=True).finished == 0


def test_failures_are_reported_with_their_output_and_the_others_finish(tmp_path: Path) -> None:
    ways = ("error", "user", "killed", "diverged", "disk", "environment", "stopped")
    bad = [FakeCell(tmp_path, i, fails=how) for i, how in enumerate(ways)]
    good = [FakeCell(tmp_path, i) for i in (7, 8)]
    waiting = FakeCell(tmp_path, 9, after=(bad[0],))
    outcome = run_cells([*bad, *good, waiting], tmp_path, silent=True)
    assert sorted(lines(tmp_path / "ends")) == [7, 8]
    told = {failure.name: failure for failure in outcome.failures}
    assert set(told) == {*(f"cell {i}" for i in range(7)), "cell 9"}
    assert "RuntimeError: lost the thread" in told["cell 0"].tail
    assert told["cell 0"].reason == "ended with code 1: RuntimeError: lost the thread"
    assert f"(all of it: {tmp_path / 'work' / 'fake0.log'})" in told["cell 0"].tail
    assert told["cell 1"].reason == "expected a good cell; got a bad one; make it good"
    assert "memory" in told["cell 2"].reason
    assert told["cell 3"].reason == "train/critic_loss is nan"
    assert told["cell 4"].reason == "cannot use somewhere: No space left on device"
    # however long the traceback between what failed and why
    assert told["cell 5"].reason == (
        "environment 2 failed in step 7; last action [0.5]; it said: RuntimeError: motor burnt"
    )
    assert told["cell 6"].reason == "stopped from outside; what it had is saved"
    assert not bad[6].record.exists()
    assert "cell 0, which failed" in told["cell 9"].reason


@dataclass(frozen=True)
class Longer(FakeCell):
    """The same work, gone on with."""

    @property
    def size(self) -> float:
        return 2.0

    def describe(self) -> dict[str, str]:
        return {"command": "make it longer"}


def test_of_the_same_work_the_larger_is_done(tmp_path: Path) -> None:
    short, long = FakeCell(tmp_path, 0), Longer(tmp_path, 0)
    for number, cells in enumerate(([short, long], [long, short])):
        folder = tmp_path / str(number)
        outcome = run_cells([replace(cell, root=folder) for cell in cells], folder, silent=True)
        assert outcome.finished == 1
        record = read_record(folder / "records" / "0.json")
        assert record is not None
        assert record["command"] == "make it longer"


def test_workers_are_stopped_when_the_runner_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        while not lines(tmp_path / "starts"):
            time.sleep(0.02)
        raise UserError("a record", "half of one", "delete it")

    monkeypatch.setattr(Board, "show", broken)
    started = time.monotonic()
    with pytest.raises(UserError, match="half of one"):
        run_cells([FakeCell(tmp_path, 0, pause=60.0)], tmp_path, silent=True)
    assert time.monotonic() - started < 50
    assert not lines(tmp_path / "ends")


def test_needs_come_first_and_are_made_though_nobody_named_them(tmp_path: Path) -> None:
    need = FakeCell(tmp_path, 0, pause=0.2)
    cells = [FakeCell(tmp_path, i, after=(need,)) for i in (1, 2)]
    assert run_cells(cells, tmp_path, silent=True).finished == 3
    assert lines(tmp_path / "ends")[0] == 0


def test_who_can_never_start_is_told(tmp_path: Path) -> None:
    # both needs have one identity, so one of them takes the place of the other
    folders = [tmp_path / name for name in ("here", "there")]
    for folder in folders:
        folder.mkdir()
    cells = [FakeCell(f, i, after=(FakeCell(f, 0),)) for i, f in enumerate(folders, start=1)]
    outcome = run_cells(cells, tmp_path, silent=True)
    assert outcome.finished == 2
    (failure,) = outcome.failures
    assert (failure.name, failure.reason) == ("cell 1", "not started: what it needs is not there")


@dataclass(frozen=True)
class Unwanted(FakeCell):
    """A cell that its process cannot even take."""

    def __setstate__(self, state: object) -> None:
        raise RuntimeError("unwanted")


def test_the_log_of_an_earlier_process_is_no_reason(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    log = tmp_path / "work" / "fake0.log"
    log.write_text("a traceback of last week\n")
    os.utime(log, (1.0, 1.0))
    (failure,) = run_cells([Unwanted(tmp_path, 0)], tmp_path, silent=True).failures
    assert (failure.reason, failure.tail) == ("ended with code 1", "")


def test_where_files_cannot_be_locked_cells_are_made_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codes = [errno.ENOLCK, errno.EIO]

    def refuse(*_: object) -> None:
        raise OSError(codes.pop(0), "refused")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with open(os.devnull) as file:
        assert locked(file)
        with pytest.raises(OSError, match="refused"):  # a broken disk is no missing lock
            locked(file)


@pytest.mark.skipif(sys.platform != "linux", reason="affinity is Linux's")
def test_every_worker_has_one_core_and_they_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # whatever else runs on this machine
    cores = available_cores()

    def release() -> None:
        while len(lines(tmp_path / "starts")) < len(cores):
            time.sleep(0.02)
        (tmp_path / RELEASE).touch()

    threading.Thread(target=release, daemon=True).start()
    run_cells([FakeCell(tmp_path, i, pause=60.0) for i in cores], tmp_path, silent=True)
    logs = {path.read_text().strip() for path in (tmp_path / "work").glob("*.log")}
    assert logs == {f"core [{core}]" for core in cores}


@pytest.mark.skipif(len(available_cores()) < 2, reason="needs two cores")
def test_two_runners_of_one_core_each_take_two_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    cores, folder = available_cores(), tmp_path / f"devote-cores-{os.getuid()}"
    folder.mkdir()
    with hold(folder / f"core{cores[0]}.lock", 1):
        run_cells([FakeCell(tmp_path, 0)], tmp_path, one_core(tmp_path), silent=True)
    run_cells([FakeCell(tmp_path, 1)], tmp_path, one_core(tmp_path), silent=True)
    used = [(tmp_path / "work" / f"fake{i}.log").read_text().strip() for i in (0, 1)]
    assert used == [f"core [{cores[1]}]", f"core [{cores[0]}]"]


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_ctrl_c_before_workers_have_begun_leaves_no_traceback(tmp_path: Path) -> None:
    words = [sys.executable, str(FAKE), str(tmp_path), "2", "30"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    runner = subprocess.Popen(words, start_new_session=True, **pipes)
    while not catches_interrupts(runner.pid):
        time.sleep(0.001)
    os.killpg(runner.pid, signal.SIGINT)
    output, _ = runner.communicate(timeout=60)
    assert b"stopped_by='SIGINT'" in output
    assert b"Traceback" not in output


def test_an_interrupt_stops_cleanly_and_the_same_command_goes_on(tmp_path: Path) -> None:
    runner = start(tmp_path, 2, 30.0)
    while len(lines(tmp_path / "starts")) < min(2, len(available_cores())):
        time.sleep(0.02)
    os.kill(runner.pid, signal.SIGINT)
    output, _ = runner.communicate(timeout=60)
    assert b"stopped_by='SIGINT'" in output
    assert b"failures=[]" in output
    assert not lines(tmp_path / "ends")
    assert start(tmp_path, 2, 0.0).wait(60) == 0
    assert sorted(lines(tmp_path / "ends")) == [0, 1]


def test_a_worker_begins_without_what_its_cell_does_not_need() -> None:
    code = "import devote.experiments.runner, sys; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
