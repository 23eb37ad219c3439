"""Agents compared on tasks at a scale, each method with the same budget; and a training run as a
cell."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from devote.build import AGENTS, TASKS, build_program, plan
from devote.core.errors import UserError
from devote.core.settings import differences, flat, identity, require_known, with_texts
from devote.envs.brax import BraxSettings, PlaygroundSettings
from devote.envs.gymnasium import GymnasiumSettings
from devote.experiments.cells import read_record
from devote.loops.metrics_log import last_step, read
from devote.loops.run_dir import METRICS, SETTINGS, read_settings
from devote.presets import PRESETS
from devote.run import Run

UNHASHED = ("steps",)
"""A longer run is the shorter one gone on with, so both are the same cell."""
SHARED = ("env_name", "agent_name", "preset", "seed", "seeds")
"""Settings that a study decides itself."""
Key = tuple[str, str, int]
"""Task, method and seed."""


@dataclass(frozen=True)
class TrainingCell:
    """One seed of one agent on one task, in a directory named after its settings."""

    run: Run
    root: Path = Path("runs")

    @property
    def identity(self) -> str:
        """Hash of all settings but the number of steps."""
        return identity(self.run, UNHASHED)

    @property
    def folder(self) -> Path:
        """The run directory."""
        run = self.run
        name = f"{run.env_name}-{run.agent_name}-{run.preset}-seed{run.seed}-{self.identity}"
        return self.root / "cells" / name

    @property
    def record(self) -> Path:
        """Beside the run's metrics."""
        return self.folder / "record.json"

    @property
    def name(self) -> str:
        """Task, changes, agent and seed."""
        return f"{self._kind} seed {self.run.seed}"

    @property
    def needs(self) -> tuple[()]:
        """Nothing: runs do not wait for each other."""
        return ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """Runs that differ in their seed; then those with other changes; then other tasks."""
        run = self.run
        whole = f"{self._kind} {run.preset}"
        task = f"{run.env_name} {run.agent_name} {run.preset}"
        return tuple(dict.fromkeys((whole, task, f"{run.agent_name} {run.preset}")))

    @property
    def size(self) -> float:
        """Thousands of gradient updates, which take most of the time."""
        return self.run.steps * self.run.loop.updates_per_step / 1000

    def finished(self) -> bool:
        """Whether these settings were run for at least so many steps."""
        record = read_record(self.record)
        if record is None or record["steps"] < self.run.steps:
            return False
        return not differences(record["settings"], self.run, UNHASHED)

    def outdated(self) -> bool:
        """Whether a run from before a default was changed is in this one's directory."""
        path = self.folder / SETTINGS
        return path.is_file() and bool(differences(read_settings(path), self.run, UNHASHED))

    def make(self) -> bool:
        """Train from the newest checkpoint on, then draw the maps."""
        from devote.core.cache import use_compilation_cache
        from devote.loops.train import train
        from devote.names import task_of
        from devote.run_report import draw_run

        if isinstance(self.run.env, GymnasiumSettings):
            task_of(self.run.env.id)  # a process of its own has to import module:name anew
        if self.outdated():
            self.folder.rename(free_name(self.folder))
        use_compilation_cache()
        result = train(plan(self.run, self.folder))
        if result.stopped_by is None:
            draw_run(result, self.folder, f"{self.name} {self.run.preset}")
        return result.stopped_by is None

    def progress(self) -> float:
        """Share of the steps that are logged."""
        path = self.folder / METRICS
        return min(1.0, last_step(path) / self.run.steps) if path.is_file() else 0.0

    def seconds(self) -> float | None:
        """Time of all processes that worked on it, compilation included."""
        return float(self.metrics()["time/time_elapsed"][-1])

    def metrics(self) -> dict[str, np.ndarray]:
        """What the run has logged up to its number of steps; empty before its first line."""
        path = self.folder / METRICS
        if not path.is_file():
            return {}
        table = read(path)
        reached = np.flatnonzero(table["step"] >= self.run.steps)
        end = int(reached[0]) + 1 if len(reached) else len(table["step"])
        return {name: column[:end] for name, column in table.items()}

    def columns(self) -> tuple[str, ...]:
        """What the run logs, or will log; nothing is run for that."""
        from devote.loops.train import columns_of

        logged = self.metrics()
        if logged:
            return tuple(logged)
        with closing(build_program(self.run)) as program:
            return columns_of(program, program.shape())

    def describe(self) -> Mapping[str, Any]:
        """Enough to do it again."""
        return {
            "command": command(self.run),
            "preset": self.run.preset,
            "seeds": [self.run.seed],
            "steps": self.run.steps,
            "settings": asdict(self.run),
        }

    @property
    def _kind(self) -> str:
        task, changes = typed(self.run)
        told = [f"{name}={value}" for name, value in changes.items()]
        return " ".join([task, *told, self.run.agent_name])


def free_name(folder: Path) -> Path:
    """Where an outdated run is kept: the directory's name and the first number that is free."""
    names = (folder.with_name(f"{folder.name}.outdated{number}") for number in count())
    return next(name for name in names if not name.exists())


def changes_of(run: Run) -> dict[str, Any]:
    """Settings that are not the preset's, without seed and budget."""
    base = replace(
        PRESETS[run.preset](run.env_name, run.agent_name),
        seed=run.seed,
        seeds=run.seeds,
        steps=run.steps,
    )
    return {name: value for name, (value, _) in run.difference(base).items()}


def typed(run: Run) -> tuple[str, dict[str, Any]]:
    """The task as one types it, and the settings to be told beside it."""
    changes = changes_of(run)
    if isinstance(run.env, GymnasiumSettings):
        return run.env.id, {name: value for name, value in changes.items() if name != "id"}
    if isinstance(run.env, BraxSettings | PlaygroundSettings):
        changes = {"id": run.env.id} | changes
    return run.env_name, changes


def command(run: Run) -> str:
    """What one types to run it alone."""
    task, changes = typed(run)
    words = ["devote", "train", task, "--agent", run.agent_name, "--preset", run.preset]
    words += ["--seed", str(run.seed), "--steps", str(run.steps)]
    for name, value in changes.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            words.append(flag if value else flag.replace("--", "--no-", 1))
        else:
            words += [flag, *map(str, value if isinstance(value, tuple) else [value])]
    return " ".join(words)


@dataclass(frozen=True)
class Scale:
    """How big a study is: settings by preset, and how many seeds."""

    name: str
    preset: str
    seeds: int

    def run(self, env: str, agent: str) -> Run:
        """The settings of this scale."""
        return PRESETS[self.preset](env, agent)


SCALES = {
    "smoke": Scale("smoke", "smoke", 2),
    "desk": Scale("desk", "desk", 5),
    "paper": Scale("paper", "paper", 5),
}


@dataclass(frozen=True)
class Task:
    """An environment with some settings changed, under a name of its own."""

    name: str
    env: str
    changes: tuple[tuple[str, str], ...] = ()
    steps: tuple[tuple[str, int], ...] = ()
    """Budgets by scale, where they are not the preset's."""
    seeds: int | None = None
    """Fewer seeds than the scale's, where a run is long."""
    first_seed: int | None = None
    """The first of its seeds, where not the study's: settings tuned on some seeds need others."""
    title: str = ""
    """What figures call it, where not the name."""


@dataclass(frozen=True)
class Method:
    """An agent under a name, perhaps with settings of its own."""

    name: str
    agent: str
    changes: tuple[tuple[str, str], ...] = ()


def by_name(*agents: str) -> tuple[Method, ...]:
    """Agents as the presets have them."""
    return tuple(Method(agent, agent) for agent in agents)


@dataclass(frozen=True)
class Study:
    """A comparison, as a value."""

    label: str
    title: str
    scale: Scale
    tasks: tuple[Task, ...]
    methods: tuple[Method, ...]
    metric: str | None = None
    """A column of the metrics; coverage where the task has it, else return, when not given."""
    root: Path = Path("runs")
    first_seed: int = 0

    def __post_init__(self) -> None:
        for kind, parts in (("task", self.tasks), ("method", self.methods)):
            names = [part.name for part in parts]
            for name in names:
                if names.count(name) > 1:
                    expected = f"{kind}s with names of their own in {self.label}"
                    raise UserError(expected, f"{name} twice", "leave one out or rename it")

    def missing(self) -> tuple[str, ...]:
        """Tasks and agents that the library does not have, or not at this scale."""
        tasks = [f"task {task.env}" for task in self.tasks if not self._has_task(task.env)]
        agents = [f"agent {m.agent}" for m in self.methods if m.agent not in AGENTS]
        return tuple(dict.fromkeys(tasks + agents))

    def names(self) -> tuple[str, ...]:
        """The methods by name."""
        return tuple(method.name for method in self.methods)

    def seeds(self, task: Task) -> range:
        """Seeds of a task; seeds from 100 on are for tuning."""
        first = self.first_seed if task.first_seed is None else task.first_seed
        seeds = self.scale.seeds if task.seeds is None else min(task.seeds, self.scale.seeds)
        return range(first, first + seeds)

    def run(self, task: Task, method: Method, seed: int) -> Run:
        """One run of the study."""
        run = self.scale.run(task.env, method.agent)
        run = replace(run, steps=dict(task.steps).get(self.scale.name, run.steps), seed=seed)
        _require_own(method, run)
        # a setting that only some methods have changes those
        shared = {name: text for name, text in task.changes if name in _settable(run)}
        require_known(dict(method.changes), _settable(run))
        return with_texts(run, shared | dict(method.changes))

    def runs(self) -> dict[Key, TrainingCell]:
        """All runs that the library can do, by task, method and seed."""
        methods = [method for method in self.methods if method.agent in AGENTS]
        found = {}
        for task in self.tasks:
            if self._has_task(task.env):
                self._check_changes(task, methods)
                for seed in self.seeds(task):  # outside, so that all methods grow
                    for method in methods:
                        cell = TrainingCell(self.run(task, method, seed), self.root)
                        found[task.name, method.name, seed] = cell
        return found

    def parts(self) -> dict[str, list[TrainingCell]]:
        """The runs by task."""
        found: dict[str, list[TrainingCell]] = {}
        for (task, _, _), cell in self.runs().items():
            found.setdefault(task, []).append(cell)
        return found

    def _check_changes(self, task: Task, methods: list[Method]) -> None:
        """Refuse changes that no method knows, or one value for all where a method is what it is by
        having another one."""
        presets = {method.name: flat(self.scale.run(task.env, method.agent)) for method in methods}
        known = dict.fromkeys(name for preset in presets.values() for name in preset)
        require_known([name for name, _ in task.changes], [n for n in known if n not in SHARED])
        for name, _ in task.changes:
            values = {method: preset[name] for method, preset in presets.items() if name in preset}
            first, *others = values
            for method in others:
                if values[method] != values[first]:
                    raise UserError(
                        f"a setting that is the same for {first} and {method} before a change for "
                        "all",
                        f"{name}, which is {values[first]} for {first} and {values[method]} for "
                        f"{method}",
                        f"set it for one agent: {first},{name}=...",
                    )

    def _has_task(self, env: str) -> bool:
        if env not in TASKS:
            return False
        try:
            self.scale.run(env, "sac")
        except KeyError:  # not every preset knows every task
            return False
        return True


def _require_own(method: Method, run: Run) -> None:
    own, expected = flat(run.agent), f"a setting of {method.agent} itself"
    for name, _ in method.changes:
        if name in own:
            continue
        if name in flat(run):
            fix = "task, schedule and budget are the same for all methods; set it for all"
            raise UserError(expected, name, fix)
        require_known([name], own, f"setting of {method.agent}")


def _settable(run: Run) -> list[str]:
    """Names of all settings of a run that a study may change."""
    return [name for name in flat(run) if name not in SHARED]
