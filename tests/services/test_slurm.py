"""SLURM itself: arrays, requeues, status, and what it refuses."""

import subprocess
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from fake_study import cells, release

from conftest import CELLS, STUDY, devote, numbers, runs_of, squeue, until
from devote.core.errors import UserError
from devote.experiments.slurm import Resources, check, jobs_folder, queue, submit

FAKE = Path(__file__).parent / "fake_study.py"


def command(folder: Path, pause: float) -> list[str]:
    return [sys.executable, str(FAKE), "slurm", str(folder), str(pause)]


def killed(folder: Path, warn: bool) -> bool:
    """Warn the task that began last, or kill and requeue it; whether it has left its node."""
    (job,) = set(squeue("%F"))
    began, running = numbers(folder / "starts"), squeue("%K", "--states=RUNNING")
    if not began or str(began[-1]) not in running:
        return False
    words = ["scancel", "--signal=USR1", "--batch"] if warn else ["scontrol", "requeue"]
    with suppress(subprocess.TimeoutExpired):  # scontrol repeats what has been done already
        subprocess.run([*words, f"{job}_{began[-1]}"], timeout=5)
    return str(began[-1]) not in squeue("%K", "--states=RUNNING")


def test_no_cell_is_lost_or_made_twice_in_twenty_kills(slurm: Path, tmp_path: Path) -> None:
    """Ten tasks are warned as before their limit, ten killed outright and queued again."""
    pause = 3600.0
    asked = cells(tmp_path, pause), command(tmp_path, pause), Resources(runs=tmp_path)
    assert submit(*asked) == 12
    assert submit(*asked) == 0
    for kill in range(20):
        before = len(numbers(tmp_path / "starts"))
        until(lambda warn=not kill % 2: killed(tmp_path, warn), "a task that can be killed")
        until(lambda seen=before: len(numbers(tmp_path / "starts")) > seen, "another start")
    release(tmp_path)
    until(lambda: not queue(tmp_path), "an empty queue")
    assert Counter(numbers(tmp_path / "ends")) == Counter(range(12))


def test_a_study_with_requeues_is_the_local_one(
    slurm: Path, local_study: list[dict[str, str]], tmp_path: Path
) -> None:
    places = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    words = ["compare", *STUDY, "--on", "slurm", "--time-limit", "30", *places]
    first = devote(*words)
    assert first.returncode == 0, first.stderr
    assert f"{CELLS} tasks submitted; " in first.stdout
    assert " queued" in first.stdout  # it does not wait for the runs
    until(lambda: list(tmp_path.glob("runs/cells/*/metrics.csv")), "a run that has begun")
    warned: set[str] = set()

    def requeued() -> bool:
        """Warn each task once, in case the first ones end before they hear it; whether one has
        noted in its log that it goes back into the queue, where it does not stay for long."""
        for word in set(squeue("%i=%M", "--states=RUNNING")):
            task, _, elapsed = word.partition("=")
            if task not in warned and elapsed >= "0:03":
                warned.add(task)
                with suppress(subprocess.TimeoutExpired):  # scancel tries again while it ends
                    subprocess.run(["scancel", "--signal=USR1", "--batch", task], timeout=5)
        logs = jobs_folder(tmp_path / "runs").glob("*.log")
        return any("queue it again" in log.read_text() for log in logs)

    until(requeued, "a task that is queued again")
    assert " failed" not in devote("compare", *STUDY, "--status", *places).stdout
    until(lambda: not squeue("%i"), "an empty queue", 3600)
    last = devote(*words)
    assert "wrote " in last.stdout, last.stdout + last.stderr
    assert runs_of(tmp_path / "out") == local_study


def test_a_cancelled_task_saves_and_does_not_come_back(slurm: Path, tmp_path: Path) -> None:
    one = Resources(runs=tmp_path, cores=1)
    submit(cells(tmp_path, 60.0), command(tmp_path, 60.0), one)
    until(lambda: numbers(tmp_path / "starts"), "a cell that has begun")
    assert len(squeue("%i", "--states=RUNNING")) == 1  # no more at a time than asked for
    subprocess.run(["scancel", "--me"], check=True)
    until(lambda: not squeue("%i"), "an empty queue")
    assert not numbers(tmp_path / "ends")


def test_a_task_whose_time_is_nearly_over_is_queued_again(slurm: Path, tmp_path: Path) -> None:
    """SLURM warns up to 30 s earlier than asked for; of two minutes one is left to begin."""
    short = Resources(runs=tmp_path, time_limit=2)
    submit(cells(tmp_path, 300.0)[:1], command(tmp_path, 300.0), short)
    until(lambda: len(numbers(tmp_path / "starts")) > 1, "the same cell once more")
    assert set(numbers(tmp_path / "starts")) == {0}
    assert not numbers(tmp_path / "ends")


def test_what_a_cell_needs_is_made_before_it(slurm: Path, tmp_path: Path) -> None:
    need, *others = cells(tmp_path, 3.0)
    waiting = [replace(cell, after=(need,)) for cell in others[:2]]
    asked = Resources(runs=tmp_path)
    assert submit([*waiting, need], command(tmp_path, 3.0), asked) == 3
    until(lambda: not squeue("%i"), "an empty queue")
    assert numbers(tmp_path / "ends")[0] == 0
    assert sorted(numbers(tmp_path / "ends")) == [0, 1, 2]


def test_what_slurm_does_not_take_is_told_before_a_job_is_queued(
    slurm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["compare", *STUDY, "--on", "slurm", "--runs", str(tmp_path / "runs")]
    words += ["--out", str(tmp_path / "out")]
    refused = devote(*words, "--partition", "nowhere")
    assert refused.returncode == 2
    assert "Invalid partition name" in refused.stderr
    assert "correct --partition (main)" in refused.stderr
    assert "--gpus-per-run" in devote(*words, "--gpus-per-run", "0.5").stderr
    (tmp_path / "strange" / "devote").mkdir(parents=True)
    (tmp_path / "strange" / "devote" / "__init__.py").write_text("raise ImportError('not here')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "strange"))
    with pytest.raises(UserError, match=r"on the nodes; got ImportError: not here"):
        check(Resources(runs=tmp_path))
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "none"))
    with pytest.raises(UserError, match="a request that SLURM's sinfo takes"):
        check(Resources(runs=tmp_path))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="SLURM's sinfo on this machine; got none"):
        check(Resources(runs=tmp_path))
    assert not (tmp_path / "runs" / "work" / "slurm").exists()


def test_status_names_what_failed_and_why(slurm: Path, tmp_path: Path) -> None:
    places = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    study = ["--envs", "deep_sea,size=6", "--agents", "sac", "--seeds", "2", "--preset", "smoke"]
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "cells").touch()  # no run can be written
    devote("compare", *study, "--on", "slurm", *places)
    until(lambda: not squeue("%i"), "an empty queue")
    status = devote("compare", *study, "--status", *places).stdout
    assert "2 failed" in status
    assert "failed: deep_sea size=6 sac seed 0: cannot use " in status
