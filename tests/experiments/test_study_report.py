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


def test_tasks_that_say_when_they_are_solved_count_the_seeds(study: Study, tmp_path: Path) -> None:
    first, second = study.tasks
    judged = replace(study, tasks=(replace(first, solved=0.815), second))
    rows = table_rows(judged, collect(study, tmp_path))
    solved = {row["method"]: row["solved"] for row in rows if row["task"] == first.name}
    assert solved == {"devote": 3, "sac": 0}
    assert not any("solved" in row for row in rows if row["task"] == second.name)
    assert "| 3 of 5 |" in table_markdown(rows)


@pytest.mark.slow  # MuJoCo builds thirteen tasks
def test_a_suite_is_tasks_with_the_return_that_solves_each() -> None:
    suite = study_of(Compare(suite="sparse", agents=("devote-plus",)))
    assert len(suite.tasks) == 13
    assert all(task.solved is not None for task in suite.tasks)
    assert suite.metric == "eval/mean_reward"


def test_a_performance_profile_needs_every_seed_of_two_methods(
    study: Study, tmp_path: Path
) -> None:
    whole, part = tmp_path / "whole", tmp_path / "part"
    assert whole / "profile.png" in write_report(study, whole, "devote compare")
    assert "![Performance profile](profile.png)" in (whole / "README.md").read_text()
    shutil.rmtree(study.runs()["spiral", "sac", 2].folder)
    assert part / "profile.png" not in write_report(study, part, "devote compare")
    assert "profile" not in (part / "README.md").read_text()


def test_many_methods_are_drawn_as_dots(tmp_path: Path) -> None:
    rates = [f"sac,learning_rate=0.01{i}" for i in range(1, 10)]
    agents = ("sac", *rates, *(f"{rate}1" for rate in rates[:3]))
    study = study_of(Compare(envs=("spiral",), agents=agents, seeds=1, runs=tmp_path / "runs"))
    for cell in {cell.identity: cell for cell in study.runs().values()}.values():
        pretend(cell, [0.1, 0.2])
    assert tmp_path / "out" / "compare.png" in write_report(study, tmp_path / "out", "devote")
    assert "one standard error" not in (tmp_path / "out" / "README.md").read_text()
