"""The calibration study in the same frame: fits as cells, the table with its scale."""

from dataclasses import replace
from pathlib import Path

import pytest

from devote.experiments import calibration
from devote.experiments.calibration import CalibrationCell, study_at
from devote.experiments.record import write_record
from devote.regression.study import MEAN, Study
from devote.regression.training import Training


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """The smoke study, smaller still."""
    return replace(study_at("smoke", tmp_path), members=2, training=Training(epochs=2))


def test_a_fit_needs_its_mean_and_is_made_once(study: Study, tmp_path: Path) -> None:
    cell = CalibrationCell(study, "gp", "boot-ens")
    (mean,) = cell.needs
    assert (mean.model, mean.needs) == (MEAN, ())
    for one in (mean, cell):
        assert not one.finished()
        assert one.make()
        assert one.finished()
        write_record(one, 3.0)
    out = tmp_path / "out"
    figure = calibration._figure(
        "tab:calibration_main", "Calibration", "smoke", study, calibration._table
    )
    written = figure.draw(out, "devote figure tab:calibration_main")
    assert [path.name for path in written] == ["table.md", "table.csv", "README.md"]
    assert "scale smoke, preset smoke" in (out / "table.md").read_text()
    assert "1 of 4 cells" in (out / "README.md").read_text()


def test_scales_share_the_cells_of_the_paper_s_settings(tmp_path: Path) -> None:
    desk, paper = (calibration.calibration_table(s, tmp_path).cells() for s in ("desk", "paper"))
    assert {cell.identity for cell in desk} < {cell.identity for cell in paper}
    assert len(paper) == 9 * 4


def test_identity_knows_settings_dataset_and_model(study: Study) -> None:
    cell = CalibrationCell(study, "gp", "boot-ens")
    others = [
        replace(cell, model="rfn-0.5"),
        replace(cell, dataset="yacht"),
        replace(cell, study=replace(study, splits=3)),
    ]
    assert len({one.identity for one in [cell, *others]}) == 4
    assert replace(cell, study=replace(study, out=Path("x"))).identity == cell.identity
