"""Runs the missing cells of a study, each exactly once even where processes are killed, on the
cores of this machine or by another engine."""

import errno
import fcntl
import multiprocessing
import os
import secrets
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO, Protocol, TypeVar

from devote.core.errors import DivergedError, EnvironmentFailedError, UserError
from devote.experiments.cells import Cell, write_record
from devote.experiments.durations import Board, Durations
from devote.loops.signals import StopRequest

TAIL = 15  # lines of a failed cell's output
POLL_SECONDS = 0.5  # between two looks at the signals
RETRY_SECONDS = 10.0  # before a cell that another process is at is tried again
BUSY = os.EX_TEMPFAIL  # exit code of a worker whose cell is locked by another process
EXPLAINED = 2  # exit code of a worker that has logged an error message
STOPPED = 128 + signal.SIGTERM  # exit code of a worker that was stopped and has saved a checkpoint
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)  # errors of file systems without locks
MESSAGE = "devote: "  # start of a log line with an error message
SAVED = "stopped from outside; what it had is saved"
C = TypeVar("C", bound=Cell)


@dataclass(frozen=True)
class Failure:
    """A cell that ended without a result."""

    name: str
    reason: str
    tail: str


@dataclass
class StudyOutcome:
    """The outcome of `run_cells`."""

    finished: int = 0
    failures: list[Failure] = field(default_factory=list)
    stopped_by: str | None = None  # the signal that ended it early, if any


class Engine(Protocol):
    """Runs several cells at a time, each in a process of its own that calls `work`."""

    @property
    def slots(self) -> int:
        """How many cells run at a time."""

    def start(self, cell: Cell) -> None:
        """Start or resume a cell."""

    def ended(self, timeout: float) -> dict[str, int | str]:
        """Wait up to `timeout`; exit codes of ended cells by identity, or what happened instead."""

    def stop(self, identities: Sequence[str]) -> None:
        """Ask cells to save and stop, and wait until they have."""


def available_cores() -> list[int]:
    """The cores that this process may use."""
    linux = sys.platform == "linux"
    return sorted(os.sched_getaffinity(0) if linux else range(os.cpu_count() or 1))


class LocalEngine:
    """One process per core. Not `concurrent.futures` or loky: in both, a killed worker (out of
    memory, say) ends the work of all others."""

    def __init__(self, folder: Path, slots: int, cores: int = 1) -> None:
        self.folder, self.slots, self.cores = folder, slots, cores
        self.running: dict[str, BaseProcess] = {}

    def start(self, cell: Cell) -> None:
        """Spawn a process; a forked copy of one that uses JAX can deadlock."""
        process = get_context("spawn").Process(
            target=work, args=(cell, self.folder, self.cores), name=cell.name
        )
        # Ctrl-C goes to the whole group, and a worker leaves it only when it has begun
        resource_tracker.ensure_running()  # which itself would lift the block
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        self.running[cell.identity] = process

    def ended(self, timeout: float | None) -> dict[str, int | str]:
        """Exit codes of ended cells by identity."""
        wait([process.sentinel for process in self.running.values()], timeout)
        codes = {identity: process.exitcode for identity, process in self.running.items()}
        gone: dict[str, int | str] = {i: code for i, code in codes.items() if code is not None}
        self.running = {i: process for i, process in self.running.items() if i not in gone}
        return gone

    def stop(self, identities: Sequence[str]) -> None:
        """Send SIGTERM, on which a training saves and stops, and wait."""
        processes = [self.running[i] for i in identities if i in self.running]
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()
        self.ended(0)


def run_cells(
    cells: Sequence[Cell], root: Path, engine: Engine | None = None, silent: bool = False
) -> StudyOutcome:
    """Run the missing cells; report those that fail and go on with the others."""
    missing, folder = with_needs(cells, unfinished=True), root / "work"
    engine = engine or LocalEngine(folder, len(available_cores()))
    board = Board(missing, Durations.known(root), engine.slots, silent)
    queue = CellQueue(folder, engine, board, missing)
    with StopRequest() as stop, board:
        try:
            while not stop.requested and queue.fill():
                queue.poll()
            if not stop.requested:
                for cell in queue.waiting:  # nothing runs and nothing can start
                    queue.fail(cell, "not started: what it needs is not there")
        finally:  # also where the records of others cannot be read
            queue.stop()
        queue.outcome.stopped_by = stop.signal_name
    return queue.outcome


def with_needs(cells: Sequence[C], unfinished: bool = False) -> list[C]:
    """Cells, or the unfinished ones, each after those it needs; of equal ones the largest."""
    found: dict[str, C] = {}
    for cell in cells:
        known = found.get(cell.identity)
        if (known is None or known.size < cell.size) and not (unfinished and cell.finished()):
            found |= {need.identity: need for need in with_needs(cell.needs, unfinished)}  # type: ignore[misc]
            found[cell.identity] = cell
    return list(found.values())


class CellQueue:
    """Waiting and running cells."""

    def __init__(self, folder: Path, engine: Engine, board: Board, cells: list[Cell]) -> None:
        self.folder, self.engine, self.board = folder, engine, board
        self.waiting = cells
        self.running: dict[str, tuple[Cell, float]] = {}  # and when, by the monotonic clock
        self.later: dict[str, float] = {}  # cells that another process is at, and when to try
        self.failed: dict[str, str] = {}
        self.outcome = StudyOutcome()

    def fill(self) -> bool:
        """Start cells while there are free slots; whether any is running or to be retried."""
        while len(self.running) < self.engine.slots and (cell := self._next()) is not None:
            self.later.pop(cell.identity, None)
            if not is_busy(self.folder, cell):  # what an earlier process said is no reason
                log_path(self.folder, cell).unlink(missing_ok=True)
            self.engine.start(cell)
            self.running[cell.identity] = cell, time.monotonic()
            self.board.started(cell)
        return bool(self.running or self.later)

    def poll(self) -> None:
        """Wait briefly, then handle the cells that have ended."""
        if not self.running:
            time.sleep(POLL_SECONDS)
        for identity, code in self.engine.ended(POLL_SECONDS).items():
            self._ended(*self.running.pop(identity), code)
        now = time.monotonic()
        self.board.show({i: now - started for i, (_, started) in self.running.items()})

    def stop(self, cells: Sequence[Cell] | None = None) -> None:
        """Ask some or all cells to save and stop, and wait until they have."""
        names = list(self.running) if cells is None else [cell.identity for cell in cells]
        self.waiting = [cell for cell in self.waiting if cell.identity not in names]
        self.engine.stop(names)
        for cell, started in [self.running.pop(name) for name in names if name in self.running]:
            if cell.finished():
                self._done(cell, started)

    def fail(self, cell: Cell, reason: str, tail: str = "") -> None:
        """Mark a cell as failed; no cell waits for it any longer."""
        self.failed[cell.identity] = reason
        self.outcome.failures.append(Failure(cell.name, reason, tail))
        self.board.failed(cell, reason, tail)

    def _next(self) -> Cell | None:
        for cell in list(self.waiting):
            blocked = [need for need in cell.needs if need.identity in self.failed]
            retry = self.later.get(cell.identity)  # when, if another process was at it
            if retry is not None and cell.finished():
                self.waiting.remove(cell)
                del self.later[cell.identity]
                self.outcome.finished += 1
                self.board.found(cell)
                return self._next()  # somebody before it may have waited for it
            elif retry is not None and retry > time.monotonic():
                continue
            elif retry is not None and is_busy(self.folder, cell):
                self.later[cell.identity] = time.monotonic() + RETRY_SECONDS
            elif blocked:
                self.waiting.remove(cell)
                self.fail(cell, f"not started: it needs {blocked[0].name}, which failed")
            elif all(need.finished() for need in cell.needs):
                self.waiting.remove(cell)
                return cell
        return None

    def _ended(self, cell: Cell, started: float, code: int | str) -> None:
        if code == BUSY:
            self.later[cell.identity] = time.monotonic() + RETRY_SECONDS
            self.waiting.append(cell)
        elif code == 0 and cell.finished():
            self._done(cell, started)
        else:
            log = log_path(self.folder, cell)
            lines = log_lines(log)
            tail = "\n".join([*lines[-TAIL:], f"(all of it: {log})"]) if lines else ""
            self.fail(cell, reason_of(code, lines), tail)

    def _done(self, cell: Cell, started: float) -> None:
        self.outcome.finished += 1
        self.board.done(cell, time.monotonic() - started)


def reason_of(code: int | str | None, lines: Sequence[str]) -> str:
    """Why a cell has no result, from its log where it says so; the code None is unknown."""
    last = lines[-1] if lines else ""
    messages = [line for line in lines if line.startswith(MESSAGE)]
    if isinstance(code, str):
        return code
    if code == -signal.SIGKILL:
        return "killed from outside; was there enough memory?"
    if code is not None and code < 0:
        return f"ended by {signal.Signals(-code).name}"
    if code == STOPPED:
        return SAVED
    if code in (EXPLAINED, None) and messages:
        first = messages[-1].removeprefix(MESSAGE)
        return first if messages[-1] == last else f"{first} {last}"
    if code:
        return f"ended with code {code}" + (f": {last}" if last else "")
    return "ended without a result" + (f": {last}" if last and code is None else "")


def log_path(folder: Path, cell: Cell) -> Path:
    """The output of a cell's process."""
    return folder / f"{cell.identity}.log"


def log_lines(path: Path) -> list[str]:
    """The lines of a log that are not blank; none where there is no log."""
    text = path.read_text(errors="replace") if path.is_file() else ""
    return [line for line in text.splitlines() if line.strip()]


def work(cell: Cell, folder: Path, cores: int) -> None:
    """Body of a cell's process: run it unless it is finished by now, pinned to as many free cores;
    ends by `sys.exit`."""
    if os.getpgid(0) != os.getpid():
        os.setpgid(0, 0)  # Ctrl-C goes to the runner alone, which passes it on once
    _stop_with_runner()
    folder.mkdir(parents=True, exist_ok=True)
    with open(_lock_path(folder, cell), "a") as lock, ExitStack() as held:
        if not locked(lock):  # by another runner's worker, or one whose runner was killed
            sys.exit(BUSY)
        if sys.platform == "linux":
            _pin(cores, held)  # before a compiler counts the cores
        # after the lock: the log is the other's until then
        log = os.open(log_path(folder, cell), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        os.dup2(log, sys.stdout.fileno())
        os.dup2(log, sys.stderr.fileno())
        os.close(log)
        _make(cell)


def is_busy(folder: Path, cell: Cell) -> bool:
    """Whether another process has locked the cell."""
    if not _lock_path(folder, cell).is_file():
        return False
    with open(_lock_path(folder, cell), "a") as lock:
        return not locked(lock)


def locked(file: IO[str]) -> bool:
    """Lock a file until it is closed; False where another process holds the lock."""
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


def _pin(number: int, held: ExitStack) -> None:
    """Pin this process to free cores of this machine; locks tell which are taken."""
    folder = Path(tempfile.gettempdir()) / f"devote-cores-{os.getuid()}"
    allowed, chosen = available_cores(), set[int]()
    with suppress(PermissionError):  # somebody else's folder
        folder.mkdir(exist_ok=True)
        for core in allowed:
            lock = held.enter_context((folder / f"core{core}.lock").open("a"))
            if len(chosen) < number and locked(lock):
                chosen.add(core)
    os.sched_setaffinity(0, chosen or {allowed[os.getpid() % len(allowed)]})


def _make(cell: Cell) -> None:
    if cell.finished():
        return
    started = time.perf_counter()
    try:
        if cell.make():
            write_record(cell, time.perf_counter() - started)
            return
        message, code = SAVED, STOPPED
    except (UserError, EnvironmentFailedError, DivergedError) as error:
        message, code = str(error), EXPLAINED
    except OSError as error:
        if error.filename is None:
            raise
        message, code = f"cannot use {error.filename}: {error.strerror}", EXPLAINED
    print(f"{MESSAGE}{message}", file=sys.stderr)
    sys.exit(code)


@contextmanager
def shared_token(folder: Path) -> Iterator[tuple[Path, str]]:
    """A file that nodes see if they share the folder, and the version they should have."""
    folder.mkdir(parents=True, exist_ok=True)
    token = folder.absolute() / f"shared-{secrets.token_hex(8)}"
    token.touch()
    try:
        yield token, version("devote")
    finally:
        token.unlink()


def difference(expected: str, cwd: Path, token: Path) -> str:
    """Runs on a node: what differs there in version or directories; empty where nothing does."""
    if version("devote") != expected:
        return f"devote {version('devote')}"
    if not cwd.is_dir():
        return f"no directory {cwd}"
    return "" if token.is_file() else f"another {token.parent} than the one here"


def _stop_with_runner() -> None:
    """Send this process SIGTERM when its runner has died."""
    runner = multiprocessing.parent_process()
    if runner is None:
        return

    def watch() -> None:
        wait([runner.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
