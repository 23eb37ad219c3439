"""`devote compare`: what it asks for, what it writes, what it says and what it refuses."""

import csv
import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from devote import cli
from devote.cli import parse_train
from devote.core.errors import UserError
from devote.experiments import commands
from devote.experiments.adopt import adopt
from devote.experiments.compare import Compare, command_of, output_of, study_of
from devote.experiments.coverage import figure_of
from devote.experiments.record import write_record
from devote.experiments.report import panels, write_report
from devote.experiments.results import Results, Scores, collect, final_value, metric_of
from devote.experiments.runner import Outcome
from devote.experiments.sentences import ORDERED, caveat, comparisons_made, sentence, sentences
from devote.experiments.study import Study
from devote.experiments.study_files import Entry, RunLine, read_entries, write_entries
from devote.experiments.table import ALL, as_markdown, rows_of
from devote.experiments.training import TrainingCell, changes_of, command
from devote.loops.metrics_log import MetricsLog
from devote.measure.statistics import FEWEST
from devote.presets import PRESETS

HIGH_LOW = ((9, "a"), (0, "b"))
WORDS = ["--envs", "deep_sea,size=6", "spiral", "--preset", "smoke", "--seeds", "3"]
ASKED = Compare(envs=("deep_sea,size=6", "spiral"), preset="smoke", seeds=3)


def pretend(cell: TrainingCell, values: Sequence[float], until: int | None = None) -> None:
    """A finished run directory with a made-up coverage."""
    cell.folder.mkdir(parents=True)
    steps = np.linspace(0, until or cell.run.steps, len(values) + 1)[1:].astype(int)
    columns = ("step", "explore/coverage", "train/n_updates", "time/time_elapsed")
    log = MetricsLog(cell.folder / "metrics.csv", columns)
    log.append(
        [
            dict(zip(columns, (int(step), value, 1, 2.0), strict=True))
            for step, value in zip(steps, values, strict=True)
        ]
    )
    write_record(cell, 2.0)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """A study whose runs are all there, DEVOTE ahead in DeepSea."""
    study = study_of(replace(ASKED, runs=tmp_path / "runs", seeds=5))
    for (task, method, seed), cell in study.runs().items():
        ahead = 0.3 if method == "devote" and task == "deep_sea_size_6" else 0.0
        pretend(cell, [0.1, 0.3 + 0.01 * seed, 0.5 + 0.01 * seed + ahead])
    return study


def test_every_method_has_the_same_task_schedule_and_budget() -> None:
    asked = replace(ASKED, agents=("devote,optimism=2", "sac"), steps=500, set=("polyak=0.3",))
    runs = study_of(asked).runs()
    assert len(runs) == 2 * 2 * 3
    for task in ("deep_sea_size_6", "spiral"):
        mine = [cell.run for key, cell in runs.items() if key[0] == task]
        assert len({(run.env, run.loop, run.steps, run.preset) for run in mine}) == 1
        assert mine[0].steps == 500
    devote, sac = (runs["deep_sea_size_6", name, 0].run for name in ("devote optimism=2", "sac"))
    assert (devote.env.size, devote.agent.optimism) == (6, 2.0)
    assert devote.agent.sac == sac.agent
    assert sac.agent.polyak == 0.3


def test_a_change_for_one_environment_goes_before_one_for_all() -> None:
    asked = replace(ASKED, envs=("deep_sea,steps=300", "spiral"), steps=500)
    assert {run.run.steps for run in study_of(asked).runs().values()} == {300, 500}


def test_a_run_s_own_command_gives_the_same_run() -> None:
    run = next(iter(study_of(replace(ASKED, set=("scale_inputs=true",))).runs().values())).run
    words = command(run).split()
    assert words[:2] == ["devote", "train"]
    assert parse_train(words[2:])[0] == run
    assert changes_of(run) == {"size": 6, "scale_inputs": True}


def test_a_setting_in_which_agents_differ_can_be_changed_for_one_of_them() -> None:
    agents = ("devote", "devote,reset_strength=0.25", "devote-no-resets")
    study = study_of(replace(ASKED, agents=agents, set=("num_indices=3",)))
    assert study.names() == ("devote", "devote reset_strength=0.25", "devote-no-resets")
    runs = [study.runs()["spiral", name, 0].run.agent for name in study.names()]
    assert [agent.reset_strength for agent in runs] == [0.5, 0.25, 0.0]
    assert [agent.num_indices for agent in runs] == [3, 3, 3]


def test_other_seeds_can_be_asked_for_of_a_study_and_of_a_task() -> None:
    study = study_of(replace(ASKED, first_seed=100))
    assert {seed for _, _, seed in study.runs()} == {100, 101, 102}
    sea, maze = study.tasks
    study = replace(study, tasks=(replace(sea, first_seed=5), maze))
    assert {(task, seed) for task, _, seed in study.runs()} == {
        *(("deep_sea_size_6", seed) for seed in (5, 6, 7)),
        *(("spiral", seed) for seed in (100, 101, 102)),
    }
    assert {cell.run.seed for cell in study.runs().values()} == {5, 6, 7, 100, 101, 102}


def test_other_comparisons_go_to_other_folders() -> None:
    plain = replace(ASKED, seeds=5)
    assert output_of(plain) == Path("results/compare/deep_sea_size_6+spiral-smoke")
    assert output_of(replace(plain, cores=1, runs=Path("x"))) == output_of(plain)
    others = [
        replace(plain, seeds=3),
        replace(plain, first_seed=5),
        replace(plain, agents=("devote", "rnd")),
        replace(plain, agents=("sac", "devote")),
        replace(plain, steps=500),
        replace(plain, set=("polyak=0.3",)),
        replace(plain, metric="eval/mean_reward"),
    ]
    assert len({output_of(asked) for asked in [plain, *others]}) == 8
    many = [replace(plain, envs=("spiral,step_size=1",) * 12 + (end,)) for end in ("a", "b")]
    assert len({output_of(asked) for asked in many}) == 2
    assert max(len(output_of(asked).name) for asked in many) < 150


def test_a_stopped_comparison_says_nothing_of_the_one_before(
    study: Study,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs, out = str(tmp_path / "runs"), tmp_path / "out"
    words = ["compare", *WORDS[:-1], "5", "--runs", runs, "--out", str(out)]
    assert cli.dispatch(words) == 0
    assert "devote is above sac" in capsys.readouterr().out
    stopped = Outcome(stopped_by="SIGINT")
    monkeypatch.setattr(commands, "run_cells", lambda cells, root, cores: stopped)
    assert cli.dispatch(words) == 130
    assert "devote is above sac" not in capsys.readouterr().out


def test_several_numbers_are_joined_by_a_plus() -> None:
    task = "CartPole-v1,coverage_entries=0+2"
    cell = next(iter(study_of(replace(ASKED, envs=(task,))).runs().values()))
    assert (cell.run.env.id, cell.run.env.coverage_entries) == ("CartPole-v1", (0, 2))
    assert parse_train(command(cell.run).split()[2:])[0] == cell.run


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--envs"], "at least one name after --envs"),
        (["--envs", "spiral", "--agents"], "at least one name after --agents"),
        (["--envs", "spirall"], "did you mean spiral?"),
        (["--envs", "spiral", "--agents", "devot"], "did you mean devote?"),
        (["--envs", "spiral", "--agents", "sac,polyk=1"], "did you mean polyak?"),
        (["--envs", "spiral", "--preset", "dsk"], "did you mean desk?"),
        (["--envs", "spiral", "--set", "lenght_scale=1"], "did you mean length_scale?"),
        (["--envs", "spiral", "--set", "optimiser=adma"], "did you mean adam?"),
        (["--envs", "spiral", "--set", "discount=2"], "expected discount from 0 to 1"),
        (["--envs", "spiral", "--set", "num_envs=many"], "an integer for num_envs"),
        (["--envs", "spiral", "--set", "steps"], "name=value"),
        (["--envs", "spiral,sizes=3"], "the name of a setting"),
        (["--envs", "spiral", "--agents", "sac,num_envs=4"], "the same for all methods"),
        (["--envs", "spiral", "--agents", "sac,steps=4"], "the same for all methods"),
        (["--envs", "spiral", "--seeds", "0"], "at least one seed"),
        (["--envs", "spiral", "--set", "seeds=3"], "use --seeds"),
        (["--envs", "spiral", "--agents", "sac,length_scale=2"], "a setting of sac; got 'length_"),
        (["--envs", "spiral", "--agents", "sac", "sac,polyak=0.2"], "the same runs as sac"),
        (["--envs", "spiral", "--steps", "10"], "expected steps above 2048"),
        (["--envs", "spiral", "deep_sea,size=0"], "size"),
        (["--envs", "CartPole-v1,coverage_entries=9"], "coverage_entries"),
        (
            ["--envs", "deep_sea", "--preset", "smoke", "--metric", "explore/coverge"],
            "did you mean explore/coverage?",
        ),
        (
            ["--envs", "deep_sea", "--preset", "smoke", "--metric", "train/novelty_value_loss"],
            "a metric of deep_sea sac seed 0",
        ),
        (["--envs", "spiral", "--first-seed", "-1"], "a first seed of 0 or more"),
        (["--envs", "spiral", "--cores", "0"], "at least one core"),
        (["--envs", "spiral", "--cores", "-1"], "at least one core"),
        (
            [
                "--envs",
                "spiral",
                "--agents",
                "devote",
                "devote-no-resets",
                "--set",
                "reset_strength=0.25",
            ],
            "for devote and devote-no-resets before a change for all",
        ),
        (
            ["--envs", "spiral", "--agents", "sac", "devote", "rnd", "--set", "num_indices=3"],
            "set it for one agent: devote,num_indices=",
        ),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "run_cells", lambda *_: pytest.fail("something runs"))
    with pytest.raises(UserError) as caught:
        cli.dispatch(["compare", *words])
    assert message in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("flag", ["--runs", "--out"])
def test_a_place_that_cannot_be_written_to_is_refused_before_anything_runs(
    flag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "run_cells", lambda *_: pytest.fail("something runs"))
    Path("file").touch()
    with pytest.raises(NotADirectoryError):
        cli.dispatch(["compare", *WORDS, flag, "file/below"])
    Path("closed").mkdir()
    monkeypatch.setattr(os, "access", lambda place, _: str(place) != "closed")
    with pytest.raises(UserError, match="can be written to; got closed"):
        cli.dispatch(["compare", *WORDS, flag, "closed"])


def test_command_draws_writes_and_says(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, out = str(tmp_path / "runs"), tmp_path / "out"
    words = [*WORDS[:-1], "5", "--runs", runs, "--out", str(out)]
    assert cli.dispatch(["compare", *words]) == 0
    said = capsys.readouterr().out
    assert "devote is above sac (difference +0.300 [" in said
    assert "devote cannot be told apart at the end from sac (difference 0.000 [" in said
    assert (out / "compare.png").stat().st_size > 10_000
    with open(out / "table.csv") as file:
        rows = list(csv.DictReader(file))
    assert [(row["task"], row["method"]) for row in rows][:2] == [
        ("deep_sea_size_6", "devote"),
        ("deep_sea_size_6", "sac"),
    ]
    assert float(rows[0]["mean"]) == pytest.approx(0.82)
    assert (rows[0]["seeds"], rows[0]["preset"], rows[0]["steps"]) == ("0 to 4", "smoke", "4000")
    readme = (out / "README.md").read_text()
    assert "    devote compare --envs deep_sea,size=6 spiral" in readme
    assert "preset smoke, seeds 0 to 4." in readme
    assert str(tmp_path) not in readme


def test_recorded_runs_stay_when_their_directories_are_gone(study: Study, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_report(study, out, "devote compare")
    table = (out / "table.csv").read_text()
    empty = replace(study, root=tmp_path / "nowhere")
    write_report(empty, out, "devote compare")
    assert (out / "table.csv").read_text() == table
    assert "20 of 20 runs are there" in (out / "README.md").read_text()
    identities = {cell.identity for cell in study.runs().values()}
    assert figure_of(empty, out).recorded(out) == identities
    assert not figure_of(study, out).recorded(out)
    # a run that is here goes before what was recorded
    cell = empty.runs()["spiral", "sac", 0]
    pretend(cell, [0.2, 0.9])
    found = collect(empty, out)
    assert found.of("spiral", "sac")[0].final == 0.9
    assert len(found.elsewhere) == 19
    assert not found.set_aside


def test_damaged_files_of_a_study_and_lost_metrics_are_named(study: Study, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_report(study, out, "devote compare")
    whole = (out / "runs.csv").read_text()
    for damaged in (whole.replace(",final,", ",end,"), whole.replace(",smoke,4000,", ",smoke,x,")):
        (out / "runs.csv").write_text(damaged)
        with pytest.raises(UserError, match=r"curves per task in .*out; .*delete .*runs\.csv"):
            collect(study, out)
    (out / "runs.csv").write_text(whole)
    curves = (out / "spiral.csv").read_text()
    (out / "spiral.csv").write_text(curves.splitlines()[0] + "\n")
    with pytest.raises(UserError, match="curves per task"):
        collect(study, out)
    (out / "spiral.csv").unlink()
    with pytest.raises(UserError, match=r"spiral\.csv"):
        collect(study, out)
    lost = study.runs()["spiral", "sac", 0].folder / "metrics.csv"
    lost.unlink()
    with pytest.raises(UserError, match=r"metrics of a finished run in .*metrics\.csv"):
        collect(study, tmp_path / "new")


def test_all_tasks_have_one_row_per_method_where_they_have_all_seeds(
    study: Study, tmp_path: Path
) -> None:
    results = collect(study, tmp_path)
    *_, devote, sac = rows_of(study, results)
    assert [(row.task, row.method) for row in (devote, sac)] == [(ALL, "devote"), (ALL, "sac")]
    assert (devote.count, devote.seeds, devote.steps) == (10, "0 to 4", 4000)
    assert devote.mean == pytest.approx((0.82 + 0.52) / 2)
    # 0.50 to 0.54 and 0.80 to 0.84: the middle six of ten
    assert devote.iqm == pytest.approx((0.52 + 0.53 + 0.54 + 0.80 + 0.81 + 0.82) / 6)
    assert devote.iqm_low < devote.iqm < devote.iqm_high
    one = np.std([0, 0.01, 0.02, 0.03, 0.04], ddof=1) / np.sqrt(5)  # of a task's mean
    assert devote.standard_error == pytest.approx(one / np.sqrt(2))
    assert "| all tasks | devote |" in as_markdown([devote])
    *there, _ = results.shown.items()  # a run of SAC is missing
    assert [row.method for row in rows_of(study, Results(dict(there))) if row.task == ALL] == [
        "devote"
    ]
    returns = {
        key: entry._replace(line=replace(entry.line, metric="eval/mean_reward"))
        for key, entry in results.shown.items()
    }
    rows = rows_of(study, Results(returns))
    assert ALL not in [row.task for row in rows]  # returns of two tasks have two units
    alone = replace(study, tasks=study.tasks[:1])
    assert len(rows_of(alone, collect(alone, tmp_path))) == 2


def test_runs_recorded_with_other_settings_are_counted_and_not_shown(
    study: Study, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    write_report(study, out, "devote compare")
    sea, maze = study.tasks
    other = replace(sea, changes=(("size", "7"),))
    changed = replace(study, tasks=(other, maze), root=tmp_path / "nowhere")
    for _ in range(2):  # drawn again, it is the same
        write_report(changed, out, "devote compare")
        found = collect(changed, out)
        assert {path.stem for path in out.glob("*.csv")} == {"runs", "table", "spiral"}
        assert {line.task for line in found.lines} == {"spiral"}
        assert [line.task for line in found.set_aside] == ["deep_sea_size_6"] * 10
        assert "deep_sea" not in (out / "table.csv").read_text()
        assert "deep_sea" not in (out / "runs.csv").read_text()
        readme = (out / "README.md").read_text()
        assert "10 of 20 runs are there" in readme
        assert "10 more (in deep_sea_size_6) were recorded with other settings" in readme
        assert "devote is above sac" not in readme
    back = collect(replace(study, root=tmp_path / "nowhere"), out)  # nothing was lost
    assert (len(back.lines), back.set_aside) == (20, ())
    # a new run takes the place of the old one
    pretend(changed.runs()["deep_sea_size_6", "sac", 0], [0.2, 0.9])
    found = collect(changed, out)
    assert [line.final for line in found.of("deep_sea_size_6", "sac")] == [0.9]
    assert len(found.set_aside) == 9


def test_runs_recorded_with_another_budget_are_cut_or_left_out(
    study: Study, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    write_report(study, out, "devote compare")
    gone = replace(study, root=tmp_path / "nowhere")
    sea, maze = gone.tasks
    longer = replace(sea, changes=(*sea.changes, ("steps", "4001")))
    found = collect(replace(gone, tasks=(longer, maze)), out)
    assert {line.task for line in found.lines} == {"spiral"}
    shorter = replace(gone, tasks=(replace(sea, changes=(*sea.changes, ("steps", "2000"))), maze))
    first, *_ = collect(shorter, out).lines
    assert (first.steps, first.final, first.seconds) == (2666, 0.3, 1.3)
    write_report(shorter, out, "devote compare")  # the files keep the whole run
    assert "2,666" in (out / "README.md").read_text()
    assert collect(gone, out).lines == collect(study, tmp_path / "new").lines


def test_runs_that_are_not_asked_for_any_more_are_kept(study: Study, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_report(study, out, "devote compare")
    gone = replace(study, root=tmp_path / "nowhere")
    fewer = replace(gone, scale=replace(gone.scale, seeds=3), methods=gone.methods[:1])
    for _ in range(2):
        write_report(fewer, out, "devote compare")
        found = collect(fewer, out)
        assert {(line.method, line.seed) for line in found.lines} == {
            ("devote", seed) for seed in range(3)
        }
        assert len(found.set_aside) == 14
    write_report(replace(gone, tasks=gone.tasks[:1]), out, "devote compare")
    back = collect(gone, out)
    assert (back.lines, back.set_aside) == (collect(study, tmp_path / "new").lines, ())


def test_a_folder_of_another_preset_is_refused_before_anything_runs(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_report(study, tmp_path / "out", "devote compare")
    monkeypatch.setattr(commands, "run_cells", lambda *_: pytest.fail("something runs"))
    words = ["--envs", "spiral", "--preset", "desk", "--out", str(tmp_path / "out")]
    with pytest.raises(UserError, match=r"runs of preset desk in .*; got preset smoke"):
        cli.dispatch(["compare", *words, "--runs", str(tmp_path / "runs")])


def test_only_as_many_steps_as_asked_for_are_shown(tmp_path: Path) -> None:
    run = replace(PRESETS["smoke"]("spiral", "sac"), steps=8000)
    pretend(TrainingCell(run, tmp_path), [0.1, 0.2, 0.3, 0.4])
    shorter = TrainingCell(replace(run, steps=3000), tmp_path)
    assert shorter.finished()
    assert shorter.metrics()["step"].tolist() == [2000, 4000]
    assert not TrainingCell(replace(run, steps=9000), tmp_path).finished()
    assert TrainingCell(replace(run, steps=16000), tmp_path).progress() == 0.5


def test_a_real_run_is_a_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devote.core.cache.use_compilation_cache", lambda: None)
    run = replace(PRESETS["smoke"]("deep_sea", "sac"), steps=800)
    cell = TrainingCell(run, tmp_path)
    assert cell.make()
    assert not cell.finished()
    write_record(cell, 1.0)
    assert cell.finished()
    assert cell.progress() == 1.0
    record = json.loads(cell.record.read_text())
    assert record["seconds"] == pytest.approx(cell.metrics()["time/time_elapsed"][-1], abs=0.1)
    typed = tmp_path / "typed"  # as if `devote train --out typed` had made it
    cell.record.unlink()
    cell.folder.rename(typed)
    day = datetime(2020, 1, 2, 12).timestamp()
    os.utime(typed / "metrics.csv", (day, day))
    adopted = adopt(typed, tmp_path)
    assert adopted == cell
    assert cell.finished()
    record = json.loads(cell.record.read_text())
    assert (record["finished"], record["machine"]) == ("2020-01-02", "unknown")
    (typed / "checkpoints").rename(typed / "elsewhere")
    assert adopt(typed, tmp_path) is None
    (typed / "elsewhere").rename(typed / "checkpoints")
    cell.record.unlink()
    cell.folder.unlink()
    cell.folder.mkdir()  # as if a runner had been killed at the same run
    with pytest.raises(UserError, match=r"no other run in the place .*move one of them away"):
        adopt(typed, tmp_path)
    assert not cell.finished()
    (typed / "metrics.csv").rename(typed / "elsewhere.csv")
    assert adopt(typed, tmp_path) is None
    several = json.loads((typed / "settings.json").read_text()) | {"seeds": 2}
    (typed / "settings.json").write_text(json.dumps(several))
    with pytest.raises(UserError, match=r"a run of one seed in .*; got 2 in one program"):
        adopt(typed, tmp_path)


def test_a_run_of_other_settings_in_the_place_of_a_cell_does_not_count(tmp_path: Path) -> None:
    cell = TrainingCell(PRESETS["smoke"]("spiral", "sac"), tmp_path)
    pretend(cell, [0.1])
    assert cell.finished()
    record = json.loads(cell.record.read_text())
    record["settings"]["agent"]["discount"] = 0.5
    cell.record.write_text(json.dumps(record))
    assert not cell.finished()


def test_a_task_without_a_finished_run_has_a_sentence_too(study: Study, tmp_path: Path) -> None:
    for (task, _, _), cell in study.runs().items():
        if task == "spiral":
            cell.record.unlink()
    assert sentences(study, collect(study, tmp_path / "new"))[1].startswith("spiral: no run")


def test_a_metric_that_finished_runs_do_not_have_is_called_one(
    study: Study, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="the name of a metric; got 'explore/coverge'"):
        collect(replace(study, metric="explore/coverge"), tmp_path)


def test_final_value_of_a_return_is_the_mean_of_the_last_tenth() -> None:
    steps, values = np.arange(1, 101.0), np.arange(1, 101.0)
    assert final_value("rollout/ep_rew_mean", steps, values) == pytest.approx(95.0)
    assert final_value("explore/coverage", steps, values) == 100
    values[80:] = np.nan  # cut out of a longer run, which was evaluated later
    assert final_value("eval/mean_reward", steps, values) == 80
    values[40:] = np.nan
    assert np.isnan(final_value("eval/mean_reward", steps, values))
    assert np.isnan(final_value("eval/mean_reward", steps, values * np.nan))


def test_return_is_the_exploitation_actor_s_where_it_was_evaluated() -> None:
    study, some = study_of(ASKED), np.array([np.nan, 1.0])
    logged = {"eval/mean_reward": some, "rollout/ep_rew_mean": some}
    assert metric_of(study, logged) == "eval/mean_reward"
    assert metric_of(study, logged | {"eval/mean_reward": some * np.nan}) == "rollout/ep_rew_mean"
    assert metric_of(study, logged | {"explore/coverage": some}) == "explore/coverage"


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


@pytest.mark.parametrize("value", [1.25e-6, 123456.0, np.inf, 0.5])
def test_curves_keep_their_digits(value: float, tmp_path: Path) -> None:
    line = RunLine("sea", "sac", 0, "desk", 1, "x", value, 1.0, "", "", "", "")
    write_entries([Entry(line, {"step": np.array([1.0]), "x": np.array([value])})], tmp_path)
    assert read_entries(tmp_path)[line.key].columns["x"] == [value]


def test_drawing_alone_runs_nothing(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "run_cells", lambda *_: pytest.fail("something runs"))
    study.runs()["spiral", "sac", 0].record.unlink()
    runs, out = str(tmp_path / "runs"), tmp_path / "out"
    words = ["compare", *WORDS[:-1], "5", "--runs", runs, "--out", str(out), "--draw-only"]
    assert cli.dispatch(words) == 0
    assert "19 of 20 runs are there" in (out / "README.md").read_text()
    words[words.index(runs)] = str(tmp_path / "empty")
    words[words.index(str(out))] = str(tmp_path / "new")
    assert cli.dispatch(words) == 1


def test_runs_of_foreign_tasks_say_which() -> None:
    for task in ("gymnasium", "brax"):
        run = PRESETS["smoke"](task, "sac")
        assert run.env.id in command(run).split()
        assert run.env.id in TrainingCell(run).name
        assert parse_train(command(run).split()[2:])[0] == run


@pytest.mark.parametrize(
    ("mine", "theirs", "words"),
    [
        ([0.9, 0.8], [0.1, 0.2], "no interval is possible for a and b (it takes 3 seeds each"),
        ([0.9, np.nan], [0.1, 0.2], "some runs of a or of b have no value"),
        ([0.9], [0.1], "no interval is possible for a and b"),
        ([0.9, 0.8, 0.85], [0.1, 0.2, 0.1], "too few seeds for an order of a and b (difference"),
        ([0.9, 0.8, 0.85, 0.9], [0.1, 0.2, 0.1, 0.3], "a is above b (difference +0.7"),
        ([0.1, 0.2, 0.1, 0.3], [0.9, 0.8, 0.85, 0.9], "a is below b (difference -0.7"),
        ([0.1, 0.9, 0.5, 0.6], [0.2, 0.8, 0.5, 0.7], "a cannot be told apart at the end from b"),
        ([0.9, 0.8, 0.85, np.nan], [0.1, 0.2, 0.1, 0.3], "some runs of a or of b have no value"),
    ],
)
def test_sentences_say_what_the_seeds_allow(
    mine: list[float], theirs: list[float], words: str
) -> None:
    scores = {"a": Scores(*[np.array(mine)] * 2), "b": Scores(*[np.array(theirs)] * 2)}
    text = sentence("maze", scores, "a")
    assert words in text
    claims = ("above", "below", "apart", "too few", "no interval", "no value")
    assert sum(claim in text for claim in claims) == 1


def test_three_and_four_seeds_are_what_intervals_and_orders_take() -> None:
    for count in range(2, 6):
        text = sentence("maze", {x: Scores(*[np.arange(count) + i] * 2) for i, x in HIGH_LOW}, "a")
        assert ("no interval" in text) == (count < FEWEST)
        assert ("is above" in text) == (count >= ORDERED)


def test_the_side_of_zero_shows_in_the_digits() -> None:
    near, zero = np.array([0.0004, 0.0005, 0.0006, 0.0004]), np.zeros(4)
    assert "above b (difference +4e-04 [+4e-04, +0.001]" in sentence(
        "maze", {"a": Scores(near, near), "b": Scores(zero, zero)}, "a"
    )
    same = sentence("maze", {"a": Scores(zero, zero), "b": Scores(zero, zero)}, "a")
    assert "(difference 0.000 [0.000, 0.000]" in same


def test_as_many_tests_are_counted_as_were_made(study: Study, tmp_path: Path) -> None:
    results = collect(study, tmp_path)
    assert comparisons_made(study, results) == 3  # in the maze both end alike: a second look
    few = Results({key: entry for key, entry in results.shown.items() if key[2] < 3})
    assert comparisons_made(study, few) == 0
    assert "Of the 3 tests behind this up to 0.2 would" in caveat(3)
    assert "by chance" not in caveat(1)


def test_methods_of_one_verdict_stand_together() -> None:
    low, high = (np.array([x, x + 0.01, x + 0.02, x + 0.03]) for x in (0.1, 0.5))
    scores = {name: Scores(x, x) for name, x in (("a", high), ("b", low), ("c", high), ("d", low))}
    text = sentence("maze", scores, "a")
    assert re.fullmatch(
        r"maze: a is above b \(difference \+0\.400 [^)]*ahead in 100% of pairs\) and d \([^)]*\); "
        r"a cannot be told apart at the end from c \([^)]*ahead in 50% of pairs\)\.",
        text,
    )


def test_runs_that_end_alike_are_told_apart_by_their_averages() -> None:
    end, early, late = np.ones(5), 0.9 + 0.01 * np.arange(5), 0.6 + 0.01 * np.arange(5)
    scores = {"a": Scores(end, early), "b": Scores(end, late), "c": Scores(end[:2], late[:2])}
    text = sentence("maze", scores, "a")
    assert "a cannot be told apart at the end from b (" in text
    assert "on average over the run it is above: difference +0.300" in text
    assert "no interval is possible for a and c (" in text  # b is told all the same
    assert "on average over the run it is below" in sentence("maze", scores, "b")


def test_averages_are_over_the_whole_budget(study: Study, tmp_path: Path) -> None:
    scores = collect(study, tmp_path).scores("deep_sea_size_6", "devote")
    np.testing.assert_allclose(scores.final, 0.8 + 0.01 * np.arange(5))
    np.testing.assert_allclose(scores.average, (1.2 + 0.02 * np.arange(5)) / 3)


def test_a_run_from_before_a_default_was_changed_counts_nowhere_and_is_kept(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, key = tmp_path / "out", ("deep_sea_size_6", "sac", 0)
    write_report(study, out, "devote compare")
    cell = study.runs()[key]
    settings = asdict(cell.run)
    settings["loop"]["batch_size"] += 1
    (cell.folder / "settings.json").write_text(json.dumps(settings))
    record = json.loads(cell.record.read_text())
    cell.record.write_text(json.dumps(record | {"settings": settings}))
    assert cell.outdated()
    results = collect(study, out)
    assert [line.seed for line in results.of(*key[:2])] == [1, 2, 3, 4]
    assert [(line.task, line.method, line.seed) for line in results.set_aside] == [key]
    monkeypatch.setattr(
        "devote.loops.train.train", lambda plan: SimpleNamespace(stopped_by="a test")
    )
    cell.make()
    assert not cell.outdated()
    assert (cell.folder.parent / f"{cell.folder.name}.outdated0" / "metrics.csv").is_file()


def test_recorded_command_is_the_comparison_again() -> None:
    asked = replace(
        ASKED, set=("polyak=0.3",), steps=100, first_seed=7, out=Path("/x"), runs=Path("/y")
    )
    import tyro

    words = command_of(asked).split()[2:]
    again = tyro.cli(Compare, args=words)
    assert again == replace(asked, out=None, runs=Path("runs"))
