"""The table and README of a study: what they say of runs that are there, and that are not."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pretended import pretend

from devote.experiments.commands import Compare, study_of
from devote.experiments.comparison import Study
from devote.experiments.results import Results, collect
from devote.experiments.study_report import ALL, panels, table_markdown, table_rows, write_report


def test_all_tasks_have_one_row_per_method_where_they_have_all_seeds(
    study: Study, tmp_path: Path
) -> None:
    results = collect(study, tmp_path)
    *_, devote, sac = table_rows(study, results)
    assert [(row["task"], row["method"]) for row in (devote, sac)] == [
        (ALL, "devote"),
        (ALL, "sac"),
    ]
    assert (devote["count"], devote["seeds"], devote["steps"]) == (10, "0 to 4", 4000)
    assert devote["mean"] == pytest.approx((0.82 + 0.52) / 2)
    # 0.50 to 0.54 and 0.80 to 0.84: the middle six of ten
    assert devote["iqm"] == pytest.approx((0.52 + 0.53 + 0.54 + 0.80 + 0.81 + 0.82) / 6)
    assert devote["iqm_low"] < devote["iqm"] < devote["iqm_high"]
    one = np.std([0, 0.01, 0.02, 0.03, 0.04], ddof=1) / np.sqrt(5)  # of a task's mean
    assert devote["standard_error"] == pytest.approx(one / np.sqrt(2))
    assert "| all tasks | devote |" in table_markdown([devote])
    *there, _ = results.shown.items()  # a run of SAC is missing
    assert [
        row["method"] for row in table_rows(study, Results(dict(there))) if row["task"] == ALL
    ] == ["devote"]
    returns = {
        key: entry._replace(line=replace(entry.line, metric="eval/mean_reward"))
        for key, entry in results.shown.items()
    }
    rows = table_rows(study, Results(returns))
    assert ALL not in [row["task"] for row in rows]  # returns of two tasks have two units
    alone = replace(study, tasks=study.tasks[:1])
    assert len(table_rows(alone, collect(alone, tmp_path))) == 2


def test_runs_without_a_value_are_told_and_leave_the_others_their_curves(
    study: Study, tmp_path: Path
) -> None:
    broken = study.runs()["spiral", "sac", 2]
    shutil.rmtree(broken.folder)
    pretend(broken, [np.nan, np.nan])
    out = tmp_path / "out"
    write_report(study, out, "devote compare")
    readme = (out / "README.md").read_text()
    assert (
        "| spiral | sac | explore/coverage | a run has no value | - no interval | - | - |" in readme
    )
    assert "some runs of devote or of sac have no value, so no order is given" in readme
    maze = panels(study, collect(study, out))[1]
    assert (list(maze.curves), maze.undefined) == (["devote"], ("sac",))


def test_methods_that_come_to_the_same_on_a_task_are_told(tmp_path: Path) -> None:
    # the preset's own value in the maze, and not in the sea
    agents, tasks = ("sac", "sac,learning_rate=0.003"), ("spiral", "deep_sea")
    study = study_of(Compare(envs=tasks, agents=agents, seeds=1, runs=tmp_path / "runs"))
    for cell in {cell.identity: cell for cell in study.runs().values()}.values():
        pretend(cell, [0.1, 0.2])
    write_report(study, tmp_path / "out", "devote compare")
    readme = (tmp_path / "out" / "README.md").read_text()
    assert (
        "4 of 4 runs are there. In spiral, sac and sac learning_rate=0.003 are the same" in readme
    )
    assert "In deep_sea," not in readme
    assert "one core each: 6 s of core time" in readme
