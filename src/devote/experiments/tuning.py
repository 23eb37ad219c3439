"""Equal trials for DEVOTE and every rival, on seeds that no reported run uses."""

from dataclasses import replace
from pathlib import Path

from devote.experiments.coverage import SPIRAL, deep_sea, figure_of
from devote.experiments.figure import Figure
from devote.experiments.study import SCALES, Method, Study

TUNING_SEED, TUNING_SEEDS = 101, 2


def trials(base: dict[str, str], *changes: dict[str, str]) -> tuple[dict[str, str], ...]:
    """A base and single changes of it. A trial sets all that any of them sets, so that it stays the
    same run when a winner has gone into the preset."""
    return base, *(base | change for change in changes)


TRIALS: dict[str, tuple[dict[str, str], ...]] = {
    "devote": trials(
        {"optimism": "1"},
        {"optimism": "3"},
        {"optimism": "0.3"},
        {"optimism": "0.1"},
        {"optimism": "0.03"},
        {"optimism": "0.01"},
    ),
    "rnd": trials(
        {
            "corrector_rate": "1e-3",
            "num_features": "64",
            "optimism": "1",
            "corrector_sees_action": "false",
        },
        {"corrector_rate": "3e-4"},
        {"num_features": "256"},
        {"optimism": "10"},
        {"corrector_sees_action": "true"},
        {"corrector_sees_action": "true", "optimism": "10"},
    ),
    "thompson": trials(
        {"prior_scale": "1", "num_members": "4", "prior_width": "64"},
        {"prior_scale": "10"},
        {"num_members": "8"},
        {"prior_width": "256"},
        {"num_members": "8", "prior_width": "256"},
        {"num_members": "8", "prior_scale": "0.3"},
    ),
    "sombrl": trials(
        {"intrinsic_weight": "1", "model_rate": "1e-3", "value_head": "scalar"},
        {"intrinsic_weight": "0.05"},
        {"model_rate": "3e-4"},
        {"value_head": "two_hot"},
        {"intrinsic_weight": "0.05", "model_rate": "3e-4"},
        {"intrinsic_weight": "0.01"},
    ),
}
"""What was tried with each agent; DEVOTE's other settings had trials of their own before."""


def methods() -> tuple[Method, ...]:
    """Every trial, named by how it differs from the first one of its agent."""
    found = []
    for agent, (base, *others) in TRIALS.items():
        for trial in (base, *others):
            told = [f"{n}={v}" for n, v in trial.items() if v != base[n]]
            found.append(Method(" ".join([agent, *told]), agent, (*trial.items(),)))
    return tuple(found)


def tuning(scale: str, root: Path) -> Figure:
    """All trials in a maze and in a sea, at half the reported budgets."""
    half = (("desk", 480_000),)
    maze = replace(SPIRAL, first_seed=TUNING_SEED, seeds=TUNING_SEEDS, steps=half)
    sea = replace(deep_sea(30, 55_000, TUNING_SEEDS), first_seed=TUNING_SEED)
    title = "Coverage without rewards: trials, on tuning seeds"
    study = Study("tuning", title, SCALES[scale], (maze, sea), methods(), root=root)
    return figure_of(study, Path("results/tuning") / scale)
