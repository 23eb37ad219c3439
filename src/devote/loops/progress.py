"""What a run prints while it trains."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

QUIET_SECONDS = 10.0  # between two lines without a terminal


class PlainConsole(Console):
    """Raises BrokenPipeError, where rich would exit with code 1."""

    def on_broken_pipe(self) -> None:
        raise  # the error that is being handled


class Reporter:
    """A progress bar in a terminal, otherwise a line now and then; or nothing if `silent`."""

    def __init__(self, total: int, silent: bool = False) -> None:
        self.total = total
        self.console = PlainConsole(quiet=silent, highlight=False)
        self._last_line = 0.0
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
        """Print a line; the training goes on if that fails."""
        try:
            self.console.print(text, markup=False, soft_wrap=True)
        except OSError:
            self._mute()

    def _mute(self) -> None:
        """Print nothing more: the reader has gone, or the disk is full."""
        self.console.quiet = True
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    @contextmanager
    def compiling(self, what: str) -> Iterator[None]:
        """Print what is being compiled, and how long it took."""
        start = time.perf_counter()
        self.say(f"compiling {what} ...")
        yield
        self.say(f"compiled {what} in {time.perf_counter() - start:.1f} s")

    @contextmanager
    def running(self, done: int) -> Iterator[None]:
        """Show the bar, from `done` steps on."""
        self._bar.update(self._task, completed=done)
        with self._bar if self.console.is_terminal else nullcontext():
            yield

    def advance(self, done: int, steps_per_second: float, detail: str) -> None:
        """Show how far the run is."""
        told = f"{steps_per_second:,.0f} steps/s  {detail}"
        self._bar.update(self._task, completed=done, detail=told)
        now = time.monotonic()
        if not self.console.is_terminal and (
            now - self._last_line > QUIET_SECONDS or done >= self.total
        ):
            self._last_line = now
            left = max(0.0, (self.total - done) / max(steps_per_second, 1e-9))
            total = max(done, self.total)  # a run ends with a whole chunk
            self.say(f"{done:>12,} / {total:,} steps  {told}  {left:.0f} s left")
