"""The paper's reward-free coverage figures, and our own longer list of tasks."""

from pathlib import Path

from devote.experiments.claims import Claim
from devote.experiments.figure import Figure
from devote.experiments.paper_claims import ABLATION_CLAIMS, RIVAL_CLAIMS
from devote.experiments.report import write_report
from devote.experiments.results import REACHABLE, collect
from devote.experiments.study import SCALES, Method, Study, Task, by_name

RIVALS = by_name("devote", "sac", "rnd", "thompson", "sombrl")
ABLATIONS = by_name(
    "devote", "devote-no-rfn", "devote-no-resets", "devote-no-tud", "devote-no-tud-opt"
)
FIRST_SEED = 10
"""Of tasks whose `desk` preset was chosen after runs of lower seeds had been seen."""
SPIRAL = Task("spiral", "spiral", first_seed=FIRST_SEED, title="Spiral maze")
U_MAZE = Task("u_maze", "u_maze", first_seed=FIRST_SEED, title="U maze")
CHEETAH = Task("cheetah", "cheetah", title="Cheetah velocity")


def deep_sea(size: int, desk_steps: int | None = None, seeds: int | None = None) -> Task:
    """DeepSea of some depth; small ones need fewer steps than the preset gives."""
    return Task(
        name=f"deep_sea_{size}",
        env="deep_sea",
        changes=(("size", str(size)),),
        steps=() if desk_steps is None else (("desk", desk_steps),),
        seeds=seeds,
        first_seed=FIRST_SEED,
        title=f"DeepSea {size}",
    )


def spiral_at(name: str, step: float, episode: int, seeds: int | None = None) -> Task:
    """The spiral with longer or shorter steps."""
    changes = (("step_size", str(step)), ("episode_length", str(episode)))
    title = f"Spiral maze, steps of {step:g}"
    return Task(name, "spiral", changes, seeds=seeds, first_seed=FIRST_SEED, title=title)


DEEP_SEA_20 = deep_sea(20, 60_000)
DEEP_SEA_50 = deep_sea(50, 160_000)
EXPLORATION = (SPIRAL, U_MAZE, DEEP_SEA_20, DEEP_SEA_50, CHEETAH)
"""Budgets at `desk` are to keep nine agents with five seeds within six hours of two cores."""


def figure_of(study: Study, out: Path, claims: tuple[Claim, ...] = ()) -> Figure:
    """A study as a figure."""
    return Figure(
        label=study.label,
        title=study.title,
        scale=study.scale.name,
        out=out,
        parts=study.parts(),
        draw=lambda folder, command: write_report(study, folder, command, claims),
        missing=study.missing(),
        outdated=lambda: [cell.name for cell in study.runs().values() if cell.outdated()],
        recorded=lambda folder: collect(study, folder).elsewhere,
    )


def main_coverage(scale: str, root: Path) -> Figure:
    """fig:main_coverage: DEVOTE and its rivals without rewards."""
    title = "Coverage without rewards: DEVOTE and its rivals"
    study = Study("fig:main_coverage", title, SCALES[scale], EXPLORATION, RIVALS, root=root)
    return figure_of(study, Path("results/main_coverage") / scale, RIVAL_CLAIMS)


def ablation_coverage(scale: str, root: Path) -> Figure:
    """fig:ablation_components_coverage: DEVOTE without each of its parts."""
    title = "Coverage without rewards: DEVOTE without each of its parts"
    label = "fig:ablation_components_coverage"
    study = Study(label, title, SCALES[scale], EXPLORATION, ABLATIONS, root=root)
    out = Path("results/ablation_components_coverage") / scale
    return figure_of(study, out, ABLATION_CLAIMS)


def length_scales(scale: str, root: Path) -> Figure:
    """fig:length_scales_devote: DEVOTE with priors that vary faster or slower."""
    title = "Coverage without rewards: DEVOTE by length scale of the prior"
    methods = tuple(
        Method(f"length {length}", "devote", (("length_scale", length),))
        for length in ("1", "2.5", "5", "7.5")  # paper
    )
    tasks = (DEEP_SEA_50, SPIRAL, CHEETAH)
    study = Study("fig:length_scales_devote", title, SCALES[scale], tasks, methods, root=root)
    return figure_of(study, Path("results/length_scales_devote") / scale)


def exploration(scale: str, root: Path) -> Figure:
    """DEVOTE and SAC on mazes with shorter and shorter steps and deeper and deeper seas."""
    tasks = (
        spiral_at("spiral_step_2", 2.0, 250),
        DEEP_SEA_20,
        deep_sea(30, 110_000),
        U_MAZE,
        spiral_at("spiral_step_1", 1.0, 500, seeds=3),
        deep_sea(50),
        spiral_at("spiral_step_025", 0.25, 1000, seeds=3),
    )
    title = "Coverage without rewards: DEVOTE and SAC"
    study = Study(
        label="exploration",
        title=title,
        scale=SCALES[scale],
        tasks=tasks,
        methods=by_name("devote", "sac"),
        metric=REACHABLE,
        root=root,
    )
    name = "exploration" if scale == "desk" else f"exploration/{scale}"
    return figure_of(study, Path("results") / name)
