"""Optuna itself: trials are made once, by whoever is there, and go on after a kill."""

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import until

pytest.importorskip("optuna", reason="no Optuna: pip install devote[tune]")
WORDS = ["tune", "deep_sea,size=6", "--agent", "sac", "--preset", "smoke", "--seeds", "1"]
WORDS += ["--steps", "1200", "--metric", "train/critic_loss", "--space", "polyak=0.05"]
"""No trial is the preset itself, which has another polyak: so the check of the best always runs."""


def start(folder: Path, *more: str) -> subprocess.Popen[str]:
    places = ["--runs", str(folder / "runs"), "--out", str(folder / "out")]
    words = [sys.executable, "-m", "devote", *WORDS, *places, "--cores", "1", *more]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(words, start_new_session=True, text=True, **pipes)  # type: ignore[call-overload]


def test_two_processes_share_the_trials_and_one_that_is_killed_is_gone_on_with(
    tmp_path: Path,
) -> None:
    trials = ["--trials", "5", "--check-seeds", "3"]
    first = start(tmp_path, *trials)
    until(lambda: list(tmp_path.glob("runs/cells/*/metrics.csv")), "a trial that runs")
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    both = [start(tmp_path, *trials), start(tmp_path, *trials)]
    for process in both:
        output, _ = process.communicate(timeout=900)
        assert process.returncode == 0, output
    with open(tmp_path / "out" / "trials.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 5
    whole = [float(row["score"]) for row in rows if row["score"]]
    assert f"best: {max(whole):.4g}" in output
    assert {row["polyak"] for row in rows} == {"0.05"}
    assert len({row["learning_rate"] for row in rows}) == 5
    default = [row for row in rows if row["learning_rate"] == "0.001"]
    assert default  # the preset's is among them
    assert "devote train deep_sea --agent sac" in output
    assert (tmp_path / "out" / "tuning.png").stat().st_size > 10_000
    check = (tmp_path / "out" / "check" / "README.md").read_text()
    assert "seeds 200 to 202" in check
    assert "difference " in check
    again, _ = start(tmp_path, *trials).communicate(timeout=300)
    assert "trial " not in again.replace("trials", "")  # nothing is left to try


def test_a_fair_comparison_is_one_command(tmp_path: Path) -> None:
    words = ["compare", "--envs", "deep_sea,size=6", "--agents", "sac", "rnd", "--seeds", "1"]
    words += ["--preset", "smoke", "--steps", "1200", "--tune", "2"]
    words += ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    made = subprocess.run(
        [sys.executable, "-m", "devote", *words], capture_output=True, text=True, timeout=900
    )
    assert made.returncode == 0, made.stdout + made.stderr
    assert made.stdout.count("2 trials of ") == 2
    journals = sorted(path.name.split("-")[1] for path in tmp_path.glob("runs/tune/*.journal"))
    assert journals == ["rnd", "sac"]
    assert "--tune 2" in (tmp_path / "out" / "README.md").read_text()
