"""The calibration study in the same frame: fits as cells, the table with its scale."""

import csv
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from devote import cli
from devote.core.errors import UserError
from devote.experiments import calibration_figures as calibration
from devote.experiments import commands
from devote.experiments.calibration_figures import Page, study_at, wall_time
from devote.experiments.cells import read_record, write_record
from devote.experiments.paper_figures import FIGURES
from devote.experiments.runner import StudyOutcome, with_needs
from devote.regression import study as calibration_study
from devote.regression.models import AUTO, ENSEMBLE, LENGTHS, MEAN, ModelSpec, Variant, parse_model
from devote.regression.study import PRESETS, CalibrationCell, CalibrationStudy
from devote.regression.training import FitSettings


@pytest.fixture
def study(tmp_path: Path) -> CalibrationStudy:
    """The smoke study, smaller still."""
    return replace(study_at("smoke", tmp_path), members=2, training=FitSettings(epochs=2))


def test_a_fit_needs_its_mean_and_is_made_once(
    study: CalibrationStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = CalibrationCell(study, "gp", ENSEMBLE)
    (mean,) = cell.needs
    assert (mean.model, mean.needs) == (MEAN, ())
    for one in (mean, cell):
        assert not one.finished()
        assert one.make()
        assert one.finished()
        write_record(one, 3.0)
    out = tmp_path / "out"
    monkeypatch.setitem(PRESETS, "smoke", ("", replace(study, out=PRESETS["smoke"][1].out)))
    figure = calibration.calibration_table("smoke", tmp_path)
    written = figure.draw(out, "devote figure tab:calibration_main")
    names = [path.name for path in written]
    assert names == ["table.md", "table.csv", "splits.csv", "README.md"]
    with open(out / "splits.csv", newline="") as file:
        splits = list(csv.DictReader(file))
    with open(out / "table.csv", newline="") as file:
        table = {row["score"]: row for row in csv.DictReader(file)}
    for score in ("auroc_y", "rho_f"):  # every entry can be recomputed
        values = [float(row["value"]) for row in splits if row["score"] == score and row["value"]]
        assert len(values) == int(table[score]["splits"])
        assert np.mean(values) == pytest.approx(float(table[score]["mean"]), abs=1e-4)
    assert "scale smoke, preset smoke" in (out / "table.md").read_text()
    text = (out / "README.md").read_text()
    assert "1 of 5 cells" in text
    assert "(2 fits and compositions)" in text
    assert "of wall time on 1 core." in text


def test_a_table_is_not_written_over_one_that_holds_more(
    study: CalibrationStudy, tmp_path: Path
) -> None:
    for one in (CalibrationCell(study, "gp", MEAN), CalibrationCell(study, "gp", ENSEMBLE)):
        one.make()
    out = tmp_path / "out"
    out.mkdir()
    page = Page(study, "a caption", "a command", out)
    assert calibration.draw_table(page)
    table = (out / "table.csv").read_text()
    held = table + table.splitlines()[1].replace("boot-ens", "mlp-100x2") + "\n"
    (out / "table.csv").write_text(held)
    with pytest.raises(UserError, match=r"table\.csv; got all but 1, such as mlp-100x2 on gp"):
        calibration.draw_table(page)
    assert (out / "table.csv").read_text() == held


def test_ablations_are_drawn_from_the_recorded_table(tmp_path: Path) -> None:
    out, recorded = tmp_path / "out", Path("results/calibration_ablations/desk")
    shutil.copytree(recorded, out)
    written = calibration.calibration_ablations("desk", tmp_path).draw(out, "a command")
    assert [path.name for path in written] == ["ablation-rfn.png", "ablation-mlp.png"]
    for name in ("table.csv", "table.md", "README.md"):
        assert (out / name).read_bytes() == (recorded / name).read_bytes()


def test_scales_share_the_cells_of_the_paper_s_settings(tmp_path: Path) -> None:
    desk, paper = (calibration.calibration_table(s, tmp_path).cells() for s in ("desk", "paper"))
    assert {cell.identity for cell in desk} < {cell.identity for cell in paper}
    assert len(paper) == 9 * 4 + 1  # the exact GP


def test_identity_knows_settings_dataset_and_model(study: CalibrationStudy) -> None:
    cell = CalibrationCell(study, "gp", ENSEMBLE)
    others = [
        replace(cell, model=LENGTHS[1]),
        replace(cell, dataset="yacht"),
        replace(cell, study=replace(study, splits=3)),
    ]
    assert len({one.identity for one in [cell, *others]}) == 4
    elsewhere = replace(cell, study=replace(study, out=Path("x")))
    assert elsewhere.identity != cell.identity  # its results are not the other's


def test_variants_need_the_means_of_their_own_places(tmp_path: Path) -> None:
    cells = with_needs(calibration.calibration_variants("desk", tmp_path).cells())
    places = [(cell.study.out, cell.dataset, cell.model) for cell in cells]
    needed = {(n.study.out, n.dataset, n.model) for cell in cells for n in cell.needs}
    assert needed <= set(places)
    assert len({cell.identity for cell in cells}) == len(places)


def test_variants_are_not_written_over_a_fuller_table(tmp_path: Path) -> None:
    path = tmp_path / "table.md"
    calibration.write_variants(path, "| a | - | - |")
    calibration.write_variants(path, "| a | 1 | - |")
    calibration.write_variants(path, "| a | - | 1 |")
    with pytest.raises(UserError, match=r"in .*table\.md; got fewer, by 1 of its"):
        calibration.write_variants(path, "| a | - | - |")
    assert path.read_text() == "| a | - | 1 |"


def in_process(cells: list[CalibrationCell], *_: object) -> StudyOutcome:
    """The runner without processes: tiny fits would not be worth them."""
    for cell in with_needs(cells, unfinished=True):
        assert 0 <= cell.progress() < 1
        assert cell.make()
        write_record(cell, 1.0)
        assert cell.progress() == 1
        assert "python -m devote.regression.study" in read_record(cell.record)["command"]
    return StudyOutcome(len(cells))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All labels share their cells."""
    return tmp_path_factory.mktemp("runs")


@pytest.mark.parametrize(
    ("label", "files"),
    [
        ("fig:gp-calibration", ["gp-calibration.png", "table.md", "table.csv", "README.md"]),
        ("fig:prior-comparison", ["prior-comparison.png", "README.md"]),
        ("tab:calibration_main", ["table.md", "table.csv", "README.md"]),
        ("calibration_ablations", ["ablation-rfn.png", "ablation-mlp.png", "table.md"]),
        ("calibration_authors", ["table.md", "table.csv", "README.md"]),
        ("calibration_variants", ["table.md", "README.md"]),
        ("calibration_report", ["gp.png", "forest.png", "ours.png", "report.json", "README.md"]),
    ],
)
def test_every_label_from_command_to_files(
    label: str, files: list[str], runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = {"members": 2, "variant": Variant(features=8), "training": FitSettings(epochs=1)}
    text, smoke = PRESETS["smoke"]
    monkeypatch.setitem(PRESETS, "smoke", (text, replace(smoke, **tiny)))
    monkeypatch.setattr(commands, "run_cells", in_process)
    sizes = (ModelSpec("mlp", (100, 2)), ModelSpec("mlp", (8, 1)))
    monkeypatch.setattr(calibration_study, "SIZES", sizes)
    words = ["figure", label, "--scale", "smoke", "--runs", str(runs), "--out", str(tmp_path)]
    assert cli.dispatch(words) == 0
    assert all((tmp_path / file).stat().st_size > 100 for file in files)
    assert f"    devote figure {label} --scale smoke\n" in (tmp_path / "README.md").read_text()
    if label == "tab:calibration_main":
        assert "| gp-exact |" in (tmp_path / "table.md").read_text()
    if label == "calibration_variants":
        table = (tmp_path / "table.md").read_text()
        assert re.search(r"\| readout \| as paper \| as paper \| \d", table)
        printed = "| printed in the paper | 0.931 / 0.410 | 0.995 / 0.393 | 0.997 / 0.596 |"
        assert printed in table
        std = np.load(study_at("smoke", runs).out / "gp/boot-ens.npz")["std"]
        shares = np.median(std[:, :150], axis=1) / np.median(std[:, 150:400], axis=1)
        block = table.partition("median sigma inside")[2]
        assert f"| paper | {shares.mean():.3f} ±" in block
    if label == "calibration_report":
        assert "draw 0 of the GP task" in json.loads((tmp_path / "report.json").read_text())["note"]
    if label == "calibration_ablations":
        assert "rfn-auto,gp,regret_auroc_y" in (tmp_path / "table.csv").read_text()
        check_automatic_length(study_at("smoke", runs))


def check_automatic_length(study: CalibrationStudy) -> None:
    """Every split is that of the fixed cell of the length chosen."""
    auto = CalibrationCell(study, "gp", AUTO).result()
    for split, length in enumerate(auto["lengths"]):
        model = parse_model(f"rfn-{length:g}")
        assert model in LENGTHS
        fixed = CalibrationCell(study, "gp", model).result()
        assert auto["splits"][split] == fixed["splits"][split]
    (study.out / "gp/rfn-4.json").unlink()
    with pytest.raises(ValueError, match=r"no gp rfn-4"):
        CalibrationCell(study, "gp", AUTO).make()


def test_every_calibration_label_is_tested() -> None:
    named = {label for label in FIGURES if "calibration" in label or "prior" in label}
    ours = named - {"fig:app-cheetah-calibration"}  # of a policy's critics, not of regression
    marks = test_every_label_from_command_to_files.pytestmark  # type: ignore[attr-defined]
    assert ours == {label for label, _ in marks[0].args[1]}


def test_automatic_length_needs_the_fixed_cells(study: CalibrationStudy) -> None:
    auto = CalibrationCell(study, "gp", AUTO)
    assert [need.model for need in auto.needs] == [MEAN, *LENGTHS]
    assert [cell.model for cell in with_needs([auto], unfinished=True)] == [MEAN, *LENGTHS, AUTO]
    assert auto.size == 0


def test_cells_of_other_settings_are_listed_left_out_and_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], study: CalibrationStudy
) -> None:
    other = replace(study, training=FitSettings(epochs=1))
    for model in (MEAN, ENSEMBLE):
        assert CalibrationCell(other, "gp", model).make()
    assert cli.dispatch(["figures", "--scale", "smoke", "--runs", str(tmp_path)]) == 0
    listed = capsys.readouterr().out
    assert "Calibration; 1 of other settings" in listed
    figure = calibration.calibration_table("smoke", tmp_path)
    assert figure.draw(tmp_path / "out", "x") == []
    with pytest.raises(ValueError, match="another `out`"):
        CalibrationCell(study, "gp", ENSEMBLE).make()


def test_wall_time_counts_what_overlaps_once() -> None:
    assert wall_time([]) == (0.0, 0)
    assert wall_time([(0, 10), (5, 12), (12, 13), (20, 21)]) == (14, 2)
