"""A thread for environments, so that learning runs beside them and a hang is noticed."""

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Any, NoReturn, TypeVar

from devote.core.errors import EnvironmentFailedError, UserError

T = TypeVar("T")
POLL = 0.5  # seconds between two checks for a hang
NICENESS = 10
"""Lower priority of environments: learning, which they wait for, goes first."""

Tell = Callable[[], tuple[str, str, object]]
"""Which environment is running, in which call, with which action."""
_RUNNING: dict[int, Tell] = {}
"""By thread, the one of several environments that runs now."""


@contextmanager
def asking_one(tell: Tell) -> Iterator[None]:
    """Within a call to several environments, mark the one that runs now."""
    thread = threading.get_ident()
    _RUNNING[thread] = tell
    try:
        yield
    finally:
        _RUNNING.pop(thread, None)


def step_back() -> None:
    """Lower the priority of this thread and of those that it starts (on Linux)."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with suppress(OSError):  # a sandbox may forbid it
            now = os.getpriority(os.PRIO_PROCESS, thread)
            os.setpriority(os.PRIO_PROCESS, thread, max(now, NICENESS))


def aside(make: Callable[[], T]) -> T:
    """Call `make`; threads that it starts get a lower priority."""
    with ThreadPoolExecutor(1, initializer=step_back) as pool:
        return pool.submit(make).result()


_STAYING: set[int] = set()
"""Threads in which an environment's code runs."""


@contextmanager
def staying() -> Iterator[None]:
    """Within it, `os._exit` of this thread raises: an environment must not end the run, unsaved and
    without a message."""
    entered = {threading.get_ident()} - _STAYING  # empty if this is within another one
    os._exit = _exit  # type: ignore[assignment]
    _STAYING.update(entered)
    try:
        yield
    finally:
        _STAYING.difference_update(entered)


def _exit(code: int, leave: Callable[[int], NoReturn] = os._exit, pid: int = os.getpid()) -> None:
    if threading.get_ident() in _STAYING and os.getpid() == pid:
        raise SystemExit(f"os._exit({code})")
    leave(code)


class Worker:
    """Makes calls one after another in a daemon thread."""

    def __init__(self, timeout: float, setting: str = "") -> None:
        self.timeout = timeout  # 0 waits for ever
        self.setting = setting  # how messages call the timeout
        self.lost = False  # whether a call hangs
        self.closed = False
        self._asked: tuple[float, str, str, object] | None = None
        self._tasks: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Queue a call."""
        if self.closed:
            raise UserError("open environments", "closed ones", "make a new model")
        task: Future[T] = Future()
        self._tasks.put((task, call))
        return task

    def wait(self, task: Future[T]) -> T:
        """The result of a call, or its exception, or an error that shows where it hangs."""
        patience = min(POLL, self.timeout / 4) if self.timeout > 0 else POLL
        while wait([task], patience).not_done:
            self._require_life()
        return task.result()

    def run(self, call: Callable[[], T]) -> T:
        """Make a call and wait for its result."""
        return self.wait(self.submit(call))

    @contextmanager
    def asking(self, which: str, when: str, action: object) -> Iterator[None]:
        """Within a call, mark the time that counts for the timeout."""
        self._asked = (time.monotonic(), which, when, action)
        try:
            yield
        finally:
            self._asked = None

    def close(self) -> None:
        """End the thread after the calls that are queued."""
        self.closed = True
        self._tasks.put(None)

    def _work(self) -> None:
        step_back()
        with staying():
            while (todo := self._tasks.get()) is not None:
                task, call = todo
                try:
                    task.set_result(call())
                except BaseException as error:  # raised again where the result is waited for
                    task.set_exception(error)

    def _require_life(self) -> None:
        asked = self._asked
        if asked is None or self.timeout <= 0 or time.monotonic() - asked[0] < self.timeout:
            return
        self.lost = True
        _, which, when, action = asked
        thread = self._thread.ident or 0
        tell = _RUNNING.get(thread)
        if tell is not None:
            one, what, action = tell()
            which, when = f"{one}, {which},", f"{what}, {when}"
        frame = sys._current_frames().get(thread)
        stack = "".join(traceback.format_stack(frame)) if frame else ""
        words = f"nothing for {self.timeout:g} s{self.setting}; it is at\n{stack}"
        raise EnvironmentFailedError.of(which, when, action, words)
