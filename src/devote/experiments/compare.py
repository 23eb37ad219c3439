"""A comparison as typed: environments, agents, seeds and changes."""

import re
import shlex
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import tyro

from devote.build import AGENTS, TASKS, build_program
from devote.cli import task_of
from devote.core.errors import UserError
from devote.core.settings import digest, parse_change, require_known
from devote.experiments.study import Method, Scale, Study, Task
from devote.experiments.training import TrainingCell
from devote.presets import PRESETS

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
    for cell in study.runs().values():
        cell.run.check()
        cell.run.check_steps()
    _require_different(study)
    if asked.metric is not None:
        _require_metric(study, asked.metric)
    return study


def require_buildable(study: Study) -> None:
    """Build every method on every task once: what cannot be built is told now, not by each run."""
    for task in study.tasks:
        for method in study.methods:
            cell = TrainingCell(study.run(task, method, study.seeds(task)[0]), study.root)
            if not cell.finished():
                build_program(cell.run).close()


def _require_different(study: Study) -> None:
    """Refuse methods that are the same runs under two names."""
    known: dict[tuple[str, ...], str] = {}
    runs = study.runs()
    for method in study.names():
        mine = tuple(cell.identity for key, cell in runs.items() if key[1] == method)
        if mine in known:
            got = f"{method}, the same runs as {known[mine]}"
            raise UserError("methods that differ", got, "leave one out or change a setting")
        known[mine] = method


def _require_metric(study: Study, metric: str) -> None:
    """Refuse a metric that not all will log: every method once, and every task once."""
    first, *others = study.parts().values()
    for cell in [*first[: len(study.methods)], *(part[0] for part in others)]:
        require_known([metric], cell.columns(), f"metric of {cell.name}")


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
    env = task_of(typed, list(TASKS))
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
