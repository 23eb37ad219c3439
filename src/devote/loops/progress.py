"""What a person sees of a run."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

QUIET_SECONDS = 10.0  # between two lines where there is no terminal to redraw


class Reporter:
    """A bar in a terminal, a line now and then elsewhere; silent when asked."""

    def __init__(self, total: int, silent: bool = False) -> None:
        self.total = total
        self.console = Console(quiet=silent, highlight=False)
        self._last_line = 0.0
        self._rate = 0.0
        self._bar = Progress(
            TextColumn("{task.fields[label]}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} / {task.total:,.0f} steps"),
            TextColumn("{task.fields[detail]}"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
        )
        self._task = self._bar.add_task("", total=total, label="training", detail="")

    def say(self, text: str) -> None:
        """A line that stays; a training outlives whoever read its output."""
        try:
            self.console.print(text, markup=False)
        except OSError:
            self._mute()

    def _mute(self) -> None:
        """Say nothing more: nobody reads, or the disk that output goes to is full."""
        self.console.quiet = True
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    @contextmanager
    def compiling(self, what: str) -> Iterator[None]:
        """Say what is being compiled, and how long it took."""
        start = time.perf_counter()
        self.say(f"compiling {what} ...")
        yield
        self.say(f"compiled {what} in {time.perf_counter() - start:.1f} s")

    @contextmanager
    def running(self, done: int) -> Iterator[None]:
        """The bar, from `done` steps on."""
        self._bar.update(self._task, completed=done)
        if self.console.is_terminal:
            with self._bar:
                yield
        else:
            yield

    def advance(self, done: int, steps_per_second: float, detail: str) -> None:
        """Where the run is."""
        self._rate = steps_per_second
        self._bar.update(
            self._task, completed=done, detail=f"{steps_per_second:,.0f} steps/s  {detail}"
        )
        now = time.monotonic()
        if not self.console.is_terminal and (
            now - self._last_line > QUIET_SECONDS or done >= self.total
        ):
            self._last_line = now
            left = max(0.0, (self.total - done) / max(steps_per_second, 1e-9))
            self.say(
                f"{done:>12,} / {self.total:,} steps  {steps_per_second:,.0f} steps/s  {detail}"
                f"  {left:.0f} s left"
            )
