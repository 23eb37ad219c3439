"""The study: every cell once, resumed, refused where settings differ; its table and figures."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")

from devote.figures import calibration as figures
from devote.measure.calibration import Estimate
from devote.regression import study as studies
from devote.regression.study import PRESETS, Study, run
from devote.regression.table import COLUMNS, PAPER, Cell, as_csv, as_markdown
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
    original = studies.compute

    def spy(study: Study, dataset: str, model: str, *rest: object) -> None:
        computed.append(model)
        original(study, dataset, model, *rest)

    monkeypatch.setattr(studies, "compute", spy)
    (finished.out / "gp/gp-exact.json").unlink()
    run(finished)
    assert computed == ["gp-exact"]


def test_other_settings_are_not_mixed_in(finished: Study) -> None:
    with pytest.raises(ValueError, match="another `out`"):
        run(replace(finished, training=Training(epochs=5)))


def test_unknown_names_are_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="boston"):
        run(Study(out=tmp_path / "x", datasets=("boston",)))
    for model in ("forest", "rfn-", "rfn-0", "mlp-100"):
        with pytest.raises(ValueError):
            run(Study(out=tmp_path / "x", models=(model,)))
    assert not (tmp_path / "x").exists()


def test_figures_are_drawn_from_the_files(finished: Study, tmp_path: Path) -> None:
    drawn = figures.gp_calibration(finished.out, ("boot-ens", "rfn-0.5"), 1)
    assert len(drawn.axes) == 2
    drawn.savefig(tmp_path / "a.png")
    assert len(figures.prior_comparison(finished.out).axes) == 3
    labels = figures.ablation(finished.out, "mlp").axes[0].get_legend_handles_labels()[1]
    assert labels == ["depth 2, GP task"]
    with pytest.raises(ValueError, match="run devote"):
        figures.prior_comparison(tmp_path)


def test_presets_name_the_variant() -> None:
    assert PRESETS["paper"][1].variant == Variant("ones", "all", "fan_in")
    assert (
        PRESETS["authors"][1].variant
        == AUTHORS
        == Variant("uniform", "readout", "fan_out", "quicksort")
    )
    assert parse_prior("rfn-0.25", AUTHORS).readout == "uniform"


def test_table_marks_best_and_second_beside_the_paper() -> None:
    values = {"boot-ens": 0.7, "mlp-100x2": 0.8, "rfn-0.25": 0.9}
    cells = [
        Cell(model, name, {score: Estimate(v, 0.01, 10) for score in SCORES}, 1.0)
        for model, v in values.items()
        for name in COLUMNS
    ]
    text = as_markdown(cells, "paper")
    row = next(line for line in text.splitlines() if line.startswith("| rfn-0.25"))
    assert row.split(" | ")[1] == "**0.900** ± 0.010 (0.924)"
    assert row.rstrip(" |").endswith("**0.900** (0.844)")
    assert "<u>0.800</u> ± 0.010 (0.869)" in text
    assert "rfn-0.25,concrete,auroc_y,0.9000,0.0100,10,0.924" in as_csv(cells)


def test_paper_means_are_the_means_of_the_paper_s_columns() -> None:
    for values in PAPER.values():
        assert np.mean(values[:8]) == pytest.approx(values[9], abs=0.0016)
