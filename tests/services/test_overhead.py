"""What an engine costs a cell: cells that cost nothing, two at a time, against the local runner."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from fake_study import cells, pace

from conftest import squeue, until
from devote.experiments.slurm import Resources, submit

FAKE = Path(__file__).parent / "fake_study.py"
MOST = 2.0
"""Seconds a cell may take beyond the local runner on a machine that has nothing else to do."""


def made(kind: str, folder: Path) -> float:
    """The pace of the cells on one engine."""
    subprocess.run([sys.executable, FAKE, kind, folder, "0"], check=True, capture_output=True)
    return pace(folder)


def require_cheap(name: str, here: float, there: float) -> None:
    load = os.getloadavg()[0] / len(os.sched_getaffinity(0))
    print(f"{name}: {there:.2f} s a cell, local {here:.2f} s, {load:.1f} processes per core")
    assert there - here <= MOST * max(1.0, load)


def test_ray_costs_a_cell_at_most_two_seconds(ray_cluster: Any, tmp_path: Path) -> None:
    require_cheap("Ray", made("local", tmp_path / "here"), made("ray", tmp_path / "there"))


def test_slurm_costs_a_cell_at_most_two_seconds(slurm: Path, tmp_path: Path) -> None:
    here, there = made("local", tmp_path / "here"), tmp_path / "there"
    command = [sys.executable, str(FAKE), "slurm", str(there), "0"]
    submit(cells(there, 0.0), command, Resources(runs=there, cores=2))
    until(lambda: not squeue("%i"), "an empty queue")
    require_cheap("SLURM", here, pace(there))
