"""A study compares agents on tasks with the same budget; a training run as a cell."""

from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from itertools import count, product
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import numpy as np

from devote.build import AGENTS, TASKS, build_program, plan
from devote.core.errors import UserError
from devote.core.settings import differences, flag, flat, identity, require_known, with_texts
from devote.envs.brax import BraxSettings, PlaygroundSettings
from devote.envs.gymnasium import GymnasiumSettings
from devote.experiments.cells import read_record
from devote.loops.metrics_log import last_step, read, seal_of
from devote.loops.run_dir import MAY_CHANGE, METRICS, SETTINGS, read_settings
from devote.presets import PRESETS
from devote.run import Run

UNHASHED = MAY_CHANGE
"""The number of steps is no part of the identity: a longer run continues the shorter one."""
SHARED = ("env_name", "agent_name", "preset", "seed", "seeds")
"""Settings that the study decides, not its tasks or methods."""
SEAL = {"logged": int | None, "seal": str | None}
"""Fields of a record about the metrics; old records have none."""
Key = tuple[str, str, int]
"""Task, method and seed."""


@dataclass(frozen=True)
class TrainingCell:
    """A training run of one seed, in a directory named after its settings."""

    run: Run
    root: Path = Path("runs")
    needs: ClassVar[tuple[()]] = ()

    @property
    def identity(self) -> str:
        """Hash of all settings except the number of steps."""
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
    def kinds(self) -> tuple[str, ...]:
        """Runs that differ in the seed alone; then in changes; then in the task."""
        run = self.run
        like = (self._kind, f"{run.env_name} {run.agent_name}", run.agent_name)
        return tuple(dict.fromkeys(f"{kind} {run.preset}" for kind in like))

    @property
    def size(self) -> float:
        """Thousands of gradient updates."""
        return self.run.steps * self.run.loop.updates_per_step / 1000

    def recorded(self) -> dict[str, Any] | None:
        """The record of the run, None where it is not finished."""
        return read_record(self.record, steps=int, settings=dict, command=str, **SEAL)

    def finished(self) -> bool:
        """Whether these settings were run for at least this many steps."""
        record = self.recorded()
        if record is None or record["steps"] < self.run.steps:
            return False
        return not differences(record["settings"], self.run, UNHASHED)

    def outdated(self) -> bool:
        """Whether the directory holds a run with other settings, from before a default changed."""
        path = self.folder / SETTINGS
        return path.is_file() and bool(differences(read_settings(path), self.run, UNHASHED))

    def make(self) -> bool:
        """Train from the newest checkpoint, then draw the maps."""
        from devote.core.durable import use_compilation_cache
        from devote.loops.train import train
        from devote.names import task_of
        from devote.run_report import draw_run

        if isinstance(self.run.env, GymnasiumSettings):
            task_of(self.run.env.id)  # a process of its own has to import module:name anew
        if self.outdated():
            names = (f"{self.folder.name}.outdated{number}" for number in count())
            free = next(n for n in names if not self.folder.with_name(n).exists())
            self.folder.rename(self.folder.with_name(free))
        use_compilation_cache()
        result = train(plan(self.run, self.folder))
        if result.stopped_by is None:
            draw_run(result, self.folder, f"{self.name} {self.run.preset}")
        return result.stopped_by is None

    def progress(self) -> float:
        """Share of the steps that is logged."""
        path = self.folder / METRICS
        return min(1.0, last_step(path) / self.run.steps) if path.is_file() else 0.0

    def seconds(self) -> float | None:
        """Time in all processes of the run, compilation included."""
        return float(self.metrics()["time/time_elapsed"][-1])

    def metrics(self) -> dict[str, np.ndarray]:
        """Logged metrics up to the number of steps; empty where there are none."""
        path = self.folder / METRICS
        if not path.is_file():
            return {}
        table = read(path)
        if (np.diff(table["step"]) <= 0).any():
            self._refuse("rows that are not in the order of their steps")
        reached = np.flatnonzero(table["step"] >= self.run.steps)
        end = int(reached[0]) + 1 if len(reached) else len(table["step"])
        return {name: column[:end] for name, column in table.items()}

    def whole_metrics(self) -> dict[str, np.ndarray]:
        """The metrics of a finished run; refused where rows are missing or not its own."""
        table, record = self.metrics(), self.recorded() or {}
        steps, seal = table.get("step", np.zeros(0)), record.get("seal")
        if not len(steps) or steps[-1] < self.run.steps:
            self._refuse(f"rows up to step {max(steps, default=0):.0f} only")
        if set(table.get("seed", ())) - {self.run.seed}:
            self._refuse("rows of another seed")
        if seal is not None and seal != seal_of(self.folder / METRICS, record["logged"]):
            self._refuse("rows that were changed since")
        return table

    def _refuse(self, got: str) -> NoReturn:
        fix = f"restore it, or delete {self.folder} to run it again"
        raise UserError(f"the metrics of the run in {self.folder / METRICS}", got, fix)

    def columns(self) -> tuple[str, ...]:
        """Names of the metrics that the run logs or will log, without running it."""
        from devote.loops.train import columns_of

        logged = self.metrics()
        if logged:
            return tuple(logged)
        with closing(build_program(self.run)) as program:
            return columns_of(program, program.shape())

    def describe(self) -> Mapping[str, Any]:
        """Command, settings and the seal of the metrics."""
        path = self.folder / METRICS
        logged = int(last_step(path)) if path.is_file() else 0
        return {
            "command": command(self.run),
            "preset": self.run.preset,
            "seeds": [self.run.seed],
            "steps": self.run.steps,
            "settings": asdict(self.run),
        } | ({"logged": logged, "seal": seal_of(path, logged)} if logged else {})

    @property
    def method(self) -> str:
        """The agent, and what is changed for it."""
        told = [f"{name}={value}" for name, value in typed(self.run)[1].items()]
        return " ".join([*told, self.run.agent_name])

    @property
    def _kind(self) -> str:
        return f"{typed(self.run)[0]} {self.method}"


def changes_of(run: Run) -> dict[str, Any]:
    """Settings that differ from the preset, except seed and budget."""
    preset = PRESETS[run.preset](run.env_name, run.agent_name)
    base = replace(preset, seed=run.seed, seeds=run.seeds, steps=run.steps)
    return {name: value for name, (value, _) in run.difference(base).items()}


def typed(run: Run) -> tuple[str, dict[str, Any]]:
    """The task as it is typed, and the settings to give with it."""
    changes = changes_of(run)
    if isinstance(run.env, GymnasiumSettings):
        return run.env.id, {name: value for name, value in changes.items() if name != "id"}
    if isinstance(run.env, BraxSettings | PlaygroundSettings):
        changes = {"id": run.env.id} | changes
    return run.env_name, changes


def command(run: Run) -> str:
    """The command that runs it alone."""
    task, changes = typed(run)
    words = ["devote", "train", task, "--agent", run.agent_name, "--preset", run.preset]
    words += ["--seed", str(run.seed), "--steps", str(run.steps)]
    for name, value in changes.items():
        if isinstance(value, bool):
            words.append(flag(name if value else f"no_{name}"))
        else:
            words += [flag(name), *map(str, value if isinstance(value, tuple) else [value])]
    return " ".join(words)


@dataclass(frozen=True)
class Scale:
    """How large a study is: its preset and number of seeds."""

    name: str
    preset: str
    seeds: int

    def run(self, env: str, agent: str) -> Run:
        """The settings of this scale."""
        return PRESETS[self.preset](env, agent)


SCALES = {
    "smoke": Scale("smoke", "smoke", 2),
    "desk": Scale("desk", "desk", 5),
    "long": Scale("long", "desk", 5),  # the paper's steps and soft resets on desk's networks
    "paper": Scale("paper", "paper", 5),
}


@dataclass(frozen=True)
class Task:
    """An environment with some settings changed, under its own name."""

    name: str
    env: str
    changes: tuple[tuple[str, str], ...] = ()
    steps: tuple[tuple[str, int], ...] = ()  # steps by scale, where not the preset's
    seeds: int | None = None  # fewer seeds than the scale has, for long runs
    first_seed: int | None = None
    """Its first seed, where not the study's: settings tuned on some seeds need others."""
    title: str = ""  # its name in figures
    solved: float | None = None  # the return from which on a run has solved it
    bonus: float | None = None  # the reward for success, by which returns are normalised


@dataclass(frozen=True)
class Method:
    """An agent with settings of its own, under a name."""

    name: str
    agent: str
    changes: tuple[tuple[str, str], ...] = ()
    tuned: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    """Settings found by trials, by task."""

    def on(self, task: "Task") -> dict[str, str]:
        """Its settings on a task."""
        return dict(self.changes) | dict(dict(self.tuned).get(task.name, ()))


def by_name(*agents: str) -> tuple[Method, ...]:
    """Agents with the settings of the preset."""
    return tuple(Method(agent, agent) for agent in agents)


@dataclass(frozen=True)
class Study:
    """A comparison of methods on tasks."""

    label: str
    title: str
    scale: Scale
    tasks: tuple[Task, ...]
    methods: tuple[Method, ...]
    metric: str | None = None
    """A column of the metrics; coverage where the task has it, else return, when not given."""
    beside: tuple[str, ...] = ()  # further metrics with panels of their own
    cell: type[TrainingCell] = TrainingCell  # the kind of cell of its runs
    root: Path = Path("runs")
    first_seed: int = 0

    def __post_init__(self) -> None:
        for kind, parts in (("task", self.tasks), ("method", self.methods)):
            for name, number in Counter(part.name for part in parts).items():
                if number > 1:
                    expected = f"{kind}s with names of their own in {self.label}"
                    raise UserError(expected, f"{name} twice", "leave one out or rename it")

    def missing(self) -> tuple[str, ...]:
        """Tasks and agents that do not exist, or not at this scale."""
        tasks = [f"task {task.env}" for task in self.tasks if not self._has_task(task.env)]
        agents = [f"agent {m.agent}" for m in self.methods if m.agent not in AGENTS]
        return tuple(dict.fromkeys(tasks + agents))

    def names(self) -> tuple[str, ...]:
        """Names of the methods."""
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
        changes = method.on(task)
        _require_own(method.agent, changes, run)
        # a setting that only some methods have changes those
        shared = {name: text for name, text in task.changes if name in _settable(run)}
        require_known(changes, _settable(run))
        return with_texts(run, shared | changes)

    def runs(self) -> dict[Key, TrainingCell]:
        """All runs of known tasks and agents, by task, method and seed."""
        methods = [method for method in self.methods if method.agent in AGENTS]
        found = {}
        for task in self.tasks:
            if self._has_task(task.env):
                self._check_changes(task, methods)
                for seed, method in product(self.seeds(task), methods):  # all methods grow
                    cell = self.cell(self.run(task, method, seed), self.root)
                    found[task.name, method.name, seed] = cell
        return found

    def parts(self) -> dict[str, list[TrainingCell]]:
        """The runs by task."""
        found: dict[str, list[TrainingCell]] = {}
        for (task, _, _), cell in self.runs().items():
            found.setdefault(task, []).append(cell)
        return found

    def _check_changes(self, task: Task, methods: list[Method]) -> None:
        """Refuse changes of unknown settings, and of settings in which the methods differ."""
        presets = {method.name: flat(self.scale.run(task.env, method.agent)) for method in methods}
        known = dict.fromkeys(name for preset in presets.values() for name in preset)
        require_known([name for name, _ in task.changes], [n for n in known if n not in SHARED])
        for name, _ in task.changes:
            values = {method: preset[name] for method, preset in presets.items() if name in preset}
            first, *others = values
            for method in others:
                mine, theirs = values[first], values[method]
                if mine != theirs:
                    what = f"a setting that is the same for {first} and {method}"
                    got = f"{name}, which is {mine} for {first} and {theirs} for {method}"
                    fix = f"set it for one agent: {first},{name}=..."
                    raise UserError(f"{what} before a change for all", got, fix)

    def _has_task(self, env: str) -> bool:
        if env not in TASKS:
            return False
        try:
            self.scale.run(env, "sac")
        except KeyError:  # not every preset knows every task
            return False
        return True


def _require_own(agent: str, changes: Mapping[str, str], run: Run) -> None:
    own, expected = flat(run.agent), f"a setting of {agent} itself"
    for name in [name for name in changes if name not in own]:
        if name in flat(run):
            fix = "task, schedule and budget are the same for all methods; set it for all"
            raise UserError(expected, name, fix)
        require_known([name], own, f"setting of {agent}")


def _settable(run: Run) -> list[str]:
    """Names of the settings that a study may change."""
    return [name for name in flat(run) if name not in SHARED]
