"""The first signal is a request, the second of its kind an order."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from devote.loops.signals import SIGNALS, StopRequest

RUN = """
import sys, time
from devote.loops.signals import StopRequest
with StopRequest() as stop:
    print("ready", flush=True)
    while not stop.requested:
        time.sleep(0.005)
    print(stop.signal_name, flush=True)
    if len(sys.argv) > 1:
        time.sleep(30)
print("safe", flush=True)
"""


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", RUN, *arguments]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", SIGNALS)
def test_first_signal_reaches_a_safe_point(number: signal.Signals) -> None:
    process = start()
    process.send_signal(number)
    said, noticed = process.communicate(timeout=60)
    assert said == f"{number.name}\nsafe\n"
    assert noticed == "\nstopping at the end of this chunk; again to quit at once\n"
    assert process.returncode == 0


@pytest.mark.parametrize("number", SIGNALS)
def test_second_signal_ends_at_once(number: signal.Signals) -> None:
    process = start("linger")
    process.send_signal(number)
    assert process.stdout is not None
    assert process.stdout.readline() == f"{number.name}\n"
    process.send_signal(number)
    assert process.communicate(timeout=60)[0] == ""
    assert process.returncode == -number


def test_another_kind_is_only_another_request(capfd: pytest.CaptureFixture[str]) -> None:
    with StopRequest() as stop:
        assert (stop.requested, stop.signal_name) == (False, None)
        os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGTERM)
        assert (stop.requested, stop.signal_name) == (True, "SIGUSR1")
    assert capfd.readouterr().err.count("stopping") == 1


def test_handlers_come_back() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with StopRequest():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before
    with pytest.raises(RuntimeError, match="within"), StopRequest():
        raise RuntimeError("within")
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_other_threads_install_nothing() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    seen: list[object] = []

    def enter() -> None:
        with StopRequest() as stop:
            seen.extend([stop.requested, [signal.getsignal(number) for number in SIGNALS]])

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [False, before]
