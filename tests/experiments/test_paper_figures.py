"""The catalogue: every label of the paper once, listed and made by command."""

from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from devote import cli
from devote.build import build_program
from devote.core.errors import UserError
from devote.core.settings import flat
from devote.experiments import commands
from devote.experiments import paper_figures as paper
from devote.experiments.comparison import SCALES, Method, Study, Task, TrainingCell, by_name
from devote.experiments.durations import Durations, in_words, time_left
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
NAMED = {paper.ALIASES.get(label, label) for label in PAPER}


def test_every_label_of_the_paper_is_made_or_said_to_be_absent() -> None:
    ours = [label for label in FIGURES if ":" in label]
    assert sorted([*ours, *ABSENT]) == sorted(NAMED)


def test_the_index_of_studies_names_them_all() -> None:
    page = (Path(__file__).parents[2] / "docs" / "studies" / "overview.md").read_text()
    assert all(f"`{label}`" in page for label in NAMED | set(FIGURES))


EVERY_SCALE = [scale for scale in SCALES if scale != "long"]


@pytest.mark.parametrize(
    ("label", "scale"),
    [(label, scale) for label in FIGURES for scale in EVERY_SCALE]
    + [(label, "long") for label in paper.LONG_LABELS],
)
def test_every_figure_is_a_value_with_different_cells(
    label: str, scale: str, tmp_path: Path
) -> None:
    figure = FIGURES[label](scale, tmp_path)
    identities = [cell.identity for cell in figure.cells()]
    assert len(set(identities)) == len(identities)
    assert (figure.label, figure.scale) == (label, scale)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("scale", EVERY_SCALE)
def test_agents_have_as_many_trials_and_each_a_smaller_bonus(scale: str, tmp_path: Path) -> None:
    cells = paper.tuning(scale, tmp_path).parts["spiral"]
    trials = Counter(cell.run.agent_name for cell in cells)
    seeds = paper.TUNING_SEEDS
    expected = {"devote": 6, "thompson": 6, "sombrl": 6, "rnd": 7}
    assert trials == {agent: number * seeds for agent, number in expected.items()}
    factors = {"devote": "optimism", "rnd": "optimism"}
    factors |= {"thompson": "prior_scale", "sombrl": "intrinsic_weight"}
    for agent, factor in factors.items():  # each had a bonus factor below 1
        assert min(float(trial[factor]) for trial in paper.TRIALS[agent]) < 1


def test_claims_are_about_methods_and_tasks_of_their_figure() -> None:
    free = {task.name for task in paper.EXPLORATION}
    lengths = {f"length {length}" for length in paper.LENGTHS}
    lengths |= {method.name for method in paper.OWN_LENGTHS}
    strengths = {f"lambda {strength}" for strength in paper.STRENGTHS}
    rivals, parts = ({m.name for m in methods} for methods in (paper.RIVALS, paper.ABLATIONS))
    control = {task.name for task in paper.CONTROL}
    for claims, names, tasks in (
        (paper.RIVAL_CLAIMS, rivals, free),
        (paper.ABLATION_CLAIMS, parts, free),
        (paper.LENGTH_CLAIMS | paper.REGRET_CLAIMS, lengths, free),
        (paper.PLASTICITY_CLAIMS, strengths, free),
        (paper.CONTROL_CLAIMS, rivals, control),
        (paper.CONTROL_COVERAGE_CLAIMS, rivals, control),
    ):
        for claim in claims.values():
            assert {claim.method, *claim.others} <= names
            assert {*claim.tasks, *claim.beyond} <= tasks
            assert claim.verdict(Shift(0.0, -1.0, 1.0, 0.97)) == "open"


def test_long_is_the_paper_on_small_networks(tmp_path: Path) -> None:
    """Its steps, maze, resets and seeds; all else of an agent is desk's."""
    for label in paper.LONG_LABELS:
        parts = FIGURES[label]("long", tmp_path).parts
        assert set(parts) == ({"spiral"} if "ablation" in label else set(paper.LONG))
        for task, cells in parts.items():
            assert {cell.run.seed for cell in cells} == set(
                range(3) if task == "cheetah" else range(10, 15)
            )
            for run in [cell.run for cell in cells if isinstance(cell, TrainingCell)]:
                theirs, ours = (PRESETS[p](run.env_name, run.agent_name) for p in ("paper", "desk"))
                assert (run.env, run.steps) == (theirs.env, theirs.steps)
                assert run.loop == replace(ours.loop, reset_interval=theirs.loop.reset_interval)
                assert type(run.agent) is type(ours.agent)
                if label != "fig:length_scales_devote":
                    assert run.agent == ours.agent


def test_plasticity_at_desk_has_the_papers_maze_budget_and_resets(tmp_path: Path) -> None:
    (cells,) = FIGURES["fig:plasticity"]("desk", tmp_path).parts.values()
    runs = [cell.run for cell in cells if isinstance(cell, TrainingCell)]
    assert Counter(run.agent.reset_strength for run in runs) == dict.fromkeys(
        (0.0, 0.1, 0.25, 0.5, 0.75), 5
    )
    for run in runs:
        assert (run.env, run.steps) == (PRESETS["paper"]("u_maze", "devote").env, 4_000_000)
        assert run.steps // run.loop.reset_interval == 80
        assert run.agent.all_diagnostics
        assert run.loop.map_interval == 250_000
    snapshots = FIGURES["fig:app-plasticity-snapshots"]("desk", tmp_path).cells()
    assert {cell.identity for cell in snapshots} <= {cell.identity for cell in cells}


def test_figures_share_the_runs_they_have_in_common(tmp_path: Path) -> None:
    main, ablation = (
        {cell.identity for cell in build("desk", tmp_path).cells()}
        for build in (paper.main_coverage, paper.ablation_coverage)
    )
    assert len(main & ablation) == 5 * 5  # DEVOTE on every task


STEPS = {"spiral": 5_000_000, "u_maze": 4_000_000, "deep_sea": 500_000, "cheetah": 5_000_000}
STEPS |= {"ant_maze": 40_000_000, "pick_and_place": 40_000_000, "cartpole_swingup": 2_000_000}
SHARED = {  # table base_hyperparams
    "critic_width": 1024,
    "critic_depth": 3,
    "actor_width": 192,
    "actor_depth": 3,
    "polyak": 0.005,
    "optimiser": "adam",
    "learning_rate": 3e-4,
    "critic_weight_decay": 1e-2,
    "initial_temperature": 1.0,
    "target_entropy_per_dimension": -0.5,
}
DEVOTE = {  # the same table; what an ablation is named after is not its own
    "num_indices": 8,
    "num_features": 1024,
    "bootstrap_probability": 0.5,
    "optimism": 1.0,
    "reset_strength": 0.5,
}
LENGTHS = {"cheetah": 7.5, "ant_maze": 7.5}  # table app-prior-lengthscales; 1 elsewhere


@pytest.mark.parametrize("label", FIGURES)
def test_the_paper_scale_has_the_papers_values(label: str, tmp_path: Path) -> None:
    """Every training of every figure, but for what its study varies."""
    for cell in [c for c in FIGURES[label]("paper", tmp_path).cells() if hasattr(c, "run")]:
        run, agent = cell.run, flat(cell.run.agent)
        ours = label in ("exploration", "tuning")  # other steps and settings: not in the paper
        varied = {"fig:length_scales_devote": "length_scale", "fig:plasticity": "reset_strength"}
        free = {varied.get(label.replace("app-plasticity-snapshots", "plasticity"), "")}
        assert run.preset == "paper"
        evaluates = run.agent_name == "evaluator"
        assert run.steps == (2_000_000 if evaluates else STEPS[run.env_name])
        assert {n: agent[n] for n in SHARED} == SHARED
        assert agent["discount"] == (0.99 if evaluates else 0.998)
        loop = (run.loop.updates_per_step, run.loop.batch_size, run.loop.reset_interval)
        assert loop == (1.0, 2048, 50_000 if run.env_name == "u_maze" else 250_000)
        if not ours and run.env_name in ("spiral", "u_maze"):
            assert (run.env.step_size, run.env.episode_length) == (0.25, 1000)
        if run.agent_name == "devote" and not ours:
            length = {"length_scale": LENGTHS.get(run.env_name, 1.0)}
            expected = {n: v for n, v in (DEVOTE | length).items() if n not in free}
            assert {n: agent[n] for n in expected} == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "agent"),
    [
        *(("spiral", "devote"), ("deep_sea", "thompson"), ("ant_maze", "rnd")),
        *(("cheetah", "sombrl"), ("cartpole_swingup", "evaluator")),
    ],
)
def test_an_update_at_the_papers_size_is_finite(task: str, agent: str) -> None:
    """The paper's networks, on small batches from few environments."""
    run = PRESETS["paper"](task, agent)
    few = dict(num_envs=2, updates_per_step=0.5, batch_size=64, replay_capacity=400)
    few |= dict(learning_starts=16, log_interval=4, eval_interval=0)
    program = build_program(replace(run, loop=replace(run.loop, **few)))
    with closing(program):
        state, metrics = program.chunk(program.prefill(program.init()))
        assert int(np.max(state.clock.updates)) >= 1
        trained = [v for n, v in metrics.items() if n.startswith("train/")]
        assert trained
        assert all(np.isfinite(value).all() for value in trained)


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
    assert all(label in listed for label in NAMED)
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
    assert commands.make(known, commands.StudyOptions(out=Path("out"), keep=keep), "x") == 0
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
        (["tab:base_hyperparams"], "see: devote figures"),
        (["fig:", "--scale", "long"], "as the scale of fig:summary"),
        (["exploration", "--scale", "long"], "--scale long is for fig:main_coverage"),
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
    assert time_left([(None, 0.0), (None, 0.5)], 2) is None
    durations.add(small.kinds, small.size, 50.0)
    assert durations.seconds(replace(cell, run=replace(cell.run, steps=20_000))) == 100.0
    durations.add(["deep_sea devote desk"], small.size, 70.0)
    assert durations.seconds(small) == 50.0
    assert durations.seconds(cell) == 60.0
    assert time_left([(60.0, 0.0), (50.0, 0.0)], 2) == 60.0  # no less than the longest
    assert time_left([(60.0, 0.5), (None, 0.0), (50.0, 0.0)], 1) == 30.0 + 55.0 + 50.0
    told = [in_words(seconds) for seconds in (8, 600, 9000, 864000)]
    assert told == ["8 s", "10 min", "2.5 h", "10 days"]


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
