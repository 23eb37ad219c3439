"""Environments step back behind learning."""

import os
import sys
import threading

import pytest

from devote.core.errors import UserError
from devote.core.worker import NICENESS, Worker, aside, staying

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority")


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def of_a_new_thread() -> int:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(niceness()))
    thread.start()
    thread.join()
    return found[0]


def test_a_worker_and_its_threads_step_back_and_nobody_else() -> None:
    before = niceness()
    worker = Worker(timeout=0)
    assert worker.run(niceness) == worker.run(of_a_new_thread) == max(before, NICENESS)
    assert niceness() == of_a_new_thread() == before
    worker.close()


def test_what_is_made_aside_steps_back_and_its_errors_arrive() -> None:
    before = niceness()
    assert aside(of_a_new_thread) == max(before, NICENESS)
    assert niceness() == before
    with pytest.raises(ZeroDivisionError):
        aside(lambda: 1 // 0)


def test_an_exit_is_held_back_until_the_outermost_block_ends() -> None:
    def left() -> None:
        with staying(), staying():
            pass
        os._exit(0)

    with pytest.raises(SystemExit, match=r"os\._exit\(0\)"):
        Worker(timeout=0).run(left)


def test_a_closed_worker_refuses_instead_of_waiting_for_ever() -> None:
    worker = Worker(timeout=0)
    worker.close()
    with pytest.raises(UserError, match="closed ones"):
        worker.run(niceness)
