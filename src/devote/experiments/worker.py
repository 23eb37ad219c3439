"""The process of one cell: one core, its own log, and no life after its runner's."""

import errno
import fcntl
import multiprocessing
import os
import signal
import sys
import threading
import time
from contextlib import ExitStack
from multiprocessing.connection import wait
from pathlib import Path
from typing import IO

from devote.core.errors import DivergedError, EnvironmentFailedError, UserError
from devote.experiments.cell import Cell
from devote.experiments.record import write_record

BUSY = os.EX_TEMPFAIL
"""How a worker ends that finds another process at its cell."""
TOLD = 2
"""How a worker ends whose log says what is wrong."""
STOPPED = 128 + signal.SIGTERM
"""How a worker ends that was stopped and has saved what it had."""
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
"""What file systems without locks say."""
SAYS = "devote: "
"""How a line begins that says what is wrong."""


def work(cell: Cell, workplace: Path, core: int | None) -> None:
    """Make one cell, unless somebody has made it meanwhile; leaves by `sys.exit`."""
    os.setpgid(0, 0)  # Ctrl-C goes to the runner alone, which passes it on once
    _stop_with_runner()
    workplace.mkdir(parents=True, exist_ok=True)
    with open(_lock_path(workplace, cell), "a") as lock, ExitStack() as held:
        if not _locked(lock):  # by another runner's worker, or one whose runner was killed
            sys.exit(BUSY)
        if core is not None and sys.platform == "linux":
            _pin(core, workplace, held)  # before a compiler counts the cores
        _log_to(log_path(workplace, cell))  # after the lock: the log is the other's until then
        _make(cell)


def _locked(file: IO[str]) -> bool:
    """Whether the file is ours now, until it is closed."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:  # there, nobody can be kept out
            raise
    return True


def is_busy(workplace: Path, cell: Cell) -> bool:
    """Whether another process is at the cell."""
    workplace.mkdir(parents=True, exist_ok=True)
    with open(_lock_path(workplace, cell), "a") as lock:
        return not _locked(lock)


def _lock_path(workplace: Path, cell: Cell) -> Path:
    return workplace / f"{cell.identity}.lock"


def _pin(core: int, workplace: Path, held: ExitStack) -> None:
    """Stay on a core where no worker of another runner is: the one given, else any other."""
    others = sorted(os.sched_getaffinity(0) - {core})
    for chosen in (core, *others):
        lock = held.enter_context((workplace / f"core{chosen}.lock").open("a"))
        if _locked(lock):
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
        print(f"{SAYS}{error}", file=sys.stderr)
        sys.exit(TOLD)
    except OSError as error:
        if error.filename is None:
            raise
        print(f"{SAYS}cannot use {error.filename}: {error.strerror}", file=sys.stderr)
        sys.exit(TOLD)


def log_path(workplace: Path, cell: Cell) -> Path:
    """Where the output of a cell goes."""
    return workplace / f"{cell.identity}.log"


def _log_to(path: Path) -> None:
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())
    os.close(log)


def _stop_with_runner() -> None:
    """Ask this process to stop when its runner has gone, however that died."""
    runner = multiprocessing.parent_process()
    if runner is None:
        return

    def watch() -> None:
        wait([runner.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
