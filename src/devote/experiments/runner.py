"""Makes what is missing: one process per core, each cell once, whoever is killed when."""

import errno
import fcntl
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO, TypeVar

from devote.core.errors import DivergedError, EnvironmentFailedError, UserError
from devote.experiments.cells import Cell, write_record
from devote.experiments.durations import Board, Durations
from devote.loops.signals import StopRequest

TAIL = 15  # lines of a failed cell's output
POLL_SECONDS = 0.5  # between two looks at the signals
RETRY_SECONDS = 10.0  # before a cell that another process is at is tried again
BUSY = os.EX_TEMPFAIL
"""Exit code of a worker that finds another process at its cell."""
EXPLAINED = 2
"""Exit code of a worker whose log says what is wrong."""
STOPPED = 128 + signal.SIGTERM
"""Exit code of a worker that was stopped and has saved what it had."""
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
"""What file systems without locks say."""
MESSAGE = "devote: "
"""How a line of a log begins that says what is wrong."""
C = TypeVar("C", bound=Cell)


@dataclass(frozen=True)
class Failure:
    """A cell that ended without its result."""

    name: str
    reason: str
    tail: str


@dataclass
class StudyOutcome:
    """What a call of `run_cells` came to."""

    finished: int = 0
    failures: list[Failure] = field(default_factory=list)
    stopped_by: str | None = None
    """The signal that ended it early, if one did."""


def available_cores() -> list[int]:
    """The cores that this process may use."""
    if sys.platform == "linux":
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def run_cells(
    cells: Sequence[Cell], root: Path, cores: Sequence[int] | None = None, silent: bool = False
) -> StudyOutcome:
    """Make the cells that are missing; report those that fail and go on with the others."""
    missing = with_needs(cells, unfinished=True)
    cores = available_cores() if cores is None else cores
    board = Board(missing, Durations.known(root), len(cores), silent)
    pool = _Pool(root / "work", list(cores), board, missing)
    with StopRequest() as stop, board:
        try:
            while not stop.requested and pool.fill():
                pool.poll()
            if not stop.requested:
                for cell in pool.waiting:  # nothing runs and nothing can start
                    pool.fail(cell, "not started: what it needs is not there")
        finally:  # also where the records of others cannot be read
            pool.stop()
        pool.outcome.stopped_by = stop.signal_name
    return pool.outcome


def with_needs(cells: Sequence[C], unfinished: bool = False) -> list[C]:
    """Cells, or the unfinished ones, after what they need; each once, the largest of its work."""
    found: dict[str, C] = {}
    for cell in cells:
        known = found.get(cell.identity)
        if (known is None or known.size < cell.size) and not (unfinished and cell.finished()):
            found |= {need.identity: need for need in with_needs(cell.needs, unfinished)}  # type: ignore[misc]
            found[cell.identity] = cell
    return list(found.values())


@dataclass
class _Worker:
    cell: Cell
    core: int
    process: BaseProcess
    started: float
    """By the monotonic clock."""
    old_log: int | None
    """When a log that was there before was written; see `_written_at`."""


class _Pool:
    """The cells that wait and the processes that work."""

    def __init__(self, folder: Path, cores: list[int], board: Board, cells: list[Cell]) -> None:
        self.folder, self.board, self.free = folder, board, cores
        self.waiting = cells
        self.workers: list[_Worker] = []
        self.later: dict[str, float] = {}  # cells that another process is at, and when to try
        self.failed: set[str] = set()
        self.outcome = StudyOutcome()

    def fill(self) -> bool:
        """Start cells while cores are free; whether there is anything to wait for."""
        while self.free and (cell := self._next()) is not None:
            self._start(cell, self.free.pop(0))
        return bool(self.workers or self.later)

    def poll(self) -> None:
        """Wait a moment, then see who has ended."""
        if self.workers:
            wait([worker.process.sentinel for worker in self.workers], timeout=POLL_SECONDS)
        else:
            time.sleep(POLL_SECONDS)
        for worker in [w for w in self.workers if w.process.exitcode is not None]:
            self.workers.remove(worker)
            self.free.append(worker.core)
            self._ended(worker)
        self.board.show({w.cell.identity: time.monotonic() - w.started for w in self.workers})

    def stop(self) -> None:
        """Ask everybody to stop, after saving where they can, and wait until they have."""
        for worker in self.workers:
            if worker.process.exitcode is None and worker.process.pid is not None:
                os.kill(worker.process.pid, signal.SIGTERM)
        for worker in self.workers:
            worker.process.join()
            if worker.cell.finished():
                self._done(worker)

    def fail(self, cell: Cell, reason: str, tail: str = "") -> None:
        """A cell that has no result, and that no other cell waits for any longer."""
        self.failed.add(cell.identity)
        self.outcome.failures.append(Failure(cell.name, reason, tail))
        self.board.failed(cell, reason, tail)

    def _next(self) -> Cell | None:
        for cell in list(self.waiting):
            blocked = [need for need in cell.needs if need.identity in self.failed]
            if cell.identity in self.later and cell.finished():
                self.waiting.remove(cell)
                del self.later[cell.identity]
                self.outcome.finished += 1
                self.board.found(cell)
                return self._next()  # somebody before it may have waited for it
            elif self.later.get(cell.identity, 0.0) > time.monotonic():
                continue
            elif cell.identity in self.later and is_busy(self.folder, cell):
                self.later[cell.identity] = time.monotonic() + RETRY_SECONDS
            elif blocked:
                self.waiting.remove(cell)
                self.fail(cell, f"not started: it needs {blocked[0].name}, which failed")
            elif all(need.finished() for need in cell.needs):
                self.waiting.remove(cell)
                return cell
        return None

    def _start(self, cell: Cell, core: int) -> None:
        self.later.pop(cell.identity, None)
        old_log = _written_at(_log_path(self.folder, cell))
        # Not forked: a forked copy of a process that uses JAX can lock up.
        process = get_context("spawn").Process(
            target=work, args=(cell, self.folder, core), name=cell.name
        )
        # Ctrl-C goes to the whole group, and a worker leaves it only when it has begun
        resource_tracker.ensure_running()  # which itself would lift the block
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        self.workers.append(_Worker(cell, core, process, time.monotonic(), old_log))
        self.board.started(cell)

    def _ended(self, worker: _Worker) -> None:
        code, cell = worker.process.exitcode, worker.cell
        if code == BUSY:
            self.later[cell.identity] = time.monotonic() + RETRY_SECONDS
            self.waiting.append(cell)
        elif code == 0 and cell.finished():
            self._done(worker)
        else:
            log, lines = _log_path(self.folder, cell), []
            if _written_at(log) not in (None, worker.old_log):
                text = log.read_text(errors="replace")
                lines = [line for line in text.splitlines() if line.strip()]
            tail = "\n".join([*lines[-TAIL:], f"(all of it: {log})"]) if lines else ""
            self.fail(cell, _reason(code, lines), tail)

    def _done(self, worker: _Worker) -> None:
        self.outcome.finished += 1
        self.board.done(worker.cell, time.monotonic() - worker.started)


def _reason(code: int | None, lines: Sequence[str]) -> str:
    """Why a cell has no result, in its own words where it left any."""
    if code == -signal.SIGKILL:
        return "killed from outside; was there enough memory?"
    if code is not None and code < 0:
        return f"ended by {signal.Signals(-code).name}"
    if code == STOPPED:
        return "stopped from outside; what it had is saved"
    last = lines[-1] if lines else ""
    messages = [line for line in lines if line.startswith(MESSAGE)]
    if code == EXPLAINED and messages:
        first = messages[-1].removeprefix(MESSAGE)
        return first if messages[-1] == last else f"{first} {last}"
    if code:
        return f"ended with code {code}" + (f": {last}" if last else "")
    return "ended without a result"


def _written_at(path: Path) -> int | None:
    """What changes when a file is written: an unchanged log is an earlier process's."""
    return path.stat().st_mtime_ns if path.is_file() else None


def _log_path(folder: Path, cell: Cell) -> Path:
    return folder / f"{cell.identity}.log"


def work(cell: Cell, folder: Path, core: int | None) -> None:
    """The process of one cell: make it, unless somebody has meanwhile; leaves by `sys.exit`."""
    os.setpgid(0, 0)  # Ctrl-C goes to the runner alone, which passes it on once
    _stop_with_runner()
    folder.mkdir(parents=True, exist_ok=True)
    with open(_lock_path(folder, cell), "a") as lock, ExitStack() as held:
        if not locked(lock):  # by another runner's worker, or one whose runner was killed
            sys.exit(BUSY)
        if core is not None and sys.platform == "linux":
            _pin(core, folder, held)  # before a compiler counts the cores
        # after the lock: the log is the other's until then
        log = os.open(_log_path(folder, cell), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        os.dup2(log, sys.stdout.fileno())
        os.dup2(log, sys.stderr.fileno())
        os.close(log)
        _make(cell)


def is_busy(folder: Path, cell: Cell) -> bool:
    """Whether another process is at the cell."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(_lock_path(folder, cell), "a") as lock:
        return not locked(lock)


def locked(file: IO[str]) -> bool:
    """Lock a file until it is closed; False where another process has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:  # there, nobody can be kept out
            raise
    return True


def _lock_path(folder: Path, cell: Cell) -> Path:
    return folder / f"{cell.identity}.lock"


def _pin(core: int, folder: Path, held: ExitStack) -> None:
    """Stay on a core where no worker of another runner is: the one given, else any other."""
    others = sorted(os.sched_getaffinity(0) - {core})
    for chosen in (core, *others):
        if locked(held.enter_context((folder / f"core{chosen}.lock").open("a"))):
            os.sched_setaffinity(0, {chosen})
            return
    os.sched_setaffinity(0, {core})


def _make(cell: Cell) -> None:
    if cell.finished():
        return
    started = time.perf_counter()
    try:
        if not cell.make():
            sys.exit(STOPPED)
        write_record(cell, time.perf_counter() - started)
    except (UserError, EnvironmentFailedError, DivergedError) as error:
        message = str(error)
    except OSError as error:
        if error.filename is None:
            raise
        message = f"cannot use {error.filename}: {error.strerror}"
    else:
        return
    print(f"{MESSAGE}{message}", file=sys.stderr)
    sys.exit(EXPLAINED)


def _stop_with_runner() -> None:
    """Ask this process to stop when its runner has gone, however that died."""
    runner = multiprocessing.parent_process()
    if runner is None:
        return

    def watch() -> None:
        wait([runner.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
