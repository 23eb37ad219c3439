"""The catalogue: every label of the paper once, listed and made by command."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from devote import cli
from devote.core.errors import UserError
from devote.experiments import commands
from devote.experiments import paper_figures as paper
from devote.experiments.comparison import SCALES, Method, Study, Task, TrainingCell, by_name
from devote.experiments.durations import Durations, expected, in_words
from devote.experiments.paper_figures import ABSENT, FIGURES
from devote.experiments.runner import StudyOutcome
from devote.measure.statistics import Shift
from devote.presets import PRESETS

PAPER = {
    "fig:",
    "fig:gp-calibration",
    "fig:value_est_cartpole",
    "fig:plasticity",
    "fig:main_coverage",
    "fig:ablation_components_coverage",
    "fig:main_normalized_return",
    "tab:base_hyperparams",
    "tab:app-prior-lengthscales",
    "tab:app-cartpole-anchors",
    "tab:app-cheetah-anchors",
    "fig:environments",
    "fig:prior-comparison",
    "tab:calibration_main",
    "fig:app-cartpole-slices",
    "fig:app-cheetah-calibration",
    "fig:app-plasticity-snapshots",
    "fig:length_scales_devote",
    "fig:app-control-coverage",
}


def test_every_label_of_the_paper_is_made_or_said_to_be_absent() -> None:
    ours = [label for label in FIGURES if ":" in label]
    absent = [entry.label for entry in ABSENT]
    assert sorted(ours + absent) == sorted(PAPER)


def test_the_page_about_studies_names_them_all() -> None:
    page = (Path(__file__).parents[2] / "docs" / "studies.md").read_text()
    assert all(f"| `{label}`" in page for label in PAPER | set(FIGURES))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("label", FIGURES)
def test_every_figure_is_a_value_with_different_cells(
    label: str, scale: str, tmp_path: Path
) -> None:
    figure = FIGURES[label](scale, tmp_path)
    identities = [cell.identity for cell in figure.cells()]
    assert len(set(identities)) == len(identities)
    assert (figure.label, figure.scale) == (label, scale)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("scale", SCALES)
def test_agents_have_as_many_trials_as_each_other(scale: str, tmp_path: Path) -> None:
    cells = paper.tuning(scale, tmp_path).parts["spiral"]
    trials = Counter(cell.run.agent_name for cell in cells)
    assert set(trials) == {"devote", "rnd", "thompson", "sombrl"}
    assert len(set(trials.values())) == 1


def test_claims_are_about_methods_and_tasks_of_their_figure() -> None:
    tasks = {task.name for task in paper.EXPLORATION}
    for claims, methods in (
        (paper.RIVAL_CLAIMS, paper.RIVALS),
        (paper.ABLATION_CLAIMS, paper.ABLATIONS),
    ):
        names = {method.name for method in methods}
        for claim in claims.values():
            assert {claim.method, *claim.others} <= names
            assert {*claim.tasks, *claim.beyond} <= tasks
            assert claim.verdict(Shift(0.0, -1.0, 1.0, 0.97)) == "open"


def test_figures_share_the_runs_they_have_in_common(tmp_path: Path) -> None:
    main, ablation = (
        {cell.identity for cell in build("desk", tmp_path).cells()}
        for build in (paper.main_coverage, paper.ablation_coverage)
    )
    assert len(main & ablation) == 5 * 5  # DEVOTE on every task


def test_what_the_library_lacks_is_named_and_the_rest_is_run() -> None:
    tasks = (paper.DEEP_SEA_20, Task("moon", "moon"))
    study = Study("x", "x", SCALES["smoke"], tasks, by_name("sac", "oracle"))
    assert study.missing() == ("task moon", "agent oracle")
    assert {key[:2] for key in study.runs()} == {("deep_sea_20", "sac")}
    study = Study("x", "x", SCALES["smoke"], tasks, by_name("oracle", "sac", "devote"))
    assert len(study.runs()) == 4


def test_a_misspelt_change_of_a_committed_task_is_refused() -> None:
    tasks = (Task("sea", "deep_sea", (("sise", "20"),)),)
    with pytest.raises(UserError, match="did you mean size"):
        Study("x", "x", SCALES["smoke"], tasks, by_name("sac")).runs()


def test_names_that_would_hide_each_other_are_refused() -> None:
    sea, twice = Task("sea", "deep_sea"), Task("sea", "deep_sea", (("size", "9"),))
    with pytest.raises(UserError, match="tasks with names of their own in x; got sea twice"):
        Study("x", "x", SCALES["smoke"], (sea, twice), by_name("sac"))
    ways = (*by_name("sac"), Method("sac", "sac", (("polyak", "0.3"),)))
    with pytest.raises(UserError, match="methods with names of their own in x; got sac twice"):
        Study("x", "x", SCALES["smoke"], (sea,), ways)


def test_listing_says_what_is_done_and_how_long_the_rest_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.dispatch(["figures", "--scale", "smoke", "--runs", str(tmp_path)]) == 0
    listed = capsys.readouterr().out
    assert all(label in listed for label in PAPER)
    assert "scale smoke" in listed


@pytest.mark.parametrize("keep", [True, False])
def test_what_is_recorded_is_made_again_unless_it_is_kept(
    keep: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        commands,
        "run_cells",
        lambda cells, *_: made.extend(c.identity for c in cells) or StudyOutcome(),
    )
    figure = paper.exploration("smoke", Path("runs"))
    first, *others = [cell.identity for cell in figure.cells()]
    known = replace(figure, recorded=lambda _: frozenset([first]), draw=lambda *_: [])
    assert commands.make(known, Path("out"), "x", Path("runs"), keep=keep) == 0
    assert made == (others if keep else [first, *others])
    assert ("1 runs are recorded in out" in capsys.readouterr().out) == (not keep)


def test_no_task_has_more_seeds_than_the_scale(tmp_path: Path) -> None:
    for scale, most in (("smoke", 2), ("desk", 5)):
        parts = paper.exploration(scale, tmp_path).parts
        assert {len({cell.run.seed for cell in cells}) for cells in parts.values()} == {
            min(most, 3),
            most,
        }


def test_drawing_nothing_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.dispatch(["figure", "exploration", "--scale", "smoke", "--draw-only"]) == 1
    assert "nothing is finished yet" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["{", "{}", "[]"])
def test_a_damaged_record_is_named(content: str, tmp_path: Path) -> None:
    damaged = tmp_path / "cells" / "one" / "record.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_text(content)
    with pytest.raises(UserError, match="delete the file") as caught:
        cli.dispatch(["figures", "--scale", "smoke", "--runs", str(tmp_path)])
    assert str(damaged) in str(caught.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fig:main_coverge"], "did you mean fig:main_coverage?"),
        (["fig:plasticity"], "see: devote figures"),
        (["exploration", "--only", "spirall"], "spiral_step_2"),
        (["exploration", "--only", "spirall", "--draw-only"], "spiral_step_2"),
        (["tab:calibration_main", "--data", "nowhere"], "a directory of UCI tables; got nowhere"),
    ],
)
def test_unknown_figures_and_parts_are_refused(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as caught:
        cli.dispatch(["figure", *words])
    assert message in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_time_is_told_by_the_closest_kind(tmp_path: Path) -> None:
    run = PRESETS["desk"]("deep_sea", "devote")
    cell = TrainingCell(replace(run, steps=10_000), tmp_path)
    small = TrainingCell(replace(run, env=replace(run.env, size=20), steps=10_000), tmp_path)
    durations = Durations()
    assert durations.seconds(cell) is None
    assert expected([cell, small], durations, 2) == (0.0, 2)
    durations.add(small.kinds, small.size, 50.0)
    assert durations.seconds(replace(cell, run=replace(cell.run, steps=20_000))) == 100.0
    durations.add(["deep_sea devote desk"], small.size, 70.0)
    assert durations.seconds(small) == 50.0
    assert durations.seconds(cell) == 60.0
    assert expected([cell, small], durations, 2) == (55.0, 0)
    assert [in_words(s) for s in (8, 600, 9000)] == ["8 s", "10 min", "2.5 h"]


def test_times_of_more_cells_are_shipped(tmp_path: Path) -> None:
    durations = Durations.known(tmp_path)
    rows = dict(line.split(",", 1) for line in durations.as_csv().splitlines()[1:])
    many = int(rows["spiral devote desk"].split(",")[1])
    assert many > 1
    durations.add(["spiral devote desk", "new"], 1.0, 99.0)
    assert f"spiral devote desk,{rows['spiral devote desk']}\n" in durations.as_csv()
    assert "new,99,1\n" in durations.as_csv()
    for _ in range(many):
        durations.add(["spiral devote desk"], 1.0, 99.0)
    assert f"spiral devote desk,99,{many + 1}\n" in durations.as_csv()
