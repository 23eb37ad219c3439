"""A signal stops a run at the end of the current chunk instead of at once."""

import os
import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import Any, Self

# preemption, Ctrl-C, Slurm's warning, a closed terminal
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)
NOTICE = b"\nstopping at the end of this chunk; again to quit at once\n"


class StopRequest:
    """Records the first signal of each kind; the second of a kind ends the process.

    Only does so in the main thread, where Python delivers signals.
    """

    def __init__(self) -> None:
        self._received: list[signal.Signals] = []
        self._previous: dict[signal.Signals, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether a signal was received."""
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

    def __exit__(self, *_: object) -> None:
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
    """The exit code of a program that was ended by a signal, as shells expect it."""
    return 128 + signal.Signals[signal_name]
