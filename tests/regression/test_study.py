"""The study: every cell once, resumed, refused where settings differ; its table and figures."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")

from devote.figures import calibration as figures
from devote.regression import cells as files
from devote.regression import keeping, plan, splits, uci
from devote.regression.plan import PRESETS, Study
from devote.regression.scores import COLUMNS, LENGTHS, Cell, regret
from devote.regression.study import main as study_main
from devote.regression.study import run
from devote.regression.table import PAPER, as_csv, as_markdown
from devote.regression.tasks import AUTHORS, Variant, parse_prior
from devote.regression.training import Training

SCORES = ("auroc_y", "auroc_f", "rho_y", "rho_f")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A tiny study of the GP task, run once."""
    study = replace(
        PRESETS["smoke"][1],
        out=tmp_path_factory.mktemp("study"),
        models=("gp-exact", "boot-ens", "mlp-8x2", "rfn-0.5"),
        training=Training(epochs=4),
    )
    run(study)
    return study


def test_every_cell_has_scores_of_every_split(finished: Study) -> None:
    for model in finished.models:
        result = json.loads((finished.out / "gp" / f"{model}.json").read_text())
        assert len(result["splits"]) == 2
        assert set(SCORES) <= set(result["splits"][0])
        assert result["settings"]["preset"] == "smoke"
        assert set(result["pooled"]) == {"rho_y", "rho_f"}
    assert (
        "auroc_y_separate"
        in json.loads((finished.out / "gp/boot-ens.json").read_text())["splits"][0]
    )


def test_exact_gp_knows(finished: Study) -> None:
    splits = json.loads((finished.out / "gp/gp-exact.json").read_text())["splits"]
    assert np.mean([split["auroc_f"] for split in splits]) > 0.98


def test_resumed_study_computes_only_what_is_missing(
    finished: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = []
    original = files.compute

    def spy(study: Study, dataset: str, model: str, *rest: object) -> None:
        computed.append(model)
        original(study, dataset, model, *rest)

    monkeypatch.setattr(files, "compute", spy)
    (finished.out / "gp/gp-exact.json").unlink()
    run(finished)
    assert computed == ["gp-exact"]


def test_other_settings_are_not_mixed_in(finished: Study) -> None:
    with pytest.raises(ValueError, match="another `out`"):
        run(replace(finished, training=Training(epochs=5)))


def test_a_setting_added_later_makes_no_old_cell_a_stranger(
    finished: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = finished.out / "gp/rfn-0.5.json"
    before, whole = plan.identity(finished, "gp", "rfn-0.5"), path.read_text()
    settings = Study.settings
    monkeypatch.setattr(Study, "settings", lambda *given: settings(*given) | {"new": 1})
    for default, known in ((1, True), (2, False)):
        monkeypatch.setitem(plan.DEFAULTS, "new", default)
        assert files.is_finished(finished, "gp", "rfn-0.5") == known
        assert files.is_outdated(finished, "gp", "rfn-0.5") != known
        assert (plan.identity(finished, "gp", "rfn-0.5") == before) == known
    monkeypatch.undo()
    changed = json.loads(whole)
    changed["settings"]["variant.weight_decay"] = 0.5
    path.write_text(json.dumps(changed))
    assert not files.is_finished(finished, "gp", "rfn-0.5")
    assert [r["model"] for r in files.results_of(finished, plan.cells_of(finished))] == [
        "gp-exact",
        "boot-ens",
        "mlp-8x2",
    ]
    path.write_text(whole)


def test_a_setting_of_the_ensemble_is_no_part_of_other_cells(finished: Study) -> None:
    other = replace(finished, variant=replace(finished.variant, ensemble_loss="mean"))
    for model, known in {"boot-ens": False, "rfn-0.5": True, "mlp-8x2": True}.items():
        assert files.is_finished(other, "gp", model) == known
        same = plan.identity(other, "gp", model) == plan.identity(finished, "gp", model)
        assert same == known


class KilledError(Exception):
    """Stands for whatever ends a process."""


def killed_after(chunks: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of epochs at which a fit is told, which raises after some chunks."""
    told: list[int] = []
    tell = keeping.Stage.tell

    def spy(stage: keeping.Stage, state: object, done: int, total: int) -> None:
        tell(stage, state, done, total)
        told.append(done)
        if len(told) == chunks:
            raise KilledError

    monkeypatch.setattr(keeping.Stage, "tell", spy)
    return told


@pytest.mark.parametrize("model", ["boot-ens", "rfn-0.5"])
def test_a_killed_cell_goes_on_and_equals_an_uninterrupted_one(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = replace(PRESETS["smoke"][1], training=Training(epochs=6), variant=Variant(features=16))
    whole, cut = (replace(base, out=tmp_path / name) for name in ("whole", "cut"))
    monkeypatch.setattr("devote.regression.training._CHUNK", 2)
    monkeypatch.setattr(keeping, "PAUSE", 0.0)
    for study in (whole, cut):
        files.compute(study, "gp", plan.MEAN)
    files.compute(whole, "gp", model)
    with monkeypatch.context() as patch:
        killed_after(2, patch)
        with pytest.raises(KilledError):
            files.compute(cut, "gp", model)
    assert not files.is_finished(cut, "gp", model)
    assert files.share(cut, "gp", model) == pytest.approx(2 / 3)
    with monkeypatch.context() as patch:
        told = killed_after(9, patch)
        files.compute(cut, "gp", model)
    assert told == [6]
    one, other = (json.loads((s.out / "gp" / f"{model}.json").read_text()) for s in (whole, cut))
    assert (len(one["sittings"]), len(other["sittings"])) == (1, 2)
    assert one["splits"] == other["splits"]
    arrays = [dict(np.load(s.out / "gp" / f"{model}.npz")) for s in (whole, cut)]
    for name in ("mean", "std"):
        np.testing.assert_array_equal(arrays[0][name], arrays[1][name])
    assert not list(tmp_path.rglob("*.state.npz"))
    assert files.share(cut, "gp", model) == 1


def test_kept_state_of_other_settings_or_half_a_file_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "PAUSE", 0.0)
    state = {"a": np.ones(3, np.float32)}
    path = tmp_path / "gp" / "x.json"
    keeping.Keep(path, "one", ("fit",)).stage("fit").tell(state, 2, 4)
    begun = {"a": np.zeros(3, np.float32)}
    restored, done = keeping.Keep(path, "one", ("fit",)).stage("fit").restore(begun)
    assert (restored["a"].tolist(), done) == ([1, 1, 1], 2)
    for digest, start in (("two", begun), ("one", {"a": np.zeros(4, np.float32)})):
        same, done = keeping.Keep(path, digest, ("fit",)).stage("fit").restore(start)
        assert (same is start, done) == (True, 0)
    file = keeping.kept_path(path, "fit")
    for left in (100, 0):
        file.write_bytes(file.read_bytes()[:left])
        assert keeping.Keep(path, "one", ("fit",)).stage("fit").restore(begun)[1] == 0
        assert keeping.share_done(file, "one") == 0


def test_an_empty_result_is_named(finished: Study) -> None:
    path = finished.out / "gp" / "rfn-0.5.json"
    whole = path.read_bytes()
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=r"JSON in .*rfn-0\.5\.json.*delete it"):
        run(finished)
    path.write_bytes(whole)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """A tiny study of a made-up table called yacht, whose fits are told every second epoch."""
    generator = np.random.default_rng(0)
    x = generator.uniform(size=(120, 3))
    values = np.round(np.column_stack([x, x @ [1.0, -2.0, 0.5]]), 3)
    digest = hashlib.sha256(uci.as_csv(values).encode()).hexdigest()
    monkeypatch.setitem(uci.TABLES, "yacht", uci.Table((120, 4), digest, ()))
    (tmp_path / "yacht.csv").write_text(uci.as_csv(values))
    monkeypatch.setattr("devote.regression.training._CHUNK", 2)
    monkeypatch.setattr(keeping, "PAUSE", 0.0)
    return replace(
        PRESETS["smoke"][1],
        datasets=("yacht",),
        models=("rfn-0.5",),
        data=tmp_path,
        out=tmp_path / "whole",
        training=Training(epochs=6),
        variant=Variant(features=16),
    )


def test_a_table_is_scored_at_its_own_rows(table: Study) -> None:
    run(table)
    means = dict(np.load(table.out / "yacht/mean.npz"))
    answer = dict(np.load(table.out / "yacht/rfn-0.5.npz"))
    rows = splits.unit_scale(uci.load("yacht", table.data))
    scores = json.loads((table.out / "yacht/rfn-0.5.json").read_text())["splits"]
    for number in range(table.splits):
        _, inside, outside = splits.gap(rows[:, :-1], number)
        judged = np.concatenate([inside, outside])
        std, mean = answer["std"][number], means["mean"][number]
        for name, target in {"y": rows[:, -1], "f": means["reference"]}.items():
            expected = np.corrcoef(np.abs(target[judged] - mean), std)[0, 1]
            assert scores[number][f"rho_{name}"] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("chunks", [2, 5])
def test_a_mean_killed_in_either_of_its_fits_goes_on(
    table: Study, chunks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = replace(table, out=table.out.with_name("cut"))
    files.compute(table, "yacht", plan.MEAN)
    with monkeypatch.context() as patch:
        killed_after(chunks, patch)
        with pytest.raises(KilledError):
            files.compute(cut, "yacht", plan.MEAN)
    with monkeypatch.context() as patch:
        told = killed_after(99, patch)
        files.compute(cut, "yacht", plan.MEAN)
    assert told == {2: [6, 2, 4, 6], 5: [6]}[chunks]
    one, other = (dict(np.load(s.out / "yacht/mean.npz")) for s in (table, cut))
    for name in ("mean", "reference"):
        np.testing.assert_array_equal(one[name], other[name])


def test_cells_of_other_rows_are_not_put_together(
    table: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.compute(table, "yacht", plan.MEAN)
    sorted_otherwise = splits.gap
    monkeypatch.setattr(splits, "gap", lambda x, number, ties: sorted_otherwise(x, number + 1))
    with pytest.raises(ValueError, match="the same rows in every split"):
        files.compute(table, "yacht", "rfn-0.5")


def test_state_is_written_after_a_pause_and_at_the_end(tmp_path: Path) -> None:
    stage = keeping.Keep(tmp_path / "x.json", "one", ("fit",)).stage("fit")
    stage.tell({"a": np.ones(3)}, 2, 4)
    assert not stage.path.exists()
    stage.tell({"a": np.ones(3)}, 4, 4)
    assert stage.path.is_file()


def test_recorded_commands_are_understood() -> None:
    import tyro

    smoke = replace(
        PRESETS["smoke"][1],
        out=Path("elsewhere"),
        variant=Variant("uniform", features=64),
        training=Training(epochs=3),
    )
    for study in (Study(), smoke, PRESETS["authors"][1]):
        for model in (plan.MEAN, "rfn-auto", "gp-exact", "boot-ens"):
            words = plan.command(study, "gp", model).split()
            assert words[:3] == ["python", "-m", "devote.regression.study"]
            parsed = tyro.extras.overridable_config_cli(PRESETS, args=words[3:])
            assert parsed == replace(study, datasets=("gp",), models=(model,))
            assert plan.cells_of(parsed) == [("gp", model)]


def test_unknown_names_are_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="boston"):
        run(Study(out=tmp_path / "x", datasets=("boston",)))
    for model in ("forest", "rfn-", "rfn-0", "mlp-100"):
        with pytest.raises(ValueError):
            run(Study(out=tmp_path / "x", models=(model,)))
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("settings", [{"splits": 0}, {"members": 1}])
def test_no_splits_or_no_spread_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="1 split and 2 members"):
        Study(**settings)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("smoke --datasets yacht --models boot-ens --out x", r"put yacht\.csv .* at"),
        ("smoke --models forest --out x", "rfn-LENGTH"),
    ],
)
def test_what_a_user_can_put_right_is_a_message(
    words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DEVOTE_DATA", raising=False)
    monkeypatch.setattr(uci, "_download", lambda name, _, places: missing(name, places))
    monkeypatch.setattr("sys.argv", ["study", *words.split()])
    with pytest.raises(SystemExit, match=f"devote: .*{message}"):
        study_main()
    assert list(tmp_path.iterdir()) == []


def missing(name: str, places: list[Path]) -> None:
    raise uci._missing(name, places, ["no network"])


def test_figures_are_drawn_from_the_files(finished: Study, tmp_path: Path) -> None:
    drawn = figures.gp_calibration(finished.out, ("boot-ens", "rfn-0.5"), 1)
    assert len(drawn.axes) == 2
    drawn.savefig(tmp_path / "a.png")
    assert len(figures.prior_comparison(finished.out).axes) == 3
    labels = figures.ablation(finished.out, "mlp").axes[0].get_legend_handles_labels()[1]
    assert labels == ["depth 2, GP task"]
    with pytest.raises(ValueError, match="run devote"):
        figures.prior_comparison(tmp_path)
    with pytest.raises(ValueError, match="run devote"):
        figures.ablation(tmp_path, "mlp")


def test_presets_name_the_variant() -> None:
    assert PRESETS["paper"][1].variant == Variant("ones", "all", "fan_in")
    assert (
        PRESETS["authors"][1].variant
        == AUTHORS
        == Variant("uniform", "readout", "fan_out", "quicksort", ensemble_loss="mean")
    )
    assert parse_prior("rfn-0.25", AUTHORS).readout == "uniform"


def cell(model: str, dataset: str, *values: float) -> Cell:
    return Cell(model, dataset, {s: values for s in SCORES}, 1.0, {"pooled_rho_f": values[0]})


def test_table_marks_best_and_second_beside_the_paper() -> None:
    spread = np.array([-0.01, 0.01])
    cells = [
        cell(model, name, *(v + spread))
        for model, v in {"boot-ens": 0.7, "mlp-100x2": 0.8, "rfn-0.25": 0.9, "gp-exact": 1}.items()
        for name in COLUMNS
        if model != "gp-exact" or name == "gp"
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


def test_table_says_how_many_splits_have_a_value() -> None:
    text = as_markdown([cell("boot-ens", "yacht", 0.5, 0.7, float("nan"))], "paper")
    assert "**0.600** ± 0.100 (n=2) (0.922)" in text


def test_a_table_of_some_sets_has_their_columns_and_their_mean() -> None:
    models = ("rfn-2", "rfn-auto", "mlp-400x1", "mlp-50x2", "mlp-50x1", "rfn-0.25")
    cells = [cell(model, name, 0.5, 0.7) for model in models for name in ("wine", "yacht", "gp")]
    lines = as_markdown(cells, "paper").splitlines()
    assert lines[0].endswith("The mean is over wine, yacht.")
    assert lines[4] == "| model | wine | yacht | gp | mean |"
    assert [line.split()[1] for line in lines[6:12]] == [
        "rfn-0.25", "mlp-50x1", "mlp-400x1", "mlp-50x2", "rfn-2", "rfn-auto",
    ]  # fmt: skip
    assert lines[6].endswith(f"± 0.071 ({(0.720 + 0.976) / 2:.3f}) |")
    assert lines[7].endswith("± 0.071 |")  # the paper has no such row
    alone = as_markdown([cell("rfn-0.25", "gp", 0.5, 0.7)], "smoke").splitlines()
    assert alone[4] == "| model | gp |"
    assert "mean is over" not in alone[0]


def test_a_mean_needs_every_set_of_the_table() -> None:
    cells = [cell("rfn-0.25", name, 0.5, 0.7) for name in ("wine", "yacht")]
    cells.append(cell("boot-ens", "wine", 0.5, 0.7))
    row = next(x for x in as_markdown(cells, "paper").splitlines() if x.startswith("| boot-ens"))
    assert row.split(" | ")[2:] == ["- (0.922)", "- (0.727) |"]


def test_regret_is_against_the_best_fixed_length_split_by_split() -> None:
    fixed = {"rfn-0.25": (0.5, 0.9), "rfn-1": (0.6, 0.9), "rfn-4": (0.1, 1.0)}
    cells = [
        cell(model, name, *fixed.get(model, (0.2, 0.2)))
        for model in LENGTHS
        for name in ("wine", "yacht", "gp")
    ]
    assert regret(cells) == {}
    cells += [cell("rfn-auto", "wine", 0.5, 0.9)._replace(lengths=(0.25, 0.25))]
    cells += [cell("rfn-auto", "yacht", 0.6, 0.9), cell("rfn-auto", "gp", 0.1, 1.0)]
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
