"""Runs on the host that are killed or stopped go on: exactly, or at the start of episodes."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hosts import ENVS, program
from test_resume import assert_same_run, wait_for_row

from devote.loops import checkpoint

SCRIPT = Path(__file__).parent / "host_run.py"


def start(directory: Path, how: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), str(directory), how],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(directory: Path, how: str) -> str:
    process = start(directory, how)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return " ".join(output.split())


def interrupt(directory: Path, how: str, number: signal.Signals, step: int) -> int:
    process = start(directory, how)
    wait_for_row(process, directory, step)
    process.send_signal(number)
    process.communicate(timeout=60)
    return process.returncode


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody stopped; both kinds are the same until somebody does."""
    directory = tmp_path_factory.getbasetemp() / "whole"
    finish(directory, "exact")
    return directory


def test_environments_that_can_be_saved_go_on_to_the_same_bytes(
    whole: Path, tmp_path: Path
) -> None:
    assert interrupt(tmp_path, "exact", signal.SIGKILL, 900) == -9
    assert interrupt(tmp_path, "exact", signal.SIGTERM, 1_800) == 143
    assert "environments continue exactly" in finish(tmp_path, "exact")
    assert_same_run(tmp_path, whole)


@pytest.mark.slow
def test_others_start_new_episodes_and_all_else_is_exact(whole: Path, tmp_path: Path) -> None:
    assert interrupt(tmp_path, "restart", signal.SIGTERM, 900) == 143
    step = int(max((tmp_path / "checkpoints").glob("step_*")).name.removeprefix("step_"))
    assert "environments start new episodes" in finish(tmp_path, "restart")
    resumed, reference = state(tmp_path), state(whole)
    for name in ("vector_steps", "updates"):
        assert getattr(resumed.clock, name) == getattr(reference.clock, name)
    row = step // ENVS
    for ours, theirs in zip(resumed.replay, reference.replay, strict=True):
        np.testing.assert_array_equal(ours[:row], theirs[:row])
    assert np.asarray(resumed.replay.first)[row].all()
    assert not np.asarray(reference.replay.first)[row].all()
    # Actions tell what the agent had learned, and nothing of that was lost.
    np.testing.assert_array_equal(resumed.replay.action, reference.replay.action)


def state(directory: Path):
    """The last checkpoint; environments are not looked at."""
    shape = program(replay_capacity=6_000).shape()
    saved = shape.worlds.saved if "exact" in (directory / "settings.json").read_text() else ()
    found = checkpoint.restore(
        directory / "checkpoints",
        shape._replace(worlds=shape.worlds._replace(saved=saved)),
        shorter=(".replay", 0),
    )
    assert found is not None
    return found[1]
