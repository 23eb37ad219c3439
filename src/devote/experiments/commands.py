"""`devote compare`, `devote figure` and `devote figures`."""

import os
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Literal

import tyro

from devote.build import AGENTS, build_program
from devote.core.errors import UserError
from devote.core.settings import digest, parse_change, require_known
from devote.experiments.calibration_figures import study_figure
from devote.experiments.comparison import Method, Scale, Study, Task, TrainingCell
from devote.experiments.durations import Durations, expected, in_words
from devote.experiments.paper_figures import ABSENT, FIGURES
from devote.experiments.runner import available_cores, run_cells
from devote.experiments.study_report import Figure, figure_of
from devote.loops.signals import exit_code
from devote.names import task_of
from devote.presets import PRESETS
from devote.regression.study import PRESETS as CALIBRATION_PRESETS
from devote.regression.uci import VARIABLE

UNNAMED = ("envs", "preset", "out", "runs", "cores", "keep", "draw_only")
"""What a folder's name says already, or does not depend on."""
LONGEST = 100  # letters of environments in the name of a folder
FLAGS = {
    "seeds": "--seeds",
    "seed": "--first-seed",
    "preset": "--preset",
    "env_name": "--envs",
    "agent_name": "--agents",
}
"""What a comparison decides itself, and where it is told."""
LINE = "{:<33} {:>7} {:>8}  {:<20} {}"
ScaleName = Literal["smoke", "desk", "paper"]


@dataclass(frozen=True)
class Compare:
    """Agents on environments: the same budget and backbone for all, resumable, with intervals."""

    envs: tuple[str, ...]
    """Names, Gymnasium ids or module:MyEnv, with changes after commas: `deep_sea,size=20`."""
    agents: tuple[str, ...] = ("devote", "sac")
    """The first is compared with each of the others; with changes, as in `devote,optimism=1`."""
    seeds: int = 5
    """Seeds of every agent on every environment."""
    first_seed: int = 0
    """The seeds are this one and those after it; by custom those from 100 on are for tuning."""
    preset: str = "desk"
    """Where all settings come from that nothing else says."""
    steps: int | None = None
    """Environment steps of every run; the preset's where not given."""
    set: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """A setting of all runs that have it, `name=value`."""
    metric: str | None = None
    """A column of the metrics; coverage where there is one, else return, where not given."""
    draw_only: bool = False
    """Run nothing; draw whatever there is."""
    keep: bool = False
    """Do not make again what is recorded in the directory of results, though not on this disk."""
    out: Path | None = None
    """Directory of figure and table; named after what is compared where not given."""
    runs: Path = Path("runs")
    """Directory of the runs, which other comparisons and figures share."""
    cores: int | None = None
    """Runs at a time, one core each; every core where not given."""


@dataclass(frozen=True)
class Make:
    """Make one figure or table of the paper: run what is missing, then draw."""

    label: tyro.conf.Positional[str]
    """A label that `devote figures` lists."""
    scale: ScaleName = "desk"
    """smoke: seconds; desk: two cores; paper: the paper's own settings."""
    only: tuple[str, ...] = ()
    """Tasks to run; the figure shows whatever there is."""
    draw_only: bool = False
    """Run nothing."""
    keep: bool = False
    """Do not make again runs that are recorded in the directory of results, though not on this
    disk."""
    out: Path | None = None
    """Where it is written; results/LABEL/SCALE where not given."""
    runs: Path = Path("runs")
    """Directory of the runs, which all figures share."""
    data: Path | None = None
    """Directory of the UCI tables; else $DEVOTE_DATA, else the cache, else a download."""
    cores: int | None = None
    """Runs at a time, one core each; every core where not given."""


@dataclass(frozen=True)
class Listing:
    """What is run, what is missing, and how long it would take."""

    scale: ScaleName = "desk"
    """smoke: seconds; desk: two cores; paper: the paper's own settings."""
    runs: Path = Path("runs")
    """Directory of the runs."""


def compare_command(words: list[str]) -> int:
    """Compare agents; the same command goes on after an interruption."""
    asked = tyro.cli(Compare, args=words, prog="devote compare")
    study, command = study_of(asked), command_of(asked)
    figure = figure_of(study, output_of(asked))
    if asked.draw_only:
        return 0 if _draw(figure, figure.out, command) else 1
    require_buildable(study)
    return make(figure, figure.out, command, asked.runs, cores=asked.cores, keep=asked.keep)


def figure_command(words: list[str]) -> int:
    """Make one figure or table."""
    asked = tyro.cli(Make, args=words, prog="devote figure")
    if asked.label in [absent.label for absent in ABSENT]:
        raise UserError("a figure that the library makes", asked.label, "see: devote figures")
    require_known([asked.label], FIGURES, "figure")
    if asked.data is not None:
        if not asked.data.is_dir():
            raise UserError("a directory of UCI tables", asked.data, "change --data")
        os.environ[VARIABLE] = str(asked.data)  # for the processes that read them
    figure = FIGURES[asked.label](asked.scale, asked.runs)
    out, command = asked.out or figure.out, f"devote figure {asked.label} --scale {asked.scale}"
    if asked.draw_only:
        figure.cells(asked.only)  # refuses unknown names; what there is, is drawn whole
        return 0 if _draw(figure, out, command) else 1
    return make(figure, out, command, asked.runs, asked.only, asked.cores, asked.keep)


def calibration_command() -> None:
    """`python -m devote.regression.study`: the fits of a study as typed, then its table."""
    try:
        study = tyro.extras.overridable_config_cli(CALIBRATION_PRESETS)
        shared = study.out.parent.name == "calibration"  # locks and times, with `devote figure`
        root = study.out.parents[1] if shared else study.out
        sys.exit(make(study_figure(study), study.out, "", root))
    except UserError as error:
        sys.exit(f"devote: {error}")


def figures_command(words: list[str]) -> int:
    """List every figure and table."""
    asked = tyro.cli(Listing, args=words, prog="devote figures")
    durations, cores = Durations.known(asked.runs), len(available_cores())
    print(LINE.format("label", "done", "recorded", "time left", "shows"))
    for label, build in FIGURES.items():
        figure = build(asked.scale, asked.runs)
        outdated = sum(cell.outdated() for cell in figure.cells())
        shows = figure.title + (f"; lacks {', '.join(figure.missing)}" if figure.missing else "")
        shows += f"; {outdated} of other settings" if outdated else ""
        shows += f"; drawn in {figure.out}" if (figure.out / "README.md").is_file() else ""
        print(LINE.format(label, *state(figure, durations, cores), shows))
    for absent in ABSENT:
        left = "-" if absent.where else "not made yet"
        shows = absent.shows + (f" (see {absent.where})" if absent.where else "")
        print(LINE.format(absent.label, "-", "-", left, shows))
    print(
        f"\nscale {asked.scale}; times for {cores} cores, from runs that were measured here or, "
        f"where there are none, elsewhere\nrecorded: in results, not on this disk; made again "
        f"without --keep\nmake one: devote figure LABEL --scale {asked.scale} --keep"
    )
    return 0


def state(figure: Figure, durations: Durations, cores: int) -> tuple[str, str, str]:
    """What is done here, what is recorded elsewhere, and how long the rest takes."""
    cells, recorded = figure.cells(), figure.recorded(figure.out)
    open_cells = [cell for cell in cells if not cell.finished()]
    rest = [cell for cell in open_cells if cell.identity not in recorded]
    seconds, unknown = expected(rest, durations, cores)
    left = in_words(seconds) if rest else "-"
    if unknown:
        left = f"{left} + {unknown} unknown" if unknown < len(rest) else "unknown"
    done = f"{len(cells) - len(open_cells)}/{len(cells)}"
    return done, str(len(recorded) or "-"), left


def make(
    figure: Figure,
    out: Path,
    command: str,
    root: Path,
    only: tuple[str, ...] = (),
    cores: int | None = None,
    keep: bool = False,
) -> int:
    """Run what is missing, draw what there is, and say what failed; the exit code."""
    cells = figure.cells(only)
    if cores is not None and cores < 1:
        raise UserError("at least one core", cores, "raise --cores")
    for place in (root, out):  # now, not after hours of work
        place.mkdir(parents=True, exist_ok=True)
        if not os.access(place, os.W_OK):
            raise UserError("a directory that can be written to", place, "name another place")
    if figure.missing:
        print(f"not in the library yet, left out: {', '.join(figure.missing)}")
    held = figure.recorded(out)
    recorded = [cell for cell in cells if cell.identity in held]
    if keep:
        cells = [cell for cell in cells if cell.identity not in held]
    elif recorded:
        print(
            f"{len(recorded)} runs are recorded in {out} but not on this disk; they are made again "
            "(--keep takes them as they are)"
        )
    outcome = run_cells(cells, root, available_cores()[:cores])
    if outcome.stopped_by is not None:
        left = sum(not cell.finished() for cell in cells)
        print(f"stopped by {outcome.stopped_by}; {left} left; the same command continues")
        return exit_code(outcome.stopped_by)
    _draw(figure, out, command)
    for failure in outcome.failures:
        print(f"failed: {failure.name}: {failure.reason}")
    if outcome.failures:
        print("the same command tries the failed ones again")
    return 1 if outcome.failures else 0


def _draw(figure: Figure, out: Path, command: str) -> bool:
    """Whether there was anything to draw."""
    written = figure.draw(out, command)
    print("".join(f"wrote {path}\n" for path in written) or "nothing is finished yet")
    for readme in [path for path in written if path.name == "README.md"]:
        print("".join(f"{x}\n" for x in readme.read_text().splitlines() if x.startswith("- ")))
    return bool(written)


def study_of(asked: Compare) -> Study:
    """The study, with every setting checked before anything runs."""
    for flag, given in (("--envs", asked.envs), ("--agents", asked.agents)):
        if not given:
            raise UserError(f"at least one name after {flag}", "none", "see: devote compare --help")
    if asked.seeds < 1:
        raise UserError("at least one seed", asked.seeds, "raise --seeds")
    if asked.first_seed < 0:
        raise UserError("a first seed of 0 or more", asked.first_seed, "raise --first-seed")
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
        tasks=tuple(_task(text, shared) for text in dict.fromkeys(asked.envs)),
        methods=methods,
        metric=asked.metric,
        root=asked.runs,
        first_seed=asked.first_seed,
    )
    if study.missing():
        got = ", ".join(study.missing())
        raise UserError(f"tasks that preset {asked.preset} knows", got, "choose another preset")
    _check_runs(study)
    return study


def _check_runs(study: Study) -> None:
    """Refuse settings out of range, methods that are the same runs under two names, and a metric
    that not all will log."""
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
    """Build every method on every task once: what cannot be built is told now, not by each run."""
    for task in study.tasks:
        for method in study.methods:
            cell = TrainingCell(study.run(task, method, study.seeds(task)[0]), study.root)
            if not cell.finished():
                build_program(cell.run).close()


def output_of(asked: Compare) -> Path:
    """Where figure and table go: another folder for every other comparison."""
    if asked.out is not None:
        return asked.out
    names = "+".join(_file_name(text) for text in asked.envs)
    chosen = {
        entry.name: getattr(asked, entry.name)
        for entry in fields(Compare)
        if entry.name not in UNNAMED and getattr(asked, entry.name) != entry.default
    }
    if len(names) > LONGEST:
        chosen, names = chosen | {"envs": asked.envs}, names[:LONGEST]
    ending = f"-{digest(chosen)[:6]}" if chosen else ""
    return Path("results/compare") / f"{names}-{asked.preset}{ending}"


def command_of(asked: Compare) -> str:
    """The same comparison as a command, without directories of this machine."""
    words = ["devote", "compare", "--envs", *asked.envs, "--agents", *asked.agents]
    words += ["--seeds", str(asked.seeds), "--preset", asked.preset]
    words += [] if asked.first_seed == 0 else ["--first-seed", str(asked.first_seed)]
    words += [] if asked.steps is None else ["--steps", str(asked.steps)]
    words += [word for text in asked.set for word in ("--set", text)]
    words += [] if asked.metric is None else ["--metric", asked.metric]
    return shlex.join(words)


def _method(text: str) -> Method:
    agent, *changes = text.split(",")
    require_known([agent], AGENTS, "agent")
    return Method(text.replace(",", " "), agent, tuple(map(parse_change, changes)))


def _task(text: str, shared: dict[str, str]) -> Task:
    typed, *changes = text.split(",")
    env = task_of(typed)
    own = {} if env == typed else {"id": typed}
    own |= dict(parse_change(change) for change in changes)
    return Task(
        name=_file_name(text),
        env=env,
        changes=tuple((shared | own).items()),
        title=text.replace(",", ", "),
    )


def _file_name(text: str) -> str:
    """An environment with its changes, in letters that every file system takes."""
    return re.sub(r"[^\w.-]+", "_", text)


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "compare": compare_command,
    "figure": figure_command,
    "figures": figures_command,
}
