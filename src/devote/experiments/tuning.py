"""Equal trials for every rival, on seeds that no reported run uses."""

from dataclasses import replace
from pathlib import Path

from devote.experiments.coverage import SPIRAL, deep_sea, figure_of
from devote.experiments.figure import Figure
from devote.experiments.study import SCALES, Method, Study
from devote.run import Run

TUNING_SEED, TUNING_SEEDS = 101, 2
TRIALS: dict[str, tuple[dict[str, str], ...]] = {
    "rnd": (
        {"optimism": "1"},
        {"optimism": "10"},
        {"optimism": "10", "corrector_rate": "3e-4"},
        {"optimism": "10", "corrector_sees_action": "true"},
    ),
    "thompson": (
        {"prior_scale": "1"},
        {"prior_scale": "3"},
        {"prior_scale": "10"},
        {"prior_scale": "10", "num_members": "8"},
    ),
    "sombrl": (
        {"intrinsic_weight": "1"},
        {"intrinsic_weight": "0.05"},
        {"intrinsic_weight": "0.05", "model_rate": "3e-4"},
        {"intrinsic_weight": "0.05", "value_head": "two_hot"},
    ),
}
"""What was tried with each rival; all else is the preset's."""


def methods() -> tuple[Method, ...]:
    """Every trial, named by what it sets."""
    return tuple(
        Method(" ".join([agent, *(f"{n}={v}" for n, v in trial.items())]), agent, (*trial.items(),))
        for agent, trials in TRIALS.items()
        for trial in trials
    )


def tuning(scale: str, root: Path) -> Figure:
    """The trials of all rivals in a maze and in a sea, at half the reported budgets."""
    half = (("desk", 480_000),)
    maze = replace(SPIRAL, first_seed=TUNING_SEED, seeds=TUNING_SEEDS, steps=half)
    sea = replace(deep_sea(30, 55_000, TUNING_SEEDS), first_seed=TUNING_SEED)
    title = "Coverage without rewards: trials of the rivals, on tuning seeds"
    study = Study("tuning", title, SCALES[scale], (maze, sea), methods(), root=root)
    # what a trial sets may be a preset's own value: of equal runs only the first is a trial
    trials: dict[Run, Method] = {}
    for way in study.methods:
        trials.setdefault(study.run(maze, way, TUNING_SEED), way)
    study = replace(study, methods=tuple(trials.values()))
    return figure_of(study, Path("results/tuning") / scale)
