"""A thread of its own for environments, so that learning goes on beside them and hangs are seen."""

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar

from devote.core.errors import EnvironmentFailedError, UserError

T = TypeVar("T")
GLANCE = 0.5  # seconds between two looks at a thread that keeps us waiting
NICENESS = 10
"""How far environments step back behind learning; half of a product must not wait for them."""

Tell = Callable[[], tuple[str, str, object]]
"""Which environment is asked, what for, and with what action."""
_ASKED_ONE: dict[int, Tell] = {}
"""By thread, the one of several environments that it is asking now."""


@contextmanager
def asking_one(tell: Tell) -> Iterator[None]:
    """Marks, within a call to several environments, which of them is being asked."""
    thread = threading.get_ident()
    _ASKED_ONE[thread] = tell
    try:
        yield
    finally:
        _ASKED_ONE.pop(thread, None)


def step_back() -> None:
    """Let this thread, and those that it starts, run where others leave a core (on Linux)."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with suppress(OSError):  # a sandbox may forbid it: then they compete
            now = os.getpriority(os.PRIO_PROCESS, thread)
            os.setpriority(os.PRIO_PROCESS, thread, max(now, NICENESS))


class Task(Generic[T]):
    """A call under way in a worker."""

    def __init__(self, call: Callable[[], T]) -> None:
        self.call = call
        self.done = threading.Event()
        self.value: T
        self.error: BaseException | None = None

    def result(self) -> T:
        """What came of a call that is done."""
        if self.error is not None:
            raise self.error
        return self.value

    def run(self) -> None:
        """Make the call and keep what came of it."""
        try:
            self.value = self.call()
        except BaseException as error:  # handed to whoever waits for the result
            self.error = error
        finally:
            self.done.set()


def aside(make: Callable[[], T]) -> T:
    """What `make` makes; the threads that it starts step back."""

    def call() -> T:
        step_back()
        return make()

    task = Task(call)
    thread = threading.Thread(target=task.run)
    thread.start()
    thread.join()
    return task.result()


class Worker:
    """Makes one call after another in one thread; it never keeps the process from ending."""

    def __init__(self, timeout: float, setting: str = "") -> None:
        self.timeout = timeout  # 0 waits for ever
        self.setting = setting  # what a user would call the timeout
        self.lost = False  # whether the thread hangs and was given up
        self.closed = False
        self._asked: tuple[float, str, str, object] | None = None
        self._tasks: list[Task[Any]] = []
        self._wake = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._work, daemon=True, name="environments")
        self._thread.start()

    def submit(self, call: Callable[[], T]) -> Task[T]:
        """Begin a call."""
        if self.closed:  # nobody is left to make it
            fix = "make them again, such as by a new model"
            raise UserError("environments to ask", "some that were closed", fix)
        task = Task(call)
        self._tasks.append(task)
        self._wake.release()
        return task

    def wait(self, task: Task[T]) -> T:
        """What the call gave; its own error; or an error that shows where it hangs."""
        while not task.done.wait(self._patience()):
            self._require_life()
        return task.result()

    def run(self, call: Callable[[], T]) -> T:
        """Make a call and wait for it."""
        return self.wait(self.submit(call))

    @contextmanager
    def asking(self, which: str, when: str, action: object) -> Iterator[None]:
        """Marks, within a call, the time that is the environment's own."""
        self._asked = (time.monotonic(), which, when, action)
        try:
            yield
        finally:
            self._asked = None

    def close(self) -> None:
        """End the thread once its calls are done."""
        self.closed = True
        self._tasks.append(Task(_leave))
        self._wake.release()

    def _work(self) -> None:
        step_back()
        while True:
            self._wake.acquire()
            task = self._tasks.pop(0)
            if task.call is _leave:
                return
            task.run()

    def _patience(self) -> float | None:
        return min(GLANCE, self.timeout / 4) if self.timeout > 0 else GLANCE

    def _require_life(self) -> None:
        asked = self._asked
        if asked is None or self.timeout <= 0 or time.monotonic() - asked[0] < self.timeout:
            return
        self.lost = True
        _, which, when, action = asked
        thread = self._thread.ident or 0
        tell = _ASKED_ONE.get(thread)
        if tell is not None:
            one, what, action = tell()
            which, when = f"{one}, {which},", f"{what}, {when}"
        frame = sys._current_frames().get(thread)
        stack = "".join(traceback.format_stack(frame)) if frame else ""
        words = f"nothing for {self.timeout:g} s{self.setting}; it is at\n{stack}"
        raise EnvironmentFailedError.of(which, when, action, words)


def _leave() -> None:
    """Stands for the end of the work."""
