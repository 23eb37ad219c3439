"""Is a critic's uncertainty calibrated? Q at anchor states against Monte Carlo returns and against
the density of the policy's visits: the paper's study of joint TD and TUD on frozen policies
(appendix "TD-Learning with ENNs"), and `devote evaluate-critic` for anybody's run.

The paper does not say when a policy is intermediate: here at the first evaluation from a return on
that is about half of what SAC reaches at `desk`. Its tables name no actions, so held actions are 0.
The value of starts is that of the policy's own first action, on both sides.
"""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jax
import numpy as np
import tyro

from devote.build import build_agent, build_env, plan
from devote.core.arrays import read_npz, write_npz
from devote.core.durable import atomic_write_text, replacing, use_compilation_cache
from devote.core.errors import UserError
from devote.core.settings import flat
from devote.core.types import HostEnv
from devote.envs.mujoco import MujocoEnv
from devote.experiments.comparison import SCALES, Method, Study, Task, TrainingCell
from devote.experiments.results import RETURN, Results, csv_text
from devote.experiments.study_report import Figure, drawing, figure_of, write_report
from devote.figures import calibration_plots as plots
from devote.figures.style import BLUE, ORANGE, Look
from devote.loops.train import train
from devote.measure.calibration import (
    Estimate,
    auroc,
    calibration_report,
    correlation,
    over_splits,
)
from devote.measure.curves import aggregate
from devote.presets import PRESETS
from devote.regression.table import markdown_table
from devote.run import Run
from devote.saved import saved_agent, saved_run

LENGTHS = ("0.5", "1", "2.5", "5", "10")  # paper
LOSSES = {"TD": "true", "TUD": "false"}
KNOWN = ("policy_steps", "policy_return", "monte_carlo")
"""Of the policy, the same for all critics."""
LOOKS = (("TD", Look(ORANGE)), ("TUD", Look(BLUE)))
SCORES = {"auroc": "AUROC out of distribution", "correlation": "correlation with |error|"}
SEEDS = 3  # paper
START = "epistemic/start_value"
REFERENCE, CRITIC = "reference.npz", "critic.npz"
EVALUATIONS = 10_000  # steps at least between evaluations of a policy that is to be intermediate
DISCOUNT = 0.99  # of critics and references (paper)
LIMIT = 10_000  # frames of an episode of a Monte Carlo return (paper)
STARTS = 16  # natural starts for each rollout of an anchor
POINTS = 20  # along a sweep (paper)
Policy = Any
"""(observations, key) -> actions."""


class Anchors(NamedTuple):
    """The paper's anchor states, and the velocity that is swept from each."""

    columns: tuple[str, ...]
    rows: Mapping[str, tuple[float, ...]]
    places: tuple[int, ...]
    """Index of each column in positions followed by velocities."""
    swept: int
    """Index of the swept velocity."""
    sweep: tuple[float, float]
    label: str
    until: float
    """The return from which a policy is intermediate."""

    def states(self, positions: int) -> np.ndarray:
        """Positions and velocities of all points, `(anchors * points, ...)`."""
        states = np.zeros((len(self.rows), POINTS, 2 * positions))
        states[..., self.places] = np.array([*self.rows.values()])[:, None]
        states[..., positions + self.swept] = np.linspace(*self.sweep, POINTS)
        return states.reshape(-1, 2 * positions)


ANCHORS = {
    "cartpole_swingup": Anchors(
        columns=("cart position", "pole angle", "cart velocity"),
        rows={
            "Upright, balanced": (0, 0, 0),
            "Near top, offset": (0, 0.6, 0),
            "Mid-swing, climbing": (0.4, 1.5, 0.5),
            "Rail-pinned, hanging": (-1.85, np.pi, -0.5),
            "Racing upright": (0, 0, 6),
            "Rail-charging, hanging": (1.5, np.pi, 4),
        },
        places=(0, 1, 2),
        swept=1,
        sweep=(-12, 12),
        label="pole angular velocity",
        until=400,
    ),
    "cheetah": Anchors(
        columns=(
            *("height", "pitch", "vertical velocity", "pitch velocity"),
            *("back thigh", "back shin", "front thigh", "front shin"),
        ),
        rows={
            "Crouched, low": (-0.25, 0, 0, 0, 0, 0, 0, 0),
            "Stride phase": (0, 0, 0, 0, 0.5, -0.3, -0.4, 0.2),
            "Tilted run": (0, 0.3, 0, 2, 0, 0, 0, 0),
            "Hard landing": (0.35, 0, -3.5, 0, 0.5, -0.6, 0.5, -0.6),
            "Push-off, airborne": (0.2, -0.1, 2, 0, 0.6, -0.5, 0.6, -0.5),
            "Flipped": (-0.1, np.pi, 0, 0, 0, 0, 0, 0),
        },
        places=(1, 2, 10, 11, 3, 4, 6, 7),
        swept=0,
        sweep=(-5, 12),
        label="forward velocity",
        until=160,
    ),
}
"""By task. Tables `app-cartpole-anchors` and `app-cheetah-anchors` of the paper."""


@dataclass(frozen=True)
class Effort:
    """Size of the Monte Carlo reference."""

    rollouts: int = 16  # paper
    """Monte Carlo returns from every point."""
    steps: int = 2_500  # paper
    """Decisions after which a return ends."""
    states: int = 30_000  # paper
    """Visited states behind the density."""


EFFORTS = {"smoke": Effort(2, 50, 400)}
"""By preset; the paper's for all others."""


def anchors_of(run: Run) -> Anchors:
    """The anchors of a run's task."""
    if run.env_name not in ANCHORS:
        expected = f"a task with anchor states that can be set: {', '.join(ANCHORS)}"
        raise UserError(expected, run.env_name, "name a run of one of them")
    return ANCHORS[run.env_name]


def reference(run: Run, policy: Policy, discount: float, effort: Effort) -> dict[str, np.ndarray]:
    """Monte Carlo returns of a policy from every anchor point, and its density of visits there."""
    states, policy = anchors_of(run), jax.jit(policy)
    frames: Any = run.env
    longer = replace(run, env=replace(frames, episode_length=LIMIT // frames.action_repeat))
    count = len(states.rows) * POINTS
    env = build_env(longer, (count + STARTS) * effort.rollouts)
    assert isinstance(env, MujocoEnv)
    key = jax.random.key(0)
    seen = env.reset(key)  # the last rows stay as they are
    points = np.repeat(states.states(env.physics.qpos.shape[1]), effort.rollouts, axis=0)
    env.physics.qpos[: len(points)], env.physics.qvel[: len(points)] = np.split(points, 2, axis=1)
    seen = env.task.observe(env.physics).astype(np.float32)
    obs = seen[: len(points) : effort.rollouts]
    earned, going = np.zeros(len(seen)), np.ones(len(seen), bool)
    for step in range(effort.steps):
        action = np.array(policy(seen, jax.random.fold_in(key, step)))
        if step == 0:
            action[: len(points)] = 0
        result = env.step(action, None)
        earned += going * discount**step * result.reward
        going &= ~result.terminated & result.valid
        seen = result.next_obs
    returns = earned.reshape(-1, effort.rollouts)
    return {
        "obs": obs,
        "action": np.zeros((count, env.spec.action.size), np.float32),
        "returns": returns[:count],
        "starts": returns[count:].ravel(),
        "log_density": log_density(visited(run, policy, effort.states), obs),
    }


def visited(run: Run, policy: Policy, count: int) -> np.ndarray:
    """States of ordinary episodes."""
    env, key = build_env(run, 16), jax.random.key(1)
    seen: list[np.ndarray] = []
    assert isinstance(env, HostEnv)
    obs = env.reset(key)
    while len(seen) * 16 < count:
        seen.append(obs)
        act_key, step_key = jax.random.split(jax.random.fold_in(key, len(seen)))
        obs = env.step(np.asarray(policy(obs, act_key)), step_key).obs
    return np.concatenate(seen)[:count]


def log_density(seen: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Log density by SciPy's Gaussian KDE (Silverman) on standardised states."""
    from scipy.stats import gaussian_kde

    mean, std = seen.mean(axis=0), np.maximum(seen.std(axis=0), 1e-6)
    try:
        return gaussian_kde(((seen - mean) / std).T, "silverman").logpdf(((at - mean) / std).T)
    except np.linalg.LinAlgError as error:
        got, fix = "some that do not", "evaluate a policy that moves, or raise --states"
        raise UserError("visited states that spread in all directions", got, fix) from error


def thirds(density: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Masks of points in and out of distribution: the upper and the lower third of the density."""
    low, high = np.quantile(density, [1 / 3, 2 / 3])
    return density >= high, density <= low


def scores(known: Mapping[str, np.ndarray], value: np.ndarray) -> dict[str, float]:
    """AUROC of sigma_Q out of distribution, and its correlation with the error of the mean."""
    mean, std = value.mean(axis=0), value.std(axis=0)
    inside, outside = thirds(known["log_density"])
    error = mean - known["returns"].mean(axis=1)
    return {"auroc": auroc(std[inside], std[outside]), "correlation": correlation(error, std)}


@dataclass(frozen=True)
class PolicyCell(TrainingCell):
    """A run of SAC until its policy is intermediate, and the policy's Monte Carlo reference."""

    @property
    def folder(self) -> Path:
        """Separate from ordinary runs, which go on to the end."""
        return self.root / "policies" / super().folder.name

    def finished(self) -> bool:
        """Whether the reference exists, too."""
        return super().finished() and (self.folder / REFERENCE).is_file()

    def make(self) -> bool:
        """Train until the return is reached or the budget is spent, then compute the reference."""
        use_compilation_cache()
        wanted = anchors_of(self.run).until

        def goes_on(rows: list[dict[str, Any]]) -> bool:
            return not rows[0].get(RETURN, -np.inf) >= wanted

        if train(plan(self.run, self.folder), callback=goes_on).stopped_by is not None:
            return False
        agent, state = loaded(self.folder, self.run)
        policy, effort = partial(agent.exploit, state), EFFORTS.get(self.run.preset, Effort())
        with replacing(self.folder / REFERENCE) as temporary:
            write_npz(temporary, reference(self.run, policy, DISCOUNT, effort))
        return True


def loaded(directory: Path, run: Run, seed: int = 0) -> tuple[Any, Any]:
    """The agent of a run and the last state of one of its seeds."""
    agent = build_agent(run.agent_name, run.agent, build_env(run, 1).spec)
    found = saved_agent(directory, agent, run.seeds)
    if found is None:
        raise UserError(f"a checkpoint in {directory}", "none that verifies", "train it first")
    state = found[1]
    return agent, state if run.seeds == 1 else jax.tree.map(lambda x: x[seed], state)


@dataclass(frozen=True)
class EvaluationCell(TrainingCell):
    """A run of the evaluator on the intermediate policy, and its critics' values at the anchors."""

    @property
    def policy(self) -> PolicyCell:
        """The run of SAC with seed 0 on the same task, with as many updates per step."""
        run = PRESETS[self.run.preset](self.run.env_name, "sac")
        often = max(EVALUATIONS, run.loop.log_interval, run.loop.chunk_steps())
        updates = self.run.loop.updates_per_step
        loop = replace(run.loop, eval_interval=often, updates_per_step=updates)
        return PolicyCell(replace(run, env=self.run.env, loop=loop), self.root)

    @property
    def needs(self) -> tuple[PolicyCell, ...]:  # type: ignore[override]
        """The policy."""
        return (self.policy,)

    def finished(self) -> bool:
        """Whether the critics' values exist, too."""
        return super().finished() and (self.folder / CRITIC).is_file()

    def make(self) -> bool:
        """Train, then save the critics' values."""
        if not super().make():
            return False
        (agent, state), known = loaded(self.folder, self.run), self.known()
        value = np.asarray(jax.jit(agent.value)(state, known["obs"], known["action"]))
        with replacing(self.folder / CRITIC) as temporary:
            write_npz(temporary, {"value": value})
        return True

    def known(self) -> dict[str, np.ndarray]:
        """The reference of its policy."""
        return read_npz(self.policy.folder / REFERENCE)

    def value(self) -> np.ndarray:
        """Q at all points, `(index, points)`."""
        return read_npz(self.folder / CRITIC)["value"]


TASKS = {
    env: Task(name, env, changes, steps=(("paper", 2_000_000),), title=title)
    for name, env, changes, title in (
        ("cartpole", "cartpole_swingup", (), "Cartpole swing-up"),
        ("cheetah", "cheetah", (("rewards", "true"),), "Cheetah run"),
    )
}
DESK = {
    "cartpole_swingup": (("num_indices", "8"),),  # paper; four of `desk` have little spread
    # at 1 / 32, `desk`'s for coverage, SAC does not learn to run
    "cheetah": (("num_indices", "8"), ("updates_per_step", "0.125")),
}


def study_of(label: str, env: str, scale: str, root: Path) -> Study:
    """Joint TD and TUD by length scale."""
    task = TASKS[env]
    changes = (*task.changes, ("discount", str(DISCOUNT)), *(DESK[env] if scale == "desk" else ()))
    probe = Study(label, "", SCALES[scale], (replace(task, changes=changes),), (), root=root)
    run = probe.run(probe.tasks[0], Method("any", "evaluator"), 0)
    source = EvaluationCell(run, root).policy.folder
    task = replace(probe.tasks[0], changes=(*changes, ("policy", str(source))), seeds=SEEDS)
    methods = tuple(
        Method(f"{loss} {length}", "evaluator", (("joint", joint), ("length_scale", length)))
        for loss, joint in LOSSES.items()
        for length in LENGTHS
    )
    title = f"{task.title}: value of a frozen policy by joint TD and by TUD, by length scale"
    probe = replace(probe, title=title, metric=START, cell=EvaluationCell)
    return replace(probe, tasks=(task,), methods=methods)


def value_estimation(label: str, env: str, scale: str, root: Path) -> Figure:
    """AUROC and correlation by length scale, and the value of starts over training."""
    study = study_of(label, env, scale, root)

    def draw(out: Path, command: str) -> list[Path]:
        rows = critic_rows(study, out)
        paths = write_report(study, out, command, draw=partial(_picture, study, rows))
        if not paths or not rows:
            return paths
        atomic_write_text(out / "critics.csv", csv_text(rows))
        readme, first = out / "README.md", {n: float(v) for n, v in rows[0].items() if n in KNOWN}
        text = (
            "\n## Calibration\n\nThe policy is SAC's after {policy_steps:,.0f} steps, with a "
            "return of {policy_return:.4g} in evaluations; training ended at {until:g} or with its "
            "budget. It earns {monte_carlo:.4g}, discounted, by Monte Carlo. Scores of each "
            "critic are in [critics.csv](critics.csv).\n"
        ).format(until=ANCHORS[env].until, **first)
        atomic_write_text(readme, readme.read_text() + text)
        return [*paths, out / "critics.csv"]

    return replace(figure_of(study), draw=draw)


def _picture(
    study: Study, rows: list[dict[str, str]], results: Results, path: Path, caption: str
) -> Path:
    """As in the paper: AUROC, correlation, and the value of starts beside Monte Carlo's."""
    scores = {
        words: [plots.Series(loss, _by_length(rows, loss, score), look) for loss, look in LOOKS]
        for score, words in SCORES.items()
    }
    budget = max(line.steps for line in results.lines)
    values = {}
    for loss in LOSSES:
        named = {f"length {n}": results.of(study.tasks[0].name, f"{loss} {n}") for n in LENGTHS}
        seeds = {name: [results.curve(line) for line in mine] for name, mine in named.items()}
        values[loss] = aggregate({name: mine for name, mine in seeds.items() if mine}, budget)
    truth = float(rows[0]["monte_carlo"]) if rows else np.nan
    figure = plots.value_estimation(scores, values, truth, "value of starts")
    note = f"{caption}; mean over seeds, bars and bands of one standard error; steps are decisions"
    return plots.save(figure, note, path)


def _by_length(rows: list[dict[str, str]], loss: str, score: str) -> dict[float, Estimate]:
    """A score of one loss over the seeds, by length scale."""
    found = {n: [float(r[score]) for r in rows if r["method"] == f"{loss} {n}"] for n in LENGTHS}
    return {float(length): over_splits(mine) for length, mine in found.items() if mine}


def critic_rows(study: Study, out: Path) -> list[dict[str, str]]:
    """Scores of every critic on this disk, and of others that the study's file has."""
    rows = {}
    if (out / "critics.csv").is_file():
        with open(out / "critics.csv", newline="") as file:
            rows = {(r["task"], r["method"], int(r["seed"])): r for r in csv.DictReader(file)}
    for key, cell in study.runs().items():
        if isinstance(cell, EvaluationCell) and cell.finished():
            known = cell.known()
            found = scores(known, cell.value()) | {"monte_carlo": known["starts"].mean()}
            steps, returns = (cell.policy.metrics()[n] for n in ("step", RETURN))
            found |= {"policy_steps": steps[-1], "policy_return": returns[np.isfinite(returns)][-1]}
            names = dict(zip(("task", "method", "seed"), map(str, key), strict=True))
            rows[key] = names | {n: f"{v:.6g}" for n, v in found.items()}
    return list(rows.values())


def cartpole_slices(scale: str, root: Path) -> Figure:
    """fig:app-cartpole-slices: Q by both losses, Monte Carlo returns and density along sweeps."""
    study = study_of("fig:app-cartpole-slices", "cartpole_swingup", scale, root)
    cells: dict[str, list[EvaluationCell]] = {loss: [] for loss in LOSSES}
    for (_, method, _), cell in study.runs().items():
        loss, length = method.split(" ")
        if length == "1" and isinstance(cell, EvaluationCell):  # paper
            cells[loss].append(cell)

    def draw(out: Path, caption: str) -> list[Path]:
        if not all(cell.finished() for mine in cells.values() for cell in mine):
            return []
        values = {loss: _spread([c.value() for c in mine]) for loss, mine in cells.items()}
        anchors, known = ANCHORS["cartpole_swingup"], cells["TD"][0].known()
        note = f"{caption}, length scale 1, {len(cells['TD'])} seeds; bands of sigma_Q"
        return [_slices(anchors, known, values, 3, note, out / "app-cartpole-slices.png")]

    title = "Cartpole: value and uncertainty along slices"
    parts = {study.tasks[0].name: [cell for mine in cells.values() for cell in mine]}
    return drawing(study.label, title, scale, draw, parts)


def _spread(values: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of Q, averaged over seeds."""
    return np.mean([v.mean(axis=0) for v in values], 0), np.mean([v.std(axis=0) for v in values], 0)


def _slices(
    anchors: Anchors,
    known: Mapping[str, np.ndarray],
    values: Mapping[str, tuple[np.ndarray, np.ndarray]],
    count: int,
    note: str,
    path: Path,
) -> Path:
    def by_anchor(numbers: np.ndarray) -> np.ndarray:
        return numbers.reshape(len(anchors.rows), POINTS)[:count]

    figure = plots.slices(
        np.linspace(*anchors.sweep, POINTS),
        list(anchors.rows)[:count],
        {loss: (by_anchor(mean), by_anchor(std)) for loss, (mean, std) in values.items()},
        by_anchor(known["returns"].mean(axis=1)),
        by_anchor(known["log_density"]),
        anchors.label,
    )
    return plots.save(figure, note, path)


def anchor_table(label: str, env: str, scale: str, root: Path) -> Figure:
    """The anchors of a task, with the density of the policy's visits where it is known."""
    anchors = ANCHORS[env]
    study = study_of(label, env, scale, root)

    def draw(out: Path, caption: str) -> list[Path]:
        cell = next(iter(study.runs().values()))
        assert isinstance(cell, EvaluationCell)
        header, rows = ["anchor", *anchors.columns], [[n, *r] for n, r in anchors.rows.items()]
        if cell.policy.finished():
            density = cell.known()["log_density"].reshape(len(rows), POINTS)
            header.append("mean log density")
            rows = [[*row, mine.mean()] for row, mine in zip(rows, density, strict=True)]
        told = [[e if isinstance(e, str) else f"{e:.4g}" for e in row] for row in rows]
        low, high = anchors.sweep
        text = (
            f"{markdown_table(header, told)}\n\n{anchors.label}: {POINTS} values, {low} to {high}"
        )
        atomic_write_text(out / "table.md", f"{text}; all else, actions included, is 0.\n")
        return [out / "table.md"]

    title = f"{TASKS[env].title}: states that the slices pass through"
    return drawing(label, title, scale, draw)


@dataclass(frozen=True)
class EvaluateCritic(Effort):
    """Is the uncertainty of a trained agent's value calibrated? Against Monte Carlo returns of its
    exploitation actor at anchor states, by the density of its visits."""

    run: Annotated[Path, tyro.conf.Positional] = Path()
    """Directory of a run."""
    out: Path | None = None
    """Where figures and JSON go; `critic` in the run's directory where not given."""
    seed: int | None = None
    """Which seed's agent; the first of the run where not given."""


def evaluate_critic(words: list[str]) -> int:
    """`devote evaluate-critic RUN`."""
    asked = tyro.cli(EvaluateCritic, args=words, prog="devote evaluate-critic")
    use_compilation_cache()
    run = saved_run(asked.run)
    anchors, seed = anchors_of(run), run.seed if asked.seed is None else asked.seed
    if seed not in run.seed_range:
        raise UserError(f"a seed of the run, {run.seed_range}", seed, "change --seed")
    if min(asked.rollouts, asked.steps) < 1 or asked.states < 100:
        got = (asked.rollouts, asked.steps, asked.states)
        raise UserError("at least 1 rollout of 1 step, and 100 states", got, "raise them")
    agent, state = loaded(asked.run, run, seed - run.seed)
    if not hasattr(agent, "value"):
        fix = "name a run of devote, of one of its variants or of evaluator"
        raise UserError("an agent whose value has a spread", run.agent_name, fix)
    known = reference(run, partial(agent.exploit, state), flat(run.agent)["discount"], asked)
    width = known["obs"].shape[1]

    def predict(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value = np.asarray(agent.value(state, *np.split(x.astype(np.float32), [width], axis=1)))
        return value.mean(axis=0), value.std(axis=0)

    points = np.concatenate([known["obs"], known["action"]], axis=1)
    truth, found = known["returns"].mean(axis=1), predict(points)
    inside, outside = thirds(known["log_density"])
    report = calibration_report(
        predict, (points[inside], truth[inside]), (points[outside], truth[outside])
    )
    out = asked.out or asked.run / "critic"
    out.mkdir(parents=True, exist_ok=True)
    scored = scores(known, np.stack([found[0] - found[1], found[0] + found[1]]))
    scored |= {"monte_carlo_start": float(known["starts"].mean())}
    numbers = {n: v if np.isfinite(v) else None for n, v in scored.items()}
    note = f"{asked.run.name}, seed {seed}; {asked.rollouts} rollouts of up to {asked.steps} steps"
    paths = [
        plots.save(plots.draw_report(report), note, out / "report.png"),
        _slices(anchors, known, {run.agent_name: found}, 6, note, out / "slices.png"),
        out / "report.json",
    ]
    table = {"out_of_distribution": numbers, "report": report.as_dict()}
    atomic_write_text(paths[-1], json.dumps(table, indent=1, allow_nan=False) + "\n")
    print("".join(f"wrote {path}\n" for path in paths) + json.dumps(numbers))
    return 0
