"""A study whose runs are all there."""

from dataclasses import replace
from pathlib import Path

import pytest
from pretended import ASKED, pretend

from devote.experiments.commands import study_of
from devote.experiments.comparison import Study


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """A study whose runs are all there, DEVOTE ahead in DeepSea."""
    study = study_of(replace(ASKED, runs=tmp_path / "runs", seeds=5))
    for (task, method, seed), cell in study.runs().items():
        ahead = 0.3 if method == "devote" and task == "deep_sea_size_6" else 0.0
        pretend(cell, [0.1, 0.3 + 0.01 * seed, 0.5 + 0.01 * seed + ahead])
    return study
