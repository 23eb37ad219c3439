"""Stop when asked: a signal ends the run at the next safe point instead of at once."""

import os
import signal
import threading
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Self

# preemption, Ctrl-C, Slurm's warning, a terminal that is gone
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)
NOTICE = b"\nstopping at the end of this chunk; again to quit at once\n"


class StopRequest:
    """Notes the first signal of each kind and says so; the second of a kind ends the process.

    Python delivers signals to the main thread only, so elsewhere this block does nothing.
    """

    def __init__(self) -> None:
        self._received: list[signal.Signals] = []
        self._previous: dict[signal.Signals, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether somebody asked the run to stop."""
        return bool(self._received)

    @property
    def signal_name(self) -> str | None:
        """Name of the first signal received, such as SIGTERM."""
        return self._received[0].name if self._received else None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is signal.SIG_IGN:
                    continue  # as under nohup
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            # None stands for a handler that was not installed from Python and cannot be put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._previous.clear()

    def _note(self, number: int, frame: FrameType | None) -> None:
        received = signal.Signals(number)
        if received in self._received:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        if not self._received:
            with suppress(OSError):  # a terminal that is gone
                os.write(2, NOTICE)  # a signal may come amid a print, which cannot be entered twice
        self._received.append(received)


def exit_code(signal_name: str) -> int:
    """What a shell expects of a program that a signal has ended."""
    return 128 + signal.Signals[signal_name]
