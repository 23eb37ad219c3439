"""Every figure and table of the paper, and our own studies, by label; and the paper's claims about
them."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import numpy as np

from devote.build import build_env
from devote.core.types import Env
from devote.envs.mujoco import MujocoEnv, ant_maze, pick_and_place
from devote.envs.mujoco.rendering import frames
from devote.experiments import calibration_figures as calibration
from devote.experiments import policy_evaluation
from devote.experiments.comparison import SCALES, Method, Study, Task, by_name
from devote.experiments.results import (
    COVERAGE,
    DORMANT,
    LAST_DORMANT,
    NORMALISED,
    RANK,
    REACHABLE,
    RETURN,
    SUCCESS,
    Results,
    collect,
    metric_in_words,
)
from devote.experiments.study_report import Figure, drawing, figure_of, panels
from devote.experiments.verdicts import Claim
from devote.figures.film import grid_frames
from devote.figures.learning_curves import Panel, save_panels
from devote.figures.maps import save_map_rows, save_pictures
from devote.loops import snapshots
from devote.loops.run_dir import MAPS
from devote.measure.coverage import planes
from devote.measure.curves import over_tasks
from devote.run import Run

RIVALS = by_name("devote", "sac", "rnd", "thompson", "sombrl")
BESIDE = by_name("rnd-classic", "devote-plus", "true-counts")
"""What the paper does not show: Burda's RND, our variant, and the ceiling of true counts."""
ABLATIONS = by_name(
    "devote", "devote-no-rfn", "devote-no-resets", "devote-no-tud", "devote-no-tud-opt"
)
BY_DEVIATION = by_name("devote-no-tud-ucb", "devote-no-tud-opt-ucb")
"""The last two as the authors read them: the bonus is the standard deviation over indices."""
FIRST_SEED = 10
"""First seed of tasks whose `desk` preset was chosen on lower seeds."""
SPIRAL = Task("spiral", "spiral", first_seed=FIRST_SEED, title="Spiral maze")
U_MAZE = Task("u_maze", "u_maze", first_seed=FIRST_SEED, title="U maze")
CHEETAH = Task("cheetah", "cheetah", title="Cheetah velocity")
CARTPOLE = Task("cartpole", "cartpole_swingup", title="Cartpole swing-up")


def deep_sea(size: int, desk_steps: int | None = None, seeds: int | None = None) -> Task:
    """DeepSea of some depth, with its steps at `desk`."""
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
DEEP_SEA_30 = deep_sea(30, 110_000)
DEEP_SEA_50 = deep_sea(50, 160_000)
DEEP_SEA_100 = deep_sea(100, 640_000)
FREE = (SPIRAL, DEEP_SEA_50, CHEETAH)
"""The paper's tasks without rewards."""
CONTROL = (
    Task("ant_maze", "ant_maze", first_seed=FIRST_SEED, title="AntMaze", bonus=ant_maze.SUCCESS),
    Task(
        name="pick_and_place",
        env="pick_and_place",
        first_seed=FIRST_SEED,
        title="PickAndPlace",
        bonus=pick_and_place.SUCCESS,
    ),
)
EXPLORATION = (SPIRAL, U_MAZE, DEEP_SEA_20, DEEP_SEA_50, CHEETAH)
"""Budgets at `desk` are to keep nine agents with five seeds within six hours of two cores."""


def long(task: Task, steps: int, seeds: int | None = None, **changes: str) -> Task:
    """A task as the paper has it: its number of steps, and a soft reset every 250,000 of them."""
    told = dict(task.changes) | changes | {"reset_interval": "250000"}
    return replace(task, changes=(*told.items(),), steps=(("long", steps),), seeds=seeds)


LONG = {
    task.name: task
    for task in (
        long(SPIRAL, 5_000_000, step_size="0.25", episode_length="1000"),
        long(DEEP_SEA_50, 500_000),
        long(CHEETAH, 5_000_000, seeds=3),
    )
}
LONG_LABELS = ("fig:main_coverage", "fig:ablation_components_coverage", "fig:length_scales_devote")
"""Figures that can be made at the scale `long`."""


def tasks_at(scale: str, *tasks: Task) -> tuple[Task, ...]:
    """The tasks of a study; at `long` those that the paper has, as it has them."""
    return tuple(LONG[t.name] for t in tasks if t.name in LONG) if scale == "long" else tasks


SPARSE = {
    "MountainCar-v0": -130.0,
    "MountainCarContinuous-v0": 90.0,
    "Acrobot-v1": -100.0,
    "CliffWalking-v1,time_limit=200": -20.0,
    "FrozenLake8x8-v1": 0.7,
    "FrozenLake8x8-v1,env_options=is_slippery=false": 0.95,
    "Taxi-v4,steps=200000": 6.0,
    "MiniGrid-DoorKey-8x8-v0,steps=200000": 0.9,
    "dmc:cartpole-swingup_sparse-repeat2,steps=200000": 750.0,
    "dmc:pendulum-swingup-repeat2,steps=200000": 700.0,
    "dmc:ball_in_cup-catch-repeat2,steps=200000": 900.0,
    "dmc:point_mass-easy-repeat2,steps=200000": 800.0,
    "dmc:finger-turn_hard-repeat2,steps=200000": 700.0,
}
SUITES = {"sparse": SPARSE}
"""Tasks as they are typed, and the return from which each counts as solved here. The thresholds are
our choice: Gymnasium's own or lower ones, and round numbers for dm_control, whose actions are
applied twice, as is usual in comparisons."""

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
LENGTHS = ("1", "2.5", "5", "7.5")  # paper
LENGTH_CLAIMS = {
    "On PointMaze a length scale of 1 is best": Claim(
        "length 1", "above", ("length 2.5", "length 5", "length 7.5"), MAZE
    ),
    "On Cheetah a length scale of 7.5 is best": Claim(
        "length 7.5", "above", ("length 1", "length 2.5", "length 5"), RUNNER
    ),
    "On DeepSea coverage hardly depends on it: none is far above 1": Claim(
        "length 1", "not below", ("length 2.5", "length 5", "length 7.5"), SEA
    ),
    "On DeepSea coverage hardly depends on it: 1 is far above none": Claim(
        "length 1", "little above", ("length 2.5", "length 5", "length 7.5"), SEA
    ),
}
"""Appendix, length scales."""
OWN_LENGTHS = (
    Method("all lengths", "devote", (("length_scales", "+".join(LENGTHS)),)),
    Method(
        "automatic", "devote", (("length_scales", "+".join(LENGTHS)), ("choose_length", "true"))
    ),
)
"""Ours: the four length scales spread over the indices; one of them by the first replayed data."""
REGRET_CLAIMS = {
    f"Ours: {words} loses little to any fixed length": Claim(
        method.name, "not below", tuple(f"length {n}" for n in LENGTHS), ALL
    )
    for method, words in zip(
        OWN_LENGTHS, ("one prior for all scales", "the automatic length"), strict=True
    )
}
"""What they lose to the best fixed length, which has to be found by training, is their regret."""
RESET, NO_RESET = ("lambda 0.5", "lambda 0.75"), "lambda 0"
PLASTICITY_CLAIMS = {
    "Stronger soft resets improve coverage": Claim(NO_RESET, "below", RESET, OUR_MAZE),
    "Soft resets suppress dormant neurons": Claim(
        NO_RESET, "above", RESET, OUR_MAZE, metric=DORMANT
    ),
}
"""Section 3.3, Optimistic Exploration Requires Plasticity."""
BOTH = ("ant_maze", "pick_and_place")
CONTROL_CLAIMS = {
    "DEVOTE achieves the highest return in AntMaze and PickAndPlace": Claim(
        "devote", "above", BASELINES, BOTH
    ),
    "DEVOTE solves them more often than the baselines": Claim(
        "devote", "above", BASELINES, BOTH, metric=SUCCESS
    ),
}
"""Section 5, Insight 3."""
CONTROL_COVERAGE_CLAIMS = {
    "DEVOTE expands coverage fastest in AntMaze and PickAndPlace": Claim(
        "devote", "above", BASELINES, BOTH
    ),
    "RND covers less of PickAndPlace than SAC": Claim("rnd", "below", ("sac",), BOTH[1:]),
}
"""Appendix, complex control."""


def main_coverage(scale: str, root: Path) -> Figure:
    """fig:main_coverage: DEVOTE and its rivals without rewards."""
    title = "Coverage without rewards: DEVOTE and its rivals"
    tasks, methods = tasks_at(scale, *EXPLORATION), RIVALS + BESIDE
    study = Study("fig:main_coverage", title, SCALES[scale], tasks, methods, root=root)
    return figure_of(study, RIVAL_CLAIMS)


def ablation_coverage(scale: str, root: Path) -> Figure:
    """fig:ablation_components_coverage: DEVOTE without each of its parts."""
    title = "Coverage without rewards: DEVOTE without each of its parts"
    label = "fig:ablation_components_coverage"
    tasks = (LONG["spiral"],) if scale == "long" else EXPLORATION
    study = Study(label, title, SCALES[scale], tasks, ABLATIONS + BY_DEVIATION, root=root)
    return figure_of(study, ABLATION_CLAIMS)


def length_scales(scale: str, root: Path) -> Figure:
    """fig:length_scales_devote: DEVOTE with priors that vary faster or slower."""
    title = "Coverage without rewards: DEVOTE by length scale of the prior"
    methods = tuple(
        Method(f"length {length}", "devote", (("length_scale", length),)) for length in LENGTHS
    )
    methods += OWN_LENGTHS
    tasks = tasks_at(scale, DEEP_SEA_50, SPIRAL, CHEETAH)
    study = Study("fig:length_scales_devote", title, SCALES[scale], tasks, methods, root=root)
    return figure_of(study, LENGTH_CLAIMS | REGRET_CLAIMS)


def deep_seas(scale: str, root: Path) -> Figure:
    """All agents and ablations in DeepSea, by depth."""
    tasks = (DEEP_SEA_20, DEEP_SEA_30, DEEP_SEA_50, DEEP_SEA_100)
    methods = RIVALS + BESIDE + ABLATIONS[1:] + BY_DEVIATION
    title = "Coverage of DeepSea by depth"
    return figure_of(Study("deep_sea", title, SCALES[scale], tasks, methods, root=root))


STRENGTHS = ("0", "0.1", "0.25", "0.5", "0.75")  # paper
U_RESETS = {
    "smoke": {"map_interval": "2000"},
    "desk": dict(step_size="0.25", episode_length="1000", reset_interval="50000"),
    "paper": {},
}
"""The paper's maze and interval, which its preset has, with networks and rates of `desk`."""
MOMENTS = {"smoke": (2_000, 4_000), "desk": (250_000, 500_000), "paper": (250_000, 500_000)}
"""Steps of the paper's snapshots; other scales but `smoke` take maps at these alone."""
SNAPSHOTS = ("visits", "novelty |c + g|", "novelty value rb")  # paper


def plasticity_study(scale: str, root: Path) -> Study:
    """The U maze by strength of the soft resets."""
    changes = {"map_interval": str(MOMENTS[scale][0]), "all_diagnostics": "true"} | U_RESETS[scale]
    maze = replace(U_MAZE, changes=(*changes.items(),), steps=(("desk", 4_000_000),))
    methods = tuple(Method(f"lambda {s}", "devote", (("reset_strength", s),)) for s in STRENGTHS)
    title = "U maze: coverage and plasticity of the exploration actor by strength of soft resets"
    study = Study("fig:plasticity", title, SCALES[scale], (maze,), methods, root=root)
    return replace(study, beside=(DORMANT, LAST_DORMANT, RANK))


def plasticity(scale: str, root: Path) -> Figure:
    """fig:plasticity: coverage and dormant units by strength of the soft resets."""
    return figure_of(plasticity_study(scale, root), PLASTICITY_CLAIMS)


def plasticity_snapshots(scale: str, root: Path) -> Figure:
    """fig:app-plasticity-snapshots: visits, |c + g| and rb without and with resets, of one seed."""
    study = plasticity_study(scale, root)
    seed = study.seeds(study.tasks[0])[0]
    cells = {s: study.runs()[U_MAZE.name, f"lambda {s}", seed] for s in ("0", "0.5")}

    def draw(out: Path, caption: str) -> list[Path]:
        rows = {}
        for moment in MOMENTS[scale]:
            for strength, cell in cells.items():
                steps = snapshots.listed(cell.folder / MAPS)
                if not cell.finished() or max(steps, default=0) < moment:
                    return []
                taken = snapshots.read(steps[min(step for step in steps if step >= moment)])
                plane = planes(taken.grid)[0]
                shown = taken.shown(0, plane)
                maps = {name: shown[name] for name in SNAPSHOTS}
                rows[f"lambda {strength}, step {taken.step:,}"] = plane.grid, maps
        note = f"{caption}, preset {study.scale.preset}, seed {seed}; one colour scale for visits"
        return [save_map_rows(out / "app-plasticity-snapshots.png", note, rows)]

    title, label = "U maze: maps without and with soft resets", "fig:app-plasticity-snapshots"
    return drawing(label, title, scale, draw, {U_MAZE.name: [*cells.values()]})


def control_study(scale: str, root: Path, label: str, metric: str, *beside: str) -> Study:
    """DEVOTE and its rivals on the control tasks, with rewards."""
    title = "Control: DEVOTE and its rivals"
    if metric == NORMALISED:
        title += " (bonus for success: 2,500 and 1,250)"
    study = Study(label, title, SCALES[scale], CONTROL, RIVALS, metric, root=root)
    return replace(study, beside=beside)


def normalised_return(scale: str, root: Path) -> Figure:
    """fig:main_normalized_return: return and success in complete episodes of evaluations."""
    label = "fig:main_normalized_return"
    study = control_study(scale, root, label, NORMALISED, SUCCESS, RETURN)
    return figure_of(study, CONTROL_CLAIMS)


def control_coverage(scale: str, root: Path) -> Figure:
    """fig:app-control-coverage: places of the ant, and of the cube while it is held."""
    study = control_study(scale, root, "fig:app-control-coverage", COVERAGE)
    return figure_of(study, CONTROL_COVERAGE_CLAIMS)


def summary(scale: str, root: Path) -> Figure:
    """The paper's first figure: coverage and normalised return, all tasks with equal weights."""
    free = Study("fig:main_coverage", "", SCALES[scale], FREE, RIVALS, root=root)
    control = control_study(scale, root, "fig:main_normalized_return", NORMALISED)
    studies = {"Coverage without rewards": free, "Normalised return": control}

    def known(study: Study) -> Results:
        return collect(study, Path("results") / study.label.split(":")[-1] / scale)

    def draw(out: Path, caption: str) -> list[Path]:
        drawn = []
        for title, study in studies.items():
            tasks = [panel.curves for panel in panels(study, known(study))]
            if len(tasks) == len(study.tasks) and (curves := over_tasks(tasks)):
                words = metric_in_words(study.metric or COVERAGE)
                names = ", ".join(task.title for task in study.tasks)
                panel = Panel(f"{title}: {names}", words, curves, xlabel="share of the budget")
                drawn.append(panel)
        if not drawn:
            return []
        note = f"{caption}; means over tasks of the paper's aggregation, equal weights"
        return [save_panels(out / "summary.png", "Summary over tasks", note, drawn)]

    title = "Summary: coverage and normalised return over tasks"
    parts = {name: cells for study in studies.values() for name, cells in study.parts().items()}
    recorded = lambda out: known(free).elsewhere | known(control).elsewhere  # noqa: E731
    return drawing("fig:summary", title, scale, draw, parts, recorded)


def environments(scale: str, root: Path) -> Figure:
    """fig:environments: every task at the start of an episode."""
    tasks = (DEEP_SEA_50, SPIRAL, U_MAZE, CHEETAH, CARTPOLE, *CONTROL)

    def draw(out: Path, caption: str) -> list[Path]:
        pictures = {task.title: picture(SCALES[scale].run(task.env, "sac")) for task in tasks}
        return [save_pictures(out / "environments.png", caption, pictures)]

    return drawing("fig:environments", "Environments", scale, draw)


def picture(run: Run) -> np.ndarray:
    """The start of an episode: rendered by MuJoCo, or its bin in the coverage grid."""
    env = build_env(run, 1)
    if isinstance(env, MujocoEnv):
        env.reset(jax.random.key(0))
        return frames(env.task.model, env.physics.qpos[:1])[0]
    assert isinstance(env, Env)
    assert env.spec.grid is not None
    start = env.bin_of(env.reset(jax.random.key(0)))
    return grid_frames(env.spec.grid, np.asarray(start)[None])[0]


def exploration(scale: str, root: Path) -> Figure:
    """DEVOTE and SAC on mazes with shorter and shorter steps and deeper and deeper seas."""
    tasks = (
        spiral_at("spiral_step_2", 2.0, 250),
        DEEP_SEA_20,
        DEEP_SEA_30,
        U_MAZE,
        spiral_at("spiral_step_1", 1.0, 500, seeds=3),
        deep_sea(50),
        spiral_at("spiral_step_025", 0.25, 1000, seeds=3),
    )
    title, methods = "Coverage without rewards: DEVOTE and SAC", by_name("devote", "sac")
    study = Study("exploration", title, SCALES[scale], tasks, methods, REACHABLE, root=root)
    return figure_of(study, out=Path("results/exploration") if scale == "desk" else None)


TUNING_SEED, TUNING_SEEDS = 101, 2


def trials(base: dict[str, str], *changes: dict[str, str]) -> tuple[dict[str, str], ...]:
    """A base and single changes of it. Every trial sets all their settings, so that it stays the
    same run when a winner becomes the preset."""
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
        {"corrector_sees_action": "true", "optimism": "0.1"},
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
"""The trials of each agent; DEVOTE's other settings had earlier trials. RND's seventh has a bonus
factor below 1, which the others have among their six."""


def tuning_methods() -> tuple[Method, ...]:
    """Every trial, named by its difference from the first one of its agent."""
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
    return figure_of(
        Study("tuning", title, SCALES[scale], (maze, sea), tuning_methods(), root=root)
    )


Build = Callable[[str, Path], Figure]
"""(scale, directory of runs) -> figure."""

FIGURES: dict[str, Build] = {
    "fig:main_coverage": main_coverage,
    "fig:ablation_components_coverage": ablation_coverage,
    "fig:length_scales_devote": length_scales,
    "fig:summary": summary,
    "fig:plasticity": plasticity,
    "fig:app-plasticity-snapshots": plasticity_snapshots,
    "fig:main_normalized_return": normalised_return,
    "fig:app-control-coverage": control_coverage,
    "fig:environments": environments,
    "fig:value_est_cartpole": partial(
        policy_evaluation.value_estimation, "fig:value_est_cartpole", "cartpole_swingup"
    ),
    "fig:app-cartpole-slices": policy_evaluation.cartpole_slices,
    "fig:app-cheetah-calibration": partial(
        policy_evaluation.value_estimation, "fig:app-cheetah-calibration", "cheetah"
    ),
    "tab:app-cartpole-anchors": partial(
        policy_evaluation.anchor_table, "tab:app-cartpole-anchors", "cartpole_swingup"
    ),
    "tab:app-cheetah-anchors": partial(
        policy_evaluation.anchor_table, "tab:app-cheetah-anchors", "cheetah"
    ),
    "fig:gp-calibration": calibration.gp_calibration,
    "fig:prior-comparison": calibration.prior_comparison,
    "tab:calibration_main": calibration.calibration_table,
    "calibration_ablations": calibration.calibration_ablations,
    "calibration_authors": calibration.calibration_authors,
    "calibration_variants": calibration.calibration_variants,
    "calibration_report": calibration.report_figure,
    "deep_sea": deep_seas,
    "exploration": exploration,
    "tuning": tuning,
}
"""What `devote figure` can make. Labels without a colon are ours."""
ALIASES = {"fig:": "fig:summary"}
"""The paper's label of its first figure is empty."""


ABSENT = {
    "tab:base_hyperparams": "hyperparameters (see preset `paper`, docs/settings.md)",
    "tab:app-prior-lengthscales": "length scales by task (see docs/settings.md)",
}
"""Tables of the paper that `devote figure` does not make, and where their content is."""
