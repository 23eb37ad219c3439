"""`devote compare`: what it asks for, what it writes, what it says and what it refuses."""

import csv
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from pretended import ASKED, WORDS

from devote import cli
from devote.core.errors import UserError
from devote.experiments import commands
from devote.experiments.commands import Compare, command_of, output_of, study_of
from devote.experiments.comparison import Study
from devote.experiments.runner import StudyOutcome
from devote.experiments.study_report import write_report


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
    stopped = StudyOutcome(stopped_by="SIGINT")
    monkeypatch.setattr(commands, "run_cells", lambda cells, root, cores: stopped)
    assert cli.dispatch(words) == 130
    assert "devote is above sac" not in capsys.readouterr().out


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
        (["--envs", "spiral", "--seeds", "0"], "from 1 to 1000 seeds"),
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
        (["--envs", "spiral", "--cores", "0"], "--cores from 1 to 100,000"),
        (["--envs", "spiral", "--cores", "-1"], "--cores from 1 to 100,000"),
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
    told = json.loads((out / "study.json").read_text())
    assert len(told["cells"]) == 2 * 2 * 5
    first = told["cells"][0]
    assert (first["task"], first["method"], first["seed"]) == (
        "deep_sea_size_6",
        "size=6 devote",
        0,
    )
    assert first["run"].startswith("deep_sea-devote-smoke-seed0-")


def test_a_folder_of_another_preset_is_refused_before_anything_runs(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_report(study, tmp_path / "out", "devote compare")
    monkeypatch.setattr(commands, "run_cells", lambda *_: pytest.fail("something runs"))
    words = ["--envs", "spiral", "--preset", "desk", "--out", str(tmp_path / "out")]
    with pytest.raises(UserError, match=r"runs of preset desk in .*; got preset smoke"):
        cli.dispatch(["compare", *words, "--runs", str(tmp_path / "runs")])


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


def test_recorded_command_is_the_comparison_again() -> None:
    asked = replace(
        ASKED, set=("polyak=0.3",), steps=100, first_seed=7, out=Path("/x"), runs=Path("/y")
    )
    import tyro

    words = command_of(asked).split()[2:]
    again = tyro.cli(Compare, args=words)
    assert again == replace(asked, out=None, runs=Path("runs"))
