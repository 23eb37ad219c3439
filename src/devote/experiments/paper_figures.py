"""Every figure and table of the paper, and our own studies, by label; and what the paper says about
coverage, sentence by sentence."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from devote.experiments import calibration_figures as calibration
from devote.experiments.comparison import SCALES, Method, Study, Task, by_name
from devote.experiments.results import REACHABLE
from devote.experiments.study_report import Figure, figure_of
from devote.experiments.verdicts import Claim

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

MAZE, SEA, RUNNER = ("spiral",), ("deep_sea_50",), ("cheetah",)
OUR_MAZE, SMALL_SEA = ("u_maze",), ("deep_sea_20",)
ALL, OURS = MAZE + SEA + RUNNER, OUR_MAZE + SMALL_SEA
BASELINES, PARTS = (tuple(method.name for method in way[1:]) for way in (RIVALS, ABLATIONS))
OTHER_PARTS = tuple(name for name in PARTS if name != "devote-no-resets")
RIVAL_CLAIMS = {
    "DEVOTE outperforms all baselines on PointMaze and Cheetah": Claim(
        "devote", "above", BASELINES, MAZE + RUNNER, OUR_MAZE
    ),
    "DEVOTE matches the strongest baseline on DeepSea": Claim(
        "devote", "not below", BASELINES, SEA, SMALL_SEA
    ),
    "SAC achieves poor coverage throughout (our reading: below DEVOTE)": Claim(
        "sac", "below", ("devote",), ALL, OURS
    ),
    "RND improves over SAC on DeepSea and Cheetah": Claim(
        "rnd", "above", ("sac",), SEA + RUNNER, SMALL_SEA
    ),
    "RND fails on PointMaze": Claim("rnd", "little above", ("sac",), MAZE, OUR_MAZE),
    "TS performs well on PointMaze (our reading: above SAC)": Claim(
        "thompson", "above", ("sac",), MAZE, OUR_MAZE
    ),
    "TS provides little benefit elsewhere": Claim(
        "thompson", "little above", ("sac",), SEA + RUNNER, SMALL_SEA
    ),
    "SOMBRL improves over SAC everywhere": Claim("sombrl", "above", ("sac",), ALL, OURS),
}
"""Section 5, Insight 1, sentence by sentence."""
ABLATION_CLAIMS = {
    "TUD improves coverage in all environments": Claim(
        "devote", "above", ("devote-no-tud",), ALL, OURS
    ),
    "On PointMaze and Cheetah, all components contribute": Claim(
        "devote", "above", PARTS, MAZE + RUNNER, OUR_MAZE
    ),
    "On DeepSea almost any random prior is useful": Claim(
        "devote", "little above", ("devote-no-rfn",), SEA, SMALL_SEA
    ),
    "On PointMaze, soft resets matter most": Claim(
        "devote-no-resets", "below", OTHER_PARTS, MAZE, OUR_MAZE
    ),
    "On Cheetah resets contribute less": Claim("devote-no-resets", "above", OTHER_PARTS, RUNNER),
    "TUD-OPT improves performance on both PointMaze and Cheetah": Claim(
        "devote", "above", ("devote-no-tud-opt",), MAZE + RUNNER, OUR_MAZE
    ),
}
"""Section 5, Insight 2."""


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


TUNING_SEED, TUNING_SEEDS = 101, 2


def trials(base: dict[str, str], *changes: dict[str, str]) -> tuple[dict[str, str], ...]:
    """A base and single changes of it. A trial sets all that any of them sets, so that it stays the
    same run when a winner has gone into the preset."""
    return base, *(base | change for change in changes)


TRIALS: dict[str, tuple[dict[str, str], ...]] = {
    "devote": tuple({"optimism": value} for value in ("1", "3", "0.3", "0.1", "0.03", "0.01")),
    "rnd": trials(
        dict(corrector_rate="1e-3", num_features="64", optimism="1", corrector_sees_action="false"),
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


def tuning_methods() -> tuple[Method, ...]:
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
    study = Study("tuning", title, SCALES[scale], (maze, sea), tuning_methods(), root=root)
    return figure_of(study, Path("results/tuning") / scale)


Build = Callable[[str, Path], Figure]
"""(scale, directory of runs) -> figure."""

FIGURES: dict[str, Build] = {
    "fig:main_coverage": main_coverage,
    "fig:ablation_components_coverage": ablation_coverage,
    "fig:length_scales_devote": length_scales,
    "fig:gp-calibration": calibration.gp_calibration,
    "fig:prior-comparison": calibration.prior_comparison,
    "tab:calibration_main": calibration.calibration_table,
    "calibration_ablations": calibration.calibration_ablations,
    "calibration_authors": calibration.calibration_authors,
    "calibration_variants": calibration.calibration_variants,
    "calibration_report": calibration.report_figure,
    "exploration": exploration,
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
