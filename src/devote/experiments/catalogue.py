"""Every figure and table of the paper, and our own studies, by label."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from devote.experiments import calibration, coverage
from devote.experiments.calibration_report import report_figure
from devote.experiments.calibration_variants import calibration_variants
from devote.experiments.figure import Figure
from devote.experiments.tuning import tuning

Build = Callable[[str, Path], Figure]
"""(scale, directory of runs) -> figure."""

FIGURES: dict[str, Build] = {
    "fig:main_coverage": coverage.main_coverage,
    "fig:ablation_components_coverage": coverage.ablation_coverage,
    "fig:length_scales_devote": coverage.length_scales,
    "fig:gp-calibration": calibration.gp_calibration,
    "fig:prior-comparison": calibration.prior_comparison,
    "tab:calibration_main": calibration.calibration_table,
    "calibration_ablations": calibration.calibration_ablations,
    "calibration_authors": calibration.calibration_authors,
    "calibration_variants": calibration_variants,
    "calibration_report": report_figure,
    "exploration": coverage.exploration,
    "tuning": tuning,
}
"""What `devote figure` can make. Labels without a colon are ours."""


@dataclass(frozen=True)
class Absent:
    """A figure or table of the paper that `devote figure` does not make."""

    label: str
    shows: str
    where: str = ""
    """Where else its content is, for what is no result."""


ABSENT = (
    Absent("fig:", "summary: coverage and return averaged over environments (its label is empty)"),
    Absent("fig:value_est_cartpole", "epistemic value estimation on Cartpole by length scale"),
    Absent("fig:plasticity", "U maze: coverage and dormant neurons by reset strength"),
    Absent("fig:main_normalized_return", "return in AntMaze and PickAndPlace"),
    Absent("fig:environments", "pictures of the environments"),
    Absent("fig:app-cartpole-slices", "Cartpole: value and uncertainty along slices"),
    Absent("fig:app-cheetah-calibration", "Cheetah: calibration of TD and TUD by length scale"),
    Absent("fig:app-plasticity-snapshots", "U maze: maps with and without resets"),
    Absent("fig:app-control-coverage", "coverage in AntMaze and PickAndPlace"),
    Absent("tab:base_hyperparams", "hyperparameters", "preset `paper`, docs/settings.md"),
    Absent("tab:app-prior-lengthscales", "length scales by task", "docs/settings.md"),
    Absent("tab:app-cartpole-anchors", "states that the Cartpole slices pass through"),
    Absent("tab:app-cheetah-anchors", "states that the Cheetah slices pass through"),
)
