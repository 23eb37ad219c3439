"""A run that is killed and continued gives the same bytes as one that was never stopped."""

import functools
import hashlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from devote.cli import dispatch
from devote.core.errors import UserError
from devote.loops.metrics_log import read

STEPS = 3_200  # smoke logs at 464, 864, ..., saves at 864, 1,664, ..., resets at 1,264, 2,064, ...
CASES = {
    "devote": ["deep_sea", "--agent", "devote", "--seeds", "2"],
    "devote-plus": ["spiral", "--agent", "devote-plus", "--map-interval", "800"],
}
Whole = Callable[[str], Path]
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """Runs that nobody stopped."""

    @functools.cache
    def run(case: str) -> Path:
        directory = tmp_path_factory.mktemp("whole") / "run"
        finish(case, directory)
        return directory

    return run


def words_of(case: str, directory: Path, *more: str) -> list[str]:
    words = ["train", *CASES[case], "--preset", "smoke", "--steps", str(STEPS), *more]
    return [*words, "--out", str(directory)]


def start(case: str, directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "devote", *words_of(case, directory)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(case: str, directory: Path) -> str:
    process = start(case, directory)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return output


def wait_for(process: subprocess.Popen[str], what: str, there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and process.poll() is None:
        if there():
            return
        time.sleep(0.002)
    assert process.poll() is None, process.communicate()[0]
    raise AssertionError(f"no {what} within the time")


def saved_steps(directory: Path) -> list[int]:
    return sorted(int(path.name[5:]) for path in (directory / "checkpoints").glob("step_*"))


def has_row(directory: Path, step: int) -> bool:
    """Whether the log has a row at or after `step`."""
    metrics = directory / "metrics.csv"
    if not metrics.exists() or metrics.read_text().count("\n") < 2:
        return False
    rows = read(metrics)["step"]
    return bool(rows.size and rows[-1] >= step)


def wait_for_row(process: subprocess.Popen[str], directory: Path, step: int) -> None:
    wait_for(process, f"row at step {step}", lambda: has_row(directory, step))


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
    maps, others = ({p.name: p.read_bytes() for p in run.glob("maps/*")} for run in (left, right))
    assert maps == others


def test_soft_resets_fire_when_they_are_due(whole: Whole) -> None:
    columns = read(whole("devote") / "metrics.csv")
    # a row is read before the reset at its own step
    due = {464: 0, 864: 0, 1_264: 0, 1_664: 1, 2_064: 1, 2_464: 2, 2_864: 2, 3_264: 2}
    assert set(zip(columns["step"], columns["plasticity/reset_count"], strict=True)) == set(
        due.items()
    )


CODES = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}


@pytest.mark.parametrize(
    ("case", "ends"),
    [
        # before the first soft reset, after it, after the second
        ("devote", [(signal.SIGKILL, 864), (signal.SIGTERM, 1_664), (signal.SIGINT, 2_464)]),
        pytest.param(
            *("devote-plus", [(signal.SIGKILL, 864), (signal.SIGINT, 1_664)]),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_run_stopped_in_every_way_continues_to_the_same_bytes(
    whole: Whole, case: str, ends: list[tuple[signal.Signals, int]], tmp_path: Path
) -> None:
    reference, newest = whole(case), 0
    for number, earliest in ends:
        process = start(case, tmp_path)
        if number == signal.SIGKILL:  # it saves nothing any more
            wait_for(
                process, "save", lambda at=earliest: max(saved_steps(tmp_path), default=0) >= at
            )
        else:
            wait_for_row(process, tmp_path, earliest)
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == CODES[number], output
        assert not newest or f"continuing at step {newest:,} in" in output
        assert number == signal.SIGKILL or f"stopped by {number.name}" in output
        newest = max(saved_steps(tmp_path))
        assert earliest <= newest < STEPS
    assert f"continuing at step {newest:,} in" in finish(case, tmp_path)
    assert_same_run(tmp_path, reference)


def test_finished_run_says_so_and_is_not_repeated(whole: Whole, capsys: Capture) -> None:
    directory = whole("devote")
    before = outcome(directory)
    assert dispatch(words_of("devote", directory)) == 0
    assert "already finished at step 3,264" in capsys.readouterr().out
    assert outcome(directory)[0] == before[0]


def test_other_settings_are_refused_naming_the_field(whole: Whole) -> None:
    with pytest.raises(UserError, match=r"discount: saved 0\.99, asked 0\.5"):
        dispatch(words_of("devote", whole("devote"), "--discount", "0.5"))
