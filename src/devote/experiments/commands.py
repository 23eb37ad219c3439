"""`devote compare`, `devote figure`, `devote figures` and `devote tune`."""

import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

import tyro

from devote.build import AGENTS, build_program
from devote.core.durable import atomic_write_text
from devote.core.errors import UserError
from devote.core.settings import digest, flag, parse_change, require_known
from devote.experiments.calibration_figures import study_figure
from devote.experiments.cells import Cell
from devote.experiments.comparison import Method, Scale, Study, Task, TrainingCell
from devote.experiments.durations import Durations, in_words, time_left
from devote.experiments.paper_figures import (
    ABSENT,
    ALIASES,
    FIGURES,
    LONG_LABELS,
    SUITES,
    TUNING_SEED,
)
from devote.experiments.ray_engine import RayEngine
from devote.experiments.runner import (
    MESSAGE,
    SAVED,
    Engine,
    LocalEngine,
    available_cores,
    is_busy,
    log_lines,
    log_path,
    reason_of,
    run_cells,
    with_needs,
)
from devote.experiments.slurm import Resources, make_cell, queue, submit, submitted
from devote.experiments.study_report import Figure, figure_of
from devote.experiments.tuning import Tuning, parse_space, write_tuning
from devote.loops.run_dir import STUDY
from devote.loops.signals import exit_code
from devote.names import task_of
from devote.presets import PRESETS
from devote.regression.study import PRESETS as CALIBRATION_PRESETS
from devote.regression.uci import VARIABLE

MOST_SEEDS = 1000
MOST = 100_000  # trials, processors, minutes, ...
FRESH_SEED = 200  # first seed on which tuned settings are checked
LONGEST = 100  # letters of environments in the name of a folder
FLAGS = dict(seeds="--seeds", seed="--first-seed", preset="--preset")
FLAGS |= dict(env_name="--envs", agent_name="--agents")
"""Settings that a comparison decides, with their options."""
STATES = ("done", "running", "queued", "stopped", "failed", "not begun")
LINE = "{:<33} {:>7} {:>8}  {:<20} {}"
ScaleName = Literal["smoke", "desk", "long", "paper"]


@dataclass(frozen=True, kw_only=True)
class StudyOptions(Resources):
    """Options of every study: where its runs are made, kept and drawn."""

    draw_only: bool = False
    """Run nothing; draw whatever there is."""
    status: bool = False
    """Run nothing; say what is done, running, queued and failed."""
    keep: bool = False
    """Do not make again what is recorded in the directory of results, though not on this disk."""
    out: Path | None = None
    """Directory of figure and table; named after what is asked for where not given."""
    on: Literal["local", "ray", "slurm"] = "local"
    """This machine; a Ray cluster, or a local Ray where there is no address; SLURM."""
    address: str | None = None
    """host:port of a Ray cluster; else $RAY_ADDRESS, else a Ray is started here."""
    cell: str | None = None
    """Make this run alone, by its identity, and draw nothing: what a task of SLURM is."""


@dataclass(frozen=True, kw_only=True)
class RunOptions(StudyOptions):
    """Options that all runs of a study share."""

    preset: str = "desk"
    """Source of all settings that are not given."""
    steps: int | None = None
    """Environment steps of every run; the preset's where not given."""
    metric: str | None = None
    """A column of the metrics; by default coverage where there is one, else return."""


@dataclass(frozen=True)
class Compare(RunOptions):
    """Agents on environments: the same budget and backbone for all, resumable, with intervals."""

    envs: tuple[str, ...] = ()
    """Names, Gymnasium ids or module:MyEnv, with changes after commas: `deep_sea,size=20`."""
    suite: Literal["sparse"] | None = None
    """A list of tasks instead: sparse, thirteen with rare rewards, each with a return that counts
    as solved."""
    agents: tuple[str, ...] = ("devote", "sac")
    """The first is compared with each of the others; with changes, as in `devote,optimism=1`."""
    seeds: int = 5
    """Seeds of every agent on every environment."""
    first_seed: int = 0
    """The seeds are this one and those after it; by custom those from 100 on are for tuning."""
    set: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """A setting of all runs that have it, `name=value`."""
    tune: int = 0
    """Trials of every agent on every environment before it is compared, the same number for all;
    none where 0."""


@dataclass(frozen=True)
class Tune(RunOptions):
    """Look for an agent's settings by trials on tuning seeds; several processes may share them."""

    env: tyro.conf.Positional[str]
    """A name, Gymnasium id or module:MyEnv, with changes after commas."""
    agent: str = "devote"
    """With changes, as in `devote,optimism=1`: they stay."""
    trials: int = 20
    """Of all processes that share --runs; those given up at the median included."""
    space: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Where to look for a setting: name=low:high, name=low:high:log, name=a,b or name=value."""
    seeds: int = 2
    """Runs of a trial, on seeds from 100 on."""
    check_seeds: int = 5
    """Fresh seeds, from 200 on, on which the best is held against the default; 0 for none."""


UNNAMED = ("envs", "suite", "preset", *(entry.name for entry in fields(StudyOptions)))
"""Options that are not hashed into the name of a folder."""


@dataclass(frozen=True)
class Make(StudyOptions):
    """Make one figure or table of the paper: run what is missing, then draw."""

    label: tyro.conf.Positional[str]
    """A label that `devote figures` lists."""
    scale: ScaleName = "desk"
    """smoke: seconds; desk: two cores; long: the paper's steps and soft resets on desk's networks;
    paper: the paper's own settings."""
    only: tuple[str, ...] = ()
    """Tasks to run; the figure shows whatever there is."""
    data: Path | None = None
    """Directory of the UCI tables; else $DEVOTE_DATA, else the cache, else a download."""


@dataclass(frozen=True)
class Listing:
    """What is run, what is missing, and how long it would take."""

    scale: ScaleName = "desk"
    """smoke, desk, long or paper, as in `devote figure`."""
    runs: Path = Resources.runs
    """Directory of the runs."""


def compare_command(words: list[str]) -> int:
    """`devote compare`; the same command resumes."""
    asked = tyro.cli(Compare, args=words, prog="devote compare")
    study, command = study_of(asked), command_of(asked)
    _require_counts(asked, tune=0)
    if asked.tune and asked.on == "slurm":
        fix = "tune first, with --on local or ray; then --on slurm with what was found"
        raise UserError("trials that one command oversees", "--tune on SLURM", fix)
    if not (asked.draw_only or asked.status or asked.cell):
        require_buildable(study)
        if asked.tune and (stopped_by := tune_all(study, asked)):
            return _stopped(stopped_by)
    if asked.tune:
        study = replace(study, methods=tuple(_tuned(study, m, asked.tune) for m in study.methods))
    return make(figure_of(study, out=output_of(asked)), asked, command, ["compare", *words])


def figure_command(words: list[str]) -> int:
    """`devote figure`."""
    asked = tyro.cli(Make, args=words, prog="devote figure")
    asked = replace(asked, label=ALIASES.get(asked.label, asked.label))
    if asked.label in ABSENT:
        raise UserError("a figure that the library makes", asked.label, "see: devote figures")
    require_known([asked.label], FIGURES, "figure")
    if asked.scale == "long" and asked.label not in LONG_LABELS:
        fix = f"--scale long is for {', '.join(LONG_LABELS)}"
        raise UserError(f"smoke, desk or paper as the scale of {asked.label}", "long", fix)
    if asked.data is not None:
        if not asked.data.is_dir():
            raise UserError("a directory of UCI tables", asked.data, "change --data")
        os.environ[VARIABLE] = str(asked.data)  # for the processes that read them
    figure = FIGURES[asked.label](asked.scale, asked.runs)
    command = f"devote figure {asked.label} --scale {asked.scale}"
    return make(figure, asked, command, ["figure", *words], asked.only)


def _require_counts(asked: StudyOptions, **least: int) -> None:
    """Refuse counts, and resources, that are out of range."""
    least |= {"cores": 1, "cpus_per_run": 1, "gpus_per_run": 0, "time_limit": 1}
    for name, low in least.items():
        if (number := getattr(asked, name)) is not None and not low <= number <= MOST:
            raise UserError(f"{flag(name)} from {low} to {MOST:,}", number, f"change {flag(name)}")


def tune_command(words: list[str]) -> int:
    """`devote tune`: trials, then the best against the default; the same command goes on."""
    asked = tyro.cli(Tune, args=words, prog="devote tune")
    _require_counts(asked, trials=1, seeds=1, check_seeds=0)
    if asked.on == "slurm":
        fix = "start `devote tune` in several jobs: all that share --runs share the trials"
        raise UserError("--on local or --on ray", "slurm", fix)
    same = {n: getattr(asked, n) for n in ("preset", "steps", "metric", "runs")}
    study = study_of(Compare(envs=(asked.env,), agents=(asked.agent,), **same))
    tuning = tuning_of(study, study.tasks[0], study.methods[0], asked.trials, asked.seeds)
    tuning = replace(tuning, given=tuple(map(parse_space, asked.space)))
    chosen = {n: v for n, v in vars(asked).items() if n in ("space", "steps", "metric", "seeds")}
    name = f"{_file_name(asked.env)}-{_file_name(asked.agent)}-{asked.preset}-{digest(chosen)[:6]}"
    out = asked.out or Path("results/tune") / name
    if not (asked.draw_only or asked.status):
        require_buildable(study)
        if stopped_by := tuning.run(engine_of(asked)):
            return _stopped(stopped_by)
    typed = shlex.join(["devote", "tune", *words])
    _say_written(write_tuning(tuning, out, typed))
    best = tuning.best()
    if best is None or not asked.check_seeds:
        return 0 if best else 1
    plain = tuning.method
    tuned = Method("tuned", plain.agent, (*plain.changes, *best[0].items()))
    scale = replace(study.scale, seeds=asked.check_seeds)
    check = replace(study, methods=(tuned, plain), scale=scale, first_seed=FRESH_SEED)
    if check.run(check.tasks[0], tuned, 0) == check.run(check.tasks[0], plain, 0):
        print("the default was the best: there is nothing to check")
        return 0
    check = replace(check, label="check", title=f"Tuned {plain.name}")
    return make(figure_of(check), replace(asked, out=out / "check"), typed)


def tuning_of(study: Study, task: Task, method: Method, trials: int, seeds: int = 2) -> Tuning:
    """Trials of one method on one task of a study."""
    study = replace(study, tasks=(task,), methods=(method,), first_seed=TUNING_SEED)
    return Tuning(replace(study, scale=replace(study.scale, seeds=seeds)), trials)


def tune_all(study: Study, asked: Compare) -> str | None:
    """Run the same number of trials for every method on every task; the signal that ended them, if
    any."""
    engine = engine_of(asked)
    for task, method in product(study.tasks, study.methods):
        tuning = tuning_of(study, task, method, asked.tune)
        if len(tuning.finished()) < asked.tune:
            print(f"{asked.tune} trials of {method.name} in {task.name}")
            if stopped_by := tuning.run(engine):
                return stopped_by
    return None


def _tuned(study: Study, method: Method, trials: int) -> Method:
    """A method with the best settings that its trials have found on each task."""
    found = {task.name: tuning_of(study, task, method, trials).best() for task in study.tasks}
    return replace(method, tuned=tuple((n, tuple(b[0].items())) for n, b in found.items() if b))


def _stopped(by: str, left: str = "") -> int:
    print(f"stopped by {by}; {left}the same command continues")
    return exit_code(by)


def calibration_command() -> None:
    """`python -m devote.regression.study`: the fits of a study as typed, then its table."""
    try:
        study = tyro.extras.overridable_config_cli(CALIBRATION_PRESETS)
        shared = study.out.parent.name == "calibration"  # locks and times, with `devote figure`
        root = study.out.parents[1] if shared else study.out
        sys.exit(make(study_figure(study), StudyOptions(out=study.out, runs=root), ""))
    except UserError as error:
        sys.exit(f"devote: {error}")


def figures_command(words: list[str]) -> int:
    """`devote figures`."""
    asked = tyro.cli(Listing, args=words, prog="devote figures")
    durations, cores = Durations.known(asked.runs), len(available_cores())
    queued = queue(asked.runs)
    print(LINE.format("label", "done", "recorded", "time left", "shows"))
    for label in LONG_LABELS if asked.scale == "long" else FIGURES:
        figure = FIGURES[label](asked.scale, asked.runs)
        outdated = sum(cell.outdated() for cell in figure.cells())
        states = states_of(figure.cells(), asked.runs, queued)
        told = (
            figure.title,
            f"lacks {', '.join(figure.missing)}" if figure.missing else "",
            f"{outdated} of other settings" if outdated else "",
            in_counts({name: states[name] for name in ("running", "queued", "failed")}),
            f"drawn in {figure.out}" if (figure.out / "README.md").is_file() else "",
        )
        print(LINE.format(label, *state(figure, durations, cores), "; ".join(filter(None, told))))
    for label, shows in ABSENT.items():
        print(LINE.format(label, "-", "-", "-", shows))
    print(
        f"\nscale {asked.scale}; times for {cores} cores, from runs that were measured here or, "
        f"where there are none, elsewhere\nrecorded: in results, not on this disk; made again "
        f"without --keep\nmake one: devote figure LABEL --scale {asked.scale} --keep"
    )
    return 0


def state(figure: Figure, durations: Durations, cores: int) -> tuple[str, str, str]:
    """Cells done here, cells recorded elsewhere, and the time that the rest takes."""
    cells, recorded = figure.cells(), figure.recorded(figure.out)
    open_cells = [cell for cell in cells if not cell.finished()]
    rest = [cell for cell in open_cells if cell.identity not in recorded]
    seconds = time_left([(durations.seconds(cell), cell.progress()) for cell in rest], cores)
    left = "-" if not rest else "unknown" if seconds is None else in_words(seconds)
    done = f"{len(cells) - len(open_cells)}/{len(cells)}"
    return done, str(len(recorded) or "-"), left


def make(
    figure: Figure,
    asked: StudyOptions,
    command: str,
    words: Sequence[str] = (),
    only: tuple[str, ...] = (),
) -> int:
    """Run what is missing, draw what is finished and report failures; the exit code. `words` are
    the command that was typed, for SLURM's tasks."""
    cells, out, root = figure.cells(only), asked.out or figure.out, asked.runs
    if asked.cell is not None:
        return _make_one(cells, asked)
    if asked.draw_only:
        return 0 if _draw(figure, out, command) else 1
    if asked.status:
        print(status(cells, root))
        return 0
    _require_counts(asked)
    for place in (root, out):  # now, not after hours of work
        place.mkdir(parents=True, exist_ok=True)
        if not os.access(place, os.W_OK):
            raise UserError("a directory that can be written to", place, "name another place")
    if figure.missing:
        print(f"not in the library yet, left out: {', '.join(figure.missing)}")
    held = figure.recorded(out)
    recorded = [cell for cell in cells if cell.identity in held]
    if asked.keep:
        cells = [cell for cell in cells if cell.identity not in held]
    elif recorded:
        print(
            f"{len(recorded)} runs are recorded in {out} but not on this disk; they are made again "
            "(--keep takes them as they are)"
        )
    write_study(figure, out, command)
    if asked.on == "slurm" and (missing := with_needs(cells, unfinished=True)):
        count = submit(missing, [sys.executable, "-m", "devote", *words], asked)
        print(f"{count} tasks submitted; {status(cells, root)}")
        print("the same command draws when all are done, and tries again those that failed")
        return 0
    open_cells = any(not cell.finished() for cell in cells)
    outcome = run_cells(cells, root, engine_of(asked) if open_cells else None)
    if outcome.stopped_by is not None:
        left = sum(not cell.finished() for cell in cells)
        return _stopped(outcome.stopped_by, f"{left} left; ")
    _draw(figure, out, command)
    for failure in outcome.failures:
        print(f"failed: {failure.name}: {failure.reason}")
    if outcome.failures:
        print("the same command tries the failed ones again")
    return 1 if outcome.failures else 0


def engine_of(asked: StudyOptions) -> Engine:
    """The engine that runs cells while the command waits."""
    if asked.on == "ray":
        work = asked.runs / "work"
        return RayEngine(work, asked.cpus_per_run, asked.gpus_per_run, asked.address)
    return LocalEngine(asked.runs / "work", len(available_cores()[: asked.cores]))


def _make_one(cells: Sequence[Cell], asked: StudyOptions) -> int:
    """Run a single cell in this process."""
    found = [cell for cell in with_needs(cells) if cell.identity == asked.cell]
    if not found:
        fix = "give --cell one of the study's; its runs.csv and --status name them"
        raise UserError("the identity of a run of this study", asked.cell, fix)
    make_cell(found[-1], asked.runs, asked.cpus_per_run)
    return 0


def status(cells: Sequence[Cell], root: Path) -> str:
    """Number of cells by state, then the running and the failed ones."""
    states = states_of(cells, root, queue(root))
    told = [f"{name}: {words}" for name in ("running", "failed") for words in states[name]]
    return "\n".join([in_counts(states), *told])


def in_counts(states: Mapping[str, Sequence[str]]) -> str:
    """Number of cells by state, in words."""
    return ", ".join(f"{len(found)} {name}" for name, found in states.items() if found)


def states_of(cells: Sequence[Cell], root: Path, queued: Mapping[str, str]) -> dict[str, list[str]]:
    """Descriptions of cells by state; `queued` is SLURM's queue."""
    folder, given = root / "work", submitted(root)
    states: dict[str, list[str]] = {name: [] for name in STATES}
    for cell in with_needs(cells):
        lines, words = log_lines(log_path(folder, cell)), cell.name
        if cell.finished():
            state = "done"
        elif queued.get(cell.identity) == "RUNNING" or is_busy(folder, cell):
            state, words = "running", f"{cell.name} {cell.progress():.0%}"
        elif cell.identity in queued:
            state = "queued"
        elif lines and lines[-1] == MESSAGE + SAVED:
            state = "stopped"
        elif lines or cell.identity in given:
            lines = lines or log_lines(given[cell.identity])
            state, words = "failed", f"{cell.name}: {reason_of(None, lines)}"
        else:
            state = "not begun"
        states[state].append(words)
    return states


def write_study(figure: Figure, out: Path, command: str) -> None:
    """Write the list of trainings by task, method and seed, for `devote watch`."""
    cells = [
        {"task": task, "method": cell.method, "seed": cell.run.seed, "run": cell.folder.name}
        for task, parts in figure.parts.items()
        for cell in parts
        if isinstance(cell, TrainingCell)
    ]
    if cells:
        table = {"title": figure.title, "command": command, "cells": cells}
        atomic_write_text(out / STUDY, json.dumps(table, indent=1) + "\n")


def _draw(figure: Figure, out: Path, command: str) -> bool:
    """Whether there was anything to draw."""
    written = figure.draw(out, command)
    _say_written(written)
    for readme in [path for path in written if path.name == "README.md"]:
        print("".join(f"{x}\n" for x in readme.read_text().splitlines() if x.startswith("- ")))
    return bool(written)


def _say_written(paths: Sequence[Path]) -> None:
    print("".join(f"wrote {path}\n" for path in paths) or "nothing is finished yet")


def study_of(asked: Compare) -> Study:
    """The study that was asked for, with every setting checked."""
    if asked.suite is not None and asked.envs:
        raise UserError("--envs or --suite", "both", "give only one of them")
    envs = dict.fromkeys(asked.envs) if asked.suite is None else SUITES[asked.suite]
    for typed, given in (("--envs", envs), ("--agents", asked.agents)):
        if not given:
            expected = f"at least one name after {typed}"
            raise UserError(expected, "none", "see: devote compare --help")
    if not 1 <= asked.seeds <= MOST_SEEDS:
        raise UserError(f"from 1 to {MOST_SEEDS} seeds", asked.seeds, "change --seeds")
    if not 0 <= asked.first_seed <= 2**32 - asked.seeds:
        expected = "a first seed of 0 or more, and all seeds below 4,294,967,296"
        raise UserError(expected, asked.first_seed, "change --first-seed")
    require_known([asked.preset], PRESETS, "preset")
    shared = dict(map(parse_change, asked.set))
    for name in [name for name in shared if name in FLAGS]:
        raise UserError("a setting that a run has of its own", name, f"use {FLAGS[name]}")
    if asked.steps is not None:
        shared = {"steps": str(asked.steps)} | shared
    methods = tuple(_method(text) for text in dict.fromkeys(asked.agents))
    study = Study(
        label="compare",
        title="Comparison of " + ", ".join(method.name for method in methods),
        scale=Scale(asked.preset, asked.preset, asked.seeds),
        tasks=tuple(_task(text, shared, solved) for text, solved in envs.items()),
        methods=methods,
        metric=asked.metric or ("eval/mean_reward" if asked.suite else None),
        root=asked.runs,
        first_seed=asked.first_seed,
    )
    if study.missing():
        got = ", ".join(study.missing())
        raise UserError(f"tasks that preset {asked.preset} knows", got, "choose another preset")
    _check_runs(study)
    return study


def _check_runs(study: Study) -> None:
    """Refuse settings out of range, methods with identical runs, and a metric that not all runs
    log."""
    runs = study.runs()
    for cell in runs.values():
        cell.run.check()
        cell.run.check_steps()
    known: dict[tuple[str, ...], str] = {}
    for method in study.names():
        mine = tuple(cell.identity for key, cell in runs.items() if key[1] == method)
        if mine in known:
            got = f"{method}, the same runs as {known[mine]}"
            raise UserError("methods that differ", got, "leave one out or change a setting")
        known[mine] = method
    if study.metric is not None:
        first, *others = study.parts().values()  # every method once, and every task once
        for cell in [*first[: len(study.methods)], *(part[0] for part in others)]:
            require_known([study.metric], cell.columns(), f"metric of {cell.name}")


def require_buildable(study: Study) -> None:
    """Build every method on every task once, so that errors come before any run."""
    for task, method in product(study.tasks, study.methods):
        cell = TrainingCell(study.run(task, method, study.seeds(task)[0]), study.root)
        if not cell.finished():
            build_program(cell.run).close()


def output_of(asked: Compare) -> Path:
    """The folder of figure and table, named after the comparison."""
    if asked.out is not None:
        return asked.out
    names = asked.suite or "+".join(_file_name(text) for text in asked.envs)
    named = [entry for entry in fields(Compare) if entry.name not in UNNAMED]
    chosen = {e.name: getattr(asked, e.name) for e in named if getattr(asked, e.name) != e.default}
    if len(names) > LONGEST:
        chosen, names = chosen | {"envs": asked.envs}, names[:LONGEST]
    ending = f"-{digest(chosen)[:6]}" if chosen else ""
    return Path("results/compare") / f"{names}-{asked.preset}{ending}"


def command_of(asked: Compare) -> str:
    """The same comparison as a command, without directories of this machine."""
    tasks = ["--suite", asked.suite] if asked.suite else ["--envs", *asked.envs]
    words = ["devote", "compare", *tasks, "--agents", *asked.agents]
    words += ["--seeds", str(asked.seeds), "--preset", asked.preset]
    words += [word for text in asked.set for word in ("--set", text)]
    for name in ("first_seed", "steps", "metric", "tune"):
        words += [flag(name), str(value)] if (value := getattr(asked, name)) else []
    return shlex.join(words)


def _method(text: str) -> Method:
    agent, *changes = text.split(",")
    require_known([agent], AGENTS, "agent")
    return Method(text.replace(",", " "), agent, tuple(map(parse_change, changes)))


def _task(text: str, shared: dict[str, str], solved: float | None = None) -> Task:
    typed, *changes = text.split(",")
    env = task_of(typed)
    own = {} if env == typed else {"id": typed}
    own |= dict(parse_change(change) for change in changes)
    return Task(
        name=_file_name(text),
        env=env,
        changes=tuple((shared | own).items()),
        title=text.replace(",", ", "),
        solved=solved,
    )


def _file_name(text: str) -> str:
    """An environment with its changes, in letters that every file system takes."""
    return re.sub(r"[^\w.-]+", "_", text)


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "compare": compare_command,
    "figure": figure_command,
    "figures": figures_command,
    "tune": tune_command,
}
