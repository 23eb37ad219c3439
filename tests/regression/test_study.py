"""The study: every cell once, resumed, refused where settings differ; its table and figures."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")


from devote.experiments import commands
from devote.experiments.calibration_figures import ablation_lines
from devote.experiments.runner import StudyOutcome, with_needs
from devote.figures import calibration_plots as plots
from devote.regression import data, study, uci
from devote.regression.models import AUTHORS, AUTO, ENSEMBLE, LENGTHS, MEAN, REFERENCE, Variant
from devote.regression.models import parse_model as model
from devote.regression.study import (
    PRESETS,
    CalibrationCell,
    CalibrationStudy,
    FitCheckpoint,
    FitCheckpoints,
)
from devote.regression.table import (
    COLUMNS,
    PAPER,
    ModelScores,
    as_csv,
    as_markdown,
    read_csv,
    regret,
)
from devote.regression.training import FitSettings

SCORES = ("auroc_y", "auroc_f", "rho_y", "rho_f")


def run(study: CalibrationStudy) -> list[str]:
    """Every missing cell in this process; the models that were computed."""
    missing = with_needs(study.cells(), unfinished=True)
    for cell in missing:
        assert cell.make()
    return [str(cell.model) for cell in missing]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> CalibrationStudy:
    """A tiny study of the GP task, run once."""
    study = replace(
        PRESETS["smoke"][1],
        out=tmp_path_factory.mktemp("study"),
        models=("gp-exact", "boot-ens", "mlp-8x2", "rfn-0.5"),
        training=FitSettings(epochs=4),
    )
    run(study)
    return study


def test_every_cell_has_scores_of_every_split(finished: CalibrationStudy) -> None:
    for name in finished.models:
        result = json.loads((finished.out / "gp" / f"{name}.json").read_text())
        assert len(result["splits"]) == 2
        assert set(SCORES) <= set(result["splits"][0])
        assert result["settings"]["preset"] == "smoke"
        assert set(result["pooled"]) == {"rho_y", "rho_f"}
    assert (
        "auroc_y_separate"
        in json.loads((finished.out / "gp/boot-ens.json").read_text())["splits"][0]
    )


def test_exact_gp_knows(finished: CalibrationStudy) -> None:
    splits = json.loads((finished.out / "gp/gp-exact.json").read_text())["splits"]
    assert np.mean([split["auroc_f"] for split in splits]) > 0.98


def test_resumed_study_computes_only_what_is_missing(finished: CalibrationStudy) -> None:
    (finished.out / "gp/gp-exact.json").unlink()
    assert run(finished) == ["gp-exact"]


def test_other_settings_are_not_mixed_in(finished: CalibrationStudy) -> None:
    with pytest.raises(ValueError, match="another `out`"):
        run(replace(finished, training=FitSettings(epochs=5)))


def test_a_setting_added_later_makes_no_old_cell_a_stranger(finished: CalibrationStudy) -> None:
    cell = CalibrationCell(finished, "gp", LENGTHS[1])
    whole = cell.path.read_text()

    def saved(name: str, value: float | None = None) -> tuple[bool, bool]:
        """Whether the cell counts, and is in the way, with another value of a setting, or none."""
        content = json.loads(whole)
        del content["settings"][name]
        if value is not None:
            content["settings"][name] = value
        cell.path.write_text(json.dumps(content))
        return cell.finished(), cell.outdated()

    assert saved("training.rate") == (True, False)  # at its default, so it was not there yet
    assert saved("training.epochs") == (False, True)  # not at its default
    assert saved("variant.weight_decay", 0.5) == (False, True)
    assert [str(scores.model) for scores in finished.scores()] == [
        "gp-exact",
        "boot-ens",
        "mlp-8x2",
    ]
    cell.path.write_text(whole)


def test_a_setting_of_the_ensemble_is_no_part_of_other_cells(finished: CalibrationStudy) -> None:
    other = replace(finished, variant=replace(finished.variant, ensemble_loss="mean"))
    for name, known in {"boot-ens": False, "rfn-0.5": True, "mlp-8x2": True}.items():
        cells = [CalibrationCell(one, "gp", model(name)) for one in (finished, other)]
        assert cells[1].finished() == known
        assert (cells[0].identity == cells[1].identity) == known


class KilledError(Exception):
    """Stands for whatever ends a process."""


def killed_after(chunks: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of epochs at which a fit is saved, which raises after some chunks."""
    told: list[int] = []
    save = FitCheckpoint.save

    def spy(stage: FitCheckpoint, state: object, done: int, total: int) -> None:
        save(stage, state, done, total)
        told.append(done)
        if len(told) == chunks:
            raise KilledError

    monkeypatch.setattr(FitCheckpoint, "save", spy)
    return told


@pytest.mark.parametrize("name", ["boot-ens", "rfn-0.5"])
def test_a_killed_cell_goes_on_and_equals_an_uninterrupted_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = replace(
        PRESETS["smoke"][1], training=FitSettings(epochs=6), variant=Variant(features=16)
    )
    studies = [replace(base, out=tmp_path / place) for place in ("whole", "cut")]
    whole, cut = (CalibrationCell(study, "gp", model(name)) for study in studies)
    monkeypatch.setattr("devote.regression.training._CHUNK", 2)
    monkeypatch.setattr(study, "SAVE_SECONDS", 0.0)
    for cell in (*whole.needs, *cut.needs, whole):
        cell.make()
    with monkeypatch.context() as patch:
        killed_after(2, patch)
        with pytest.raises(KilledError):
            cut.make()
    assert not cut.finished()
    assert cut.progress() == pytest.approx(2 / 3)
    with monkeypatch.context() as patch:
        saved = killed_after(9, patch)
        cut.make()
    assert saved == [6]
    one, other = (json.loads(cell.path.read_text()) for cell in (whole, cut))
    assert (len(one["sittings"]), len(other["sittings"])) == (1, 2)
    assert one["splits"] == other["splits"]
    for part in ("mean", "std"):
        np.testing.assert_array_equal(whole.arrays()[part], cut.arrays()[part])
    assert not list(tmp_path.rglob("*.state.npz"))
    assert cut.progress() == 1


def test_kept_state_of_other_settings_or_half_a_file_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "SAVE_SECONDS", 0.0)
    path = tmp_path / "gp" / "x.fit.state.npz"

    def stage(digest: str) -> FitCheckpoint:
        return FitCheckpoints({"fit": path}, digest).stage("fit")

    stage("one").save({"a": np.ones(3, np.float32)}, 2, 4)
    begun = {"a": np.zeros(3, np.float32)}
    restored, done = stage("one").restore(begun)
    assert (restored["a"].tolist(), done) == ([1, 1, 1], 2)
    for digest, start in (("two", begun), ("one", {"a": np.zeros(4, np.float32)})):
        same, done = stage(digest).restore(start)
        assert (same is start, done) == (True, 0)
    for left in (100, 0):
        path.write_bytes(path.read_bytes()[:left])
        assert stage("one").restore(begun)[1] == 0


def test_an_empty_result_is_named(finished: CalibrationStudy) -> None:
    path = finished.out / "gp" / "rfn-0.5.json"
    whole = path.read_bytes()
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=r"JSON in .*rfn-0\.5\.json.*delete it"):
        run(finished)
    path.write_bytes(whole)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CalibrationStudy:
    """A tiny study of a made-up table called yacht, whose fits are told every second epoch."""
    generator = np.random.default_rng(0)
    x = generator.uniform(size=(120, 3))
    values = np.round(np.column_stack([x, x @ [1.0, -2.0, 0.5]]), 3)
    digest = hashlib.sha256(uci.as_csv(values).encode()).hexdigest()
    monkeypatch.setitem(uci.TABLES, "yacht", uci.Table((120, 4), digest, ()))
    (tmp_path / "yacht.csv").write_text(uci.as_csv(values))
    monkeypatch.setattr("devote.regression.training._CHUNK", 2)
    monkeypatch.setattr(study, "SAVE_SECONDS", 0.0)
    return replace(
        PRESETS["smoke"][1],
        datasets=("yacht",),
        models=("rfn-0.5",),
        data=tmp_path,
        out=tmp_path / "whole",
        training=FitSettings(epochs=6),
        variant=Variant(features=16),
    )


def test_a_table_is_scored_at_its_own_rows(table: CalibrationStudy) -> None:
    run(table)
    means = dict(np.load(table.out / "yacht/mean.npz"))
    answer = dict(np.load(table.out / "yacht/rfn-0.5.npz"))
    rows = data.unit_scale(uci.load("yacht", table.data))
    scores = json.loads((table.out / "yacht/rfn-0.5.json").read_text())["splits"]
    for number in range(table.splits):
        _, inside, outside = data.gap(rows[:, :-1], number)
        tested = np.concatenate([inside, outside])
        std, mean = answer["std"][number], means["mean"][number]
        for name, target in {"y": rows[:, -1], "f": means["reference"]}.items():
            expected = np.corrcoef(np.abs(target[tested] - mean), std)[0, 1]
            assert scores[number][f"rho_{name}"] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("chunks", [2, 5])
def test_a_mean_killed_in_either_of_its_fits_goes_on(
    table: CalibrationStudy, chunks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = CalibrationCell(table, "yacht", MEAN)
    cut = replace(whole, study=replace(table, out=table.out.with_name("cut")))
    whole.make()
    with monkeypatch.context() as patch:
        killed_after(chunks, patch)
        with pytest.raises(KilledError):
            cut.make()
    with monkeypatch.context() as patch:
        saved = killed_after(99, patch)
        cut.make()
    assert saved == {2: [6, 2, 4, 6], 5: [6]}[chunks]
    for name in ("mean", "reference"):
        np.testing.assert_array_equal(whole.arrays()[name], cut.arrays()[name])


def test_cells_of_other_rows_are_not_put_together(
    table: CalibrationStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cell,) = table.cells()
    cell.needs[0].make()
    sorted_otherwise = data.gap
    monkeypatch.setattr(data, "gap", lambda x, number, ties: sorted_otherwise(x, number + 1))
    with pytest.raises(ValueError, match="the same rows in every split"):
        cell.make()


def test_state_is_written_after_a_pause_and_at_the_end(tmp_path: Path) -> None:
    stage = FitCheckpoints({"fit": tmp_path / "x.npz"}, "one").stage("fit")
    stage.save({"a": np.ones(3)}, 2, 4)
    assert not stage.path.exists()
    stage.save({"a": np.ones(3)}, 4, 4)
    assert stage.path.is_file()


def test_recorded_commands_are_understood() -> None:
    import tyro

    smoke = replace(
        PRESETS["smoke"][1],
        out=Path("elsewhere"),
        variant=Variant("uniform", features=64),
        training=FitSettings(epochs=3),
    )
    for asked in (CalibrationStudy(), smoke, PRESETS["authors"][1]):
        for one in (MEAN, AUTO, REFERENCE, ENSEMBLE):
            words = CalibrationCell(asked, "gp", one).describe()["command"].split()
            assert words[:3] == ["python", "-m", "devote.regression.study"]
            parsed = tyro.extras.overridable_config_cli(PRESETS, args=words[3:])
            assert parsed == replace(asked, datasets=("gp",), models=(str(one),))
            assert [(cell.dataset, cell.model) for cell in parsed.cells()] == [("gp", one)]


def test_unknown_names_are_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="boston"):
        run(CalibrationStudy(out=tmp_path / "x", datasets=("boston",)))
    for name in ("forest", "rfn-", "rfn-0", "mlp-100"):
        with pytest.raises(ValueError):
            run(CalibrationStudy(out=tmp_path / "x", models=(name,)))
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("settings", [{"splits": 0}, {"members": 1}])
def test_no_splits_or_no_spread_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="1 to 1,000 splits and 2 to 1,000 members"):
        CalibrationStudy(**settings)


def test_the_command_runs_what_is_typed_and_writes_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = []

    def in_process(cells: list[CalibrationCell], root: Path, _: object) -> StudyOutcome:
        roots.append(root)
        for cell in with_needs(cells, unfinished=True):
            cell.make()
        return StudyOutcome(len(cells))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "run_cells", in_process)
    words = "study smoke --models gp-exact --training.epochs 1 --out"
    for out, root in (("x", "x"), ("runs/calibration/x", "runs")):
        monkeypatch.setattr("sys.argv", [*words.split(), out])
        with pytest.raises(SystemExit, match="0"):
            commands.calibration_command()
        assert roots.pop() == Path(root)
        assert "| gp-exact |" in Path(out, "table.md").read_text()
        assert Path(out, "gp", "priors.npz").is_file()


def test_what_cannot_be_run_is_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["study", "smoke", "--models", "forest", "--out", "x"])
    with pytest.raises(SystemExit, match=r"devote: .*rfn-LENGTH"):
        commands.calibration_command()
    assert list(tmp_path.iterdir()) == []


def test_a_table_that_cannot_be_had_is_named(
    table: CalibrationStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DEVOTE_DATA", raising=False)
    (tmp_path / "yacht.csv").unlink()
    with pytest.raises(ValueError, match=r"put yacht\.csv .* at"):
        run(table)


def test_figures_show_the_models_and_the_sizes(finished: CalibrationStudy, tmp_path: Path) -> None:
    drawn = finished.write_drawings()
    answers = {str(cell.model): cell.arrays() for cell in finished.cells()[1:3]}
    figure = plots.gp_calibration(drawn["task"], answers, 1)
    assert [axes.get_title() for axes in figure.axes] == ["bootstrapped ensemble", "mlp-8x2"]
    assert len(plots.prior_comparison(drawn["priors"]).axes) == 3
    lines = ablation_lines(finished.scores(), "mlp", "auroc_y")
    (line,) = lines
    assert (line.label, list(line.points)) == ("depth 2, GP task", [8])
    labels = plots.ablation({"AUROC": lines}, "width").axes[0].get_legend_handles_labels()[1]
    assert labels == ["depth 2, GP task"]


def test_lines_of_an_ablation_are_means_over_the_uci_sets_and_the_gp_task() -> None:
    cells = [
        scores(name, dataset, value)
        for name, value in {"rfn-0.5": 0.5, "rfn-2": 0.75, "rfn-auto": 1.0}.items()
        for dataset in ("wine", "yacht", "gp")
    ]
    lines = {line.label: line for line in ablation_lines(cells, "rfn", "rho_f")}
    assert list(lines) == ["2 UCI sets", "GP task", "auto, 2 UCI sets", "auto, GP task"]
    assert {x: y.mean for x, y in lines["2 UCI sets"].points.items()} == {0.5: 0.5, 2.0: 0.75}
    assert lines["auto, GP task"].points.mean == 1.0
    assert lines["auto, GP task"].look.colour == lines["GP task"].look.colour
    figure = plots.ablation({"rho": list(lines.values())}, "length scale")
    assert len(figure.axes[0].get_legend_handles_labels()[1]) == 4


def test_presets_name_the_variant() -> None:
    assert PRESETS["paper"][1].variant == Variant("ones", "all", "fan_in")
    assert (
        PRESETS["authors"][1].variant
        == AUTHORS
        == Variant("uniform", "readout", "fan_out", "quicksort", ensemble_loss="mean")
    )
    assert model("rfn-0.25").prior(AUTHORS).readout == "uniform"


def scores(name: str, dataset: str, *values: float) -> ModelScores:
    made_up = {score: values for score in SCORES}
    return ModelScores(model(name), dataset, made_up, 1.0, {"pooled_rho_f": values[0]})


def test_table_marks_best_and_second_beside_the_paper() -> None:
    spread = np.array([-0.01, 0.01])
    cells = [
        scores(name, column, *(v + spread))
        for name, v in {"boot-ens": 0.7, "mlp-100x2": 0.8, "rfn-0.25": 0.9, "gp-exact": 1}.items()
        for column in COLUMNS
        if name != "gp-exact" or column == "gp"
    ]
    text = as_markdown(cells, "paper")
    row = next(line for line in text.splitlines() if line.startswith("| rfn-0.25"))
    assert row.split(" | ")[1] == "**0.900** ± 0.010 (0.924)"
    assert row.rstrip(" |").endswith("**0.900** ± 0.004 (0.844)")
    assert "<u>0.800</u> ± 0.010 (0.869)" in text
    assert "| gp-exact | - | - | - | - | - | - | - | - | 1.000 ± 0.010 | - |" in text
    assert "| rfn-0.25 | **0.890** (0.303)" in text  # pooled
    assert "rfn-0.25,concrete,auroc_y,0.9000,0.0100,2,0.924" in as_csv(cells)
    assert "rfn-0.25,concrete,pooled_rho_f,0.8900,,2,0.303" in as_csv(cells)
    read = read_csv(as_csv(cells))
    assert [(row.model, row.dataset) for row in read] == [(c.model, c.dataset) for c in cells]
    for row, cell in zip(read, cells, strict=True):
        for score in ("auroc_y", "pooled_rho_f", "unknown"):
            np.testing.assert_allclose(row.estimate(score), cell.estimate(score), atol=1e-4)


def test_the_automatic_length_is_drawn_over_the_same_sets_as_the_others() -> None:
    pairs = [("rfn-0.5", "wine"), ("rfn-0.5", "yacht"), ("rfn-auto", "wine")]
    lines = ablation_lines([scores(*pair, 0.7) for pair in pairs], "rfn", "auroc_y")
    assert [line.label for line in lines] == ["1 UCI set", "auto, 1 UCI set"]


def test_table_says_how_many_splits_have_a_value() -> None:
    text = as_markdown([scores("boot-ens", "yacht", 0.5, 0.7, float("nan"))], "paper")
    assert "**0.600** ± 0.100 (n=2) (0.922)" in text


def test_a_table_of_some_sets_has_their_columns_and_their_mean() -> None:
    names = ("rfn-2", "rfn-auto", "mlp-400x1", "mlp-50x2", "mlp-50x1", "rfn-0.25")
    cells = [scores(name, column, 0.5, 0.7) for name in names for column in ("wine", "yacht", "gp")]
    lines = as_markdown(cells, "paper").splitlines()
    assert lines[0].endswith("The mean is over wine, yacht.")
    assert lines[4] == "| model | wine | yacht | gp | mean |"
    assert [line.split()[1] for line in lines[6:12]] == [
        "rfn-0.25", "mlp-50x1", "mlp-400x1", "mlp-50x2", "rfn-2", "rfn-auto",
    ]  # fmt: skip
    assert lines[6].endswith(f"± 0.071 ({(0.720 + 0.976) / 2:.3f}) |")
    assert lines[7].endswith("± 0.071 |")  # the paper has no such row
    alone = as_markdown([scores("rfn-0.25", "gp", 0.5, 0.7)], "smoke").splitlines()
    assert alone[4] == "| model | gp |"
    assert "mean is over" not in alone[0]


def test_a_mean_needs_every_set_of_the_table() -> None:
    cells = [scores("rfn-0.25", name, 0.5, 0.7) for name in ("wine", "yacht")]
    cells.append(scores("boot-ens", "wine", 0.5, 0.7))
    row = next(x for x in as_markdown(cells, "paper").splitlines() if x.startswith("| boot-ens"))
    assert row.split(" | ")[2:] == ["- (0.922)", "- (0.727) |"]


def test_regret_is_against_the_best_fixed_length_split_by_split() -> None:
    fixed = {"rfn-0.25": (0.5, 0.9), "rfn-1": (0.6, 0.9), "rfn-4": (0.1, 1.0)}
    cells = [
        scores(name, column, *fixed.get(name, (0.2, 0.2)))
        for name in map(str, LENGTHS)
        for column in ("wine", "yacht", "gp")
    ]
    assert regret(cells) == {}
    cells += [scores("rfn-auto", "wine", 0.5, 0.9)._replace(lengths=(0.25, 0.25))]
    cells += [scores("rfn-auto", "yacht", 0.6, 0.9), scores("rfn-auto", "gp", 0.1, 1.0)]
    lost = regret(cells)
    assert lost["wine"] == pytest.approx((0.05, 0.05, 2))
    assert lost["yacht"] == pytest.approx((0.0, 0.0, 2))
    assert lost["gp"] == pytest.approx((0.2, 0.3, 2))
    assert lost["mean"] == pytest.approx((0.025, 0.025, 2))
    text = as_markdown(cells, "paper")
    assert "| wine | 0.050 ± 0.050 | 0.25, 0.25 |" in text
    assert "| mean of 2 UCI sets | 0.025 ± 0.025 |" in text
    assert "rfn-auto,wine,regret_auroc_y,0.0500,0.0500,2," in as_csv(cells)


def test_paper_means_are_the_means_of_the_paper_s_columns() -> None:
    for values in PAPER.values():
        assert np.mean(values[:8]) == pytest.approx(values[9], abs=0.0016)
