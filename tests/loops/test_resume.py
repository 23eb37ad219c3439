"""A run that is killed and continued gives the same bytes as one that was never stopped."""

import hashlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from devote.loops.metrics_log import read
from tiny import quick

STEPS = 2_400  # smoke resets at 1,000 and 2,000 and saves every 800


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled programs, shared by the processes of this file."""
    return tmp_path_factory.mktemp("cache")


def start(agent: str, directory: Path, cache: Path, steps: int = STEPS) -> subprocess.Popen[str]:
    words = ["train", "deep_sea", "--agent", agent, "--preset", "smoke", "--steps", str(steps)]
    return subprocess.Popen(
        [sys.executable, "-m", "devote", *words, "--out", str(directory)],
        env=quick(cache),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(agent: str, directory: Path, cache: Path) -> str:
    process = start(agent, directory, cache)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return output


def wait_for_step(process: subprocess.Popen[str], directory: Path, step: int) -> None:
    """Until the log has a row at or after `step`."""
    metrics = directory / "metrics.csv"
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and process.poll() is None:
        if metrics.exists() and metrics.read_text().count("\n") > 1:
            rows = read(metrics)["step"]
            if rows.size and rows[-1] >= step:
                return
        time.sleep(0.002)
    assert process.poll() is None, process.communicate()[0]
    raise AssertionError(f"no row at step {step} within the time")


def outcome(directory: Path) -> tuple[str, dict[str, np.ndarray]]:
    """Bytes of the last state, and the metrics that no clock enters."""
    newest = max((directory / "checkpoints").glob("step_*"))
    digest = hashlib.sha256((newest / "state.safetensors").read_bytes()).hexdigest()
    columns = read(directory / "metrics.csv")
    return digest, {name: x for name, x in columns.items() if not name.startswith("time/")}


def assert_same_run(left: Path, right: Path) -> None:
    digest, metrics = outcome(left)
    other_digest, other_metrics = outcome(right)
    assert digest == other_digest
    assert metrics.keys() == other_metrics.keys()
    for name, column in metrics.items():
        np.testing.assert_array_equal(column, other_metrics[name], err_msg=name)


@pytest.fixture(scope="module", params=["devote", "sac"])
def whole(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cache: Path
) -> tuple[str, Path]:
    """A run that nobody stopped."""
    directory = tmp_path_factory.mktemp("whole") / "run"
    finish(request.param, directory, cache)
    return request.param, directory


@pytest.mark.parametrize("at", [464, 1_264], ids=["before a reset", "after a reset"])
def test_killed_run_continues_to_the_same_bytes(
    whole: tuple[str, Path], at: int, tmp_path: Path, cache: Path
) -> None:
    agent, reference = whole
    process = start(agent, tmp_path, cache)
    wait_for_step(process, tmp_path, at)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finish(agent, tmp_path, cache)
    assert_same_run(tmp_path, reference)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_stopped_run_saves_exits_and_continues_to_the_same_bytes(
    whole: tuple[str, Path], number: signal.Signals, code: int, tmp_path: Path, cache: Path
) -> None:
    agent, reference = whole
    process = start(agent, tmp_path, cache)
    wait_for_step(process, tmp_path, 864)
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == code, output
    assert f"stopped by {number.name}" in output
    assert list((tmp_path / "checkpoints").glob("step_*"))
    finish(agent, tmp_path, cache)
    assert_same_run(tmp_path, reference)


def test_finished_run_says_so_and_is_not_repeated(whole: tuple[str, Path], cache: Path) -> None:
    agent, directory = whole
    before = outcome(directory)
    output = finish(agent, directory, cache)
    assert "finished already at step 2,464" in output
    assert outcome(directory)[0] == before[0]


def test_other_settings_are_refused_naming_the_field(whole: tuple[str, Path], cache: Path) -> None:
    agent, directory = whole
    words = ["train", "deep_sea", "--agent", agent, "--preset", "smoke", "--discount", "0.5"]
    result = subprocess.run(
        [sys.executable, "-m", "devote", *words, "--out", str(directory)],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 2
    assert "discount: saved 0.99, asked 0.5" in result.stderr
