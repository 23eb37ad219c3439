"""Agents compared on tasks at a scale: the runs that follow, each method with the same budget."""

from dataclasses import dataclass, replace
from pathlib import Path

from devote.build import AGENTS, TASKS
from devote.core.errors import UserError
from devote.core.settings import flat, require_known, with_texts
from devote.experiments.cells import TrainingCell
from devote.presets import PRESETS
from devote.run import Run

SHARED = ("env_name", "agent_name", "preset", "seed", "seeds")
"""Settings that a study decides itself."""
Key = tuple[str, str, int]
"""Task, method and seed."""


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
