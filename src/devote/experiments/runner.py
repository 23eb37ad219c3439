"""Makes what is missing: one process per core, each cell once, whoever is killed when."""

import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from devote.experiments.board import Board
from devote.experiments.cell import Cell
from devote.experiments.durations import Durations
from devote.experiments.worker import BUSY, SAYS, STOPPED, TOLD, is_busy, log_path, work
from devote.loops.signals import StopRequest

TAIL = 15  # lines of a failed cell's output
GLANCE = 0.5  # seconds between two looks at the signals
PAUSE = 10.0  # seconds before a cell that another process is at is tried again


@dataclass(frozen=True)
class Failure:
    """A cell that ended without its result."""

    name: str
    reason: str
    tail: str


@dataclass
class Outcome:
    """What a sitting came to."""

    finished: int = 0
    failures: list[Failure] = field(default_factory=list)
    stopped_by: str | None = None
    """The signal that ended the sitting early, if one did."""


def available_cores() -> list[int]:
    """The cores that this process may use."""
    if sys.platform == "linux":
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def run_cells(
    cells: Sequence[Cell], root: Path, cores: Sequence[int] | None = None, silent: bool = False
) -> Outcome:
    """Make the cells that are missing; report those that fail and go on with the others."""
    missing = _with_needs(cells)
    cores = available_cores() if cores is None else cores
    board = Board(missing, Durations.known(root), len(cores), silent)
    sitting = _Sitting(root / "work", list(cores), board)
    with StopRequest() as stop, board:
        sitting.waiting = missing
        try:
            while not stop.requested and sitting.fill():
                sitting.glance()
            if not stop.requested:
                sitting.give_up()
        finally:  # also where the records of others cannot be read
            sitting.end()
        sitting.outcome.stopped_by = stop.signal_name
    return sitting.outcome


def _with_needs(cells: Sequence[Cell]) -> list[Cell]:
    """Unfinished cells and, before them, what they need; each once, as large as it is wanted."""
    found: dict[str, Cell] = {}
    for cell in cells:
        known = found.get(cell.identity)
        if (known is None or known.size < cell.size) and not cell.finished():
            found |= {need.identity: need for need in _with_needs(cell.needs)}
            found[cell.identity] = cell
    return list(found.values())


@dataclass
class _Running:
    cell: Cell
    core: int
    process: BaseProcess
    started: float
    """By the monotonic clock."""
    log_before: int | None
    """When what lay in the place of its log was written; see `_stamp`."""


class _Sitting:
    """The cells that wait and the processes that work."""

    def __init__(self, workplace: Path, cores: list[int], board: Board) -> None:
        self.workplace, self.board = workplace, board
        self.free = cores
        self.waiting: list[Cell] = []
        self.running: list[_Running] = []
        self.later: dict[str, float] = {}  # cells that another process is at, and when to try
        self.outcome = Outcome()
        self.lost: set[str] = set()

    def fill(self) -> bool:
        """Start cells while cores are free; whether there is anything to wait for."""
        while self.free and (cell := self._next()) is not None:
            self._start(cell, self.free.pop(0))
        return bool(self.running or self.later)

    def glance(self) -> None:
        """Wait a moment, then see who has ended."""
        if self.running:
            wait([runner.process.sentinel for runner in self.running], timeout=GLANCE)
        else:
            time.sleep(GLANCE)
        for runner in [r for r in self.running if r.process.exitcode is not None]:
            self.running.remove(runner)
            self.free.append(runner.core)
            self._judge(runner)
        self.board.show({r.cell.identity: time.monotonic() - r.started for r in self.running})

    def give_up(self) -> None:
        """Nothing runs and nothing can start: nobody is left out without a word."""
        for cell in self.waiting:
            self._fail(cell, "not started: what it needs is not there", "")

    def end(self) -> None:
        """Ask everybody to stop, after saving where they can, and wait until they have."""
        for runner in self.running:
            if runner.process.exitcode is None and runner.process.pid is not None:
                os.kill(runner.process.pid, signal.SIGTERM)
        for runner in self.running:
            runner.process.join()
            if runner.cell.finished():
                self._count(runner)

    def _next(self) -> Cell | None:
        for cell in list(self.waiting):
            blocked = [need for need in cell.needs if need.identity in self.lost]
            if cell.identity in self.later and cell.finished():
                self._found(cell)
                return self._next()  # somebody before it may have waited for it
            elif self.later.get(cell.identity, 0.0) > time.monotonic():
                continue
            elif cell.identity in self.later and is_busy(self.workplace, cell):
                self.later[cell.identity] = time.monotonic() + PAUSE
            elif blocked:
                self.waiting.remove(cell)
                self._fail(cell, f"not started: it needs {blocked[0].name}, which failed", "")
            elif all(need.finished() for need in cell.needs):
                self.waiting.remove(cell)
                return cell
        return None

    def _found(self, cell: Cell) -> None:
        self.waiting.remove(cell)
        del self.later[cell.identity]
        self.outcome.finished += 1
        self.board.found(cell)

    def _start(self, cell: Cell, core: int) -> None:
        self.later.pop(cell.identity, None)
        before = _stamp(log_path(self.workplace, cell))
        # Not forked: a forked copy of a process that uses JAX can lock up.
        process = get_context("spawn").Process(
            target=work, args=(cell, self.workplace, core), name=cell.name
        )
        # Ctrl-C goes to the whole group, and a worker leaves it only when it has begun
        resource_tracker.ensure_running()  # which itself would lift the block
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        self.running.append(_Running(cell, core, process, time.monotonic(), before))
        self.board.started(cell)

    def _judge(self, runner: _Running) -> None:
        code = runner.process.exitcode
        if code == BUSY:
            self.later[runner.cell.identity] = time.monotonic() + PAUSE
            self.waiting.append(runner.cell)
            return
        if code == 0 and runner.cell.finished():
            self._count(runner)
            return
        log = log_path(self.workplace, runner.cell)
        said = _lines(log) if _stamp(log) != runner.log_before else []
        more = "\n".join([*said[-TAIL:], f"(all of it: {log})"]) if said else ""
        self._fail(runner.cell, _reason(code, said), more)

    def _count(self, runner: _Running) -> None:
        self.outcome.finished += 1
        self.board.done(runner.cell, time.monotonic() - runner.started)

    def _fail(self, cell: Cell, reason: str, tail: str) -> None:
        failure = Failure(cell.name, reason, tail)
        self.lost.add(cell.identity)
        self.outcome.failures.append(failure)
        self.board.failed(cell, reason, tail)


def _reason(code: int | None, said: Sequence[str]) -> str:
    """Why a cell has no result, in its own words where it left any."""
    if code == -signal.SIGKILL:
        return "killed from outside; was there enough memory?"
    if code is not None and code < 0:
        return f"ended by {signal.Signals(-code).name}"
    if code == STOPPED:
        return "stopped from outside; what it had is saved"
    last = said[-1] if said else ""
    told = [line for line in said if line.startswith(SAYS)]
    if code == TOLD and told:
        first = told[-1].removeprefix(SAYS)
        return first if told[-1] == last else f"{first} {last}"
    if code:
        return f"ended with code {code}" + (f": {last}" if last else "")
    return "ended without a result"


def _stamp(path: Path) -> int | None:
    """What changes when a file is written: an unchanged log is an earlier process's."""
    return path.stat().st_mtime_ns if path.is_file() else None


def _lines(path: Path) -> list[str]:
    """What a cell has said, without empty lines."""
    if not path.is_file():
        return []
    return [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
