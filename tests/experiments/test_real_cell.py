"""A real training through the runner: killed and continued, it gives the same bytes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from real import STEPS, cell
from test_runner import hold

REAL = Path(__file__).parent / "real.py"


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(REAL), str(folder)],
        start_new_session=True,
        stdout=subprocess.PIPE,
        text=True,
    )


def last_state(folder: Path) -> bytes:
    newest = max((cell(folder).folder / "checkpoints").glob("step_*"))
    return (newest / "state.safetensors").read_bytes()


@pytest.mark.slow
def test_a_training_whose_runner_is_killed_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    whole, halted = tmp_path / "whole", tmp_path / "halted"
    runner = start(whole)
    assert runner.wait(120) == 0, runner.communicate()[0]
    assert cell(whole).finished()

    runner = start(halted)
    checkpoints = cell(halted).folder / "checkpoints"
    while not list(checkpoints.glob("step_*")) and runner.poll() is None:
        time.sleep(0.002)
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()
    hold(halted / "work" / f"{cell(halted).identity}.lock", 30).close()  # its worker has gone too
    assert not cell(halted).finished()
    assert 0 < cell(halted).metrics()["step"][-1] < STEPS

    runner = start(halted)
    assert runner.wait(120) == 0, runner.communicate()[0]
    assert cell(halted).finished()
    assert last_state(halted) == last_state(whole)
    ours, theirs = cell(halted).metrics(), cell(whole).metrics()
    assert ours.keys() == theirs.keys()
    for name in [name for name in ours if not name.startswith("time/")]:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
