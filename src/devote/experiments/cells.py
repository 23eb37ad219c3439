"""Work that is done once, whoever is killed meanwhile: what a cell is, how one that is finished is
recorded, and a training run as a cell."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import date
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from devote.build import build_program, plan
from devote.core.durable import atomic_write_text
from devote.core.errors import UserError
from devote.core.settings import differences, identity
from devote.envs.brax import BraxSettings, PlaygroundSettings
from devote.envs.gymnasium import GymnasiumSettings
from devote.loops.metrics_log import last_step, read
from devote.loops.run_dir import METRICS, SETTINGS, read_settings
from devote.presets import PRESETS
from devote.run import Run

TIMED = {"kinds", "size", "seconds"}
"""What every record has, whatever its cell describes."""
UNHASHED = ("steps",)
"""A longer run is the shorter one gone on with, so both are the same cell."""


class Cell(Protocol):
    """What the runner needs to know of a piece of work; it travels to a process of its own."""

    @property
    def name(self) -> str:
        """What a person reads."""

    @property
    def identity(self) -> str:
        """The same for the same work, in every process; fit for a file name."""

    @property
    def record(self) -> Path:
        """Where it is written down how and when the work was done."""

    @property
    def needs(self) -> Sequence["Cell"]:
        """Cells that must be finished before."""

    @property
    def kinds(self) -> Sequence[str]:
        """Groups of cells that take about as long per unit of work, the closest first."""

    @property
    def size(self) -> float:
        """Units of work."""

    def finished(self) -> bool:
        """Whether the result is there."""

    def outdated(self) -> bool:
        """Whether a result of other settings is in the place of this one."""

    def make(self) -> bool:
        """Do the work, or go on with it; False when a signal stopped it before the end."""

    def progress(self) -> float:
        """The share of the work that is on disk, from 0 to 1."""

    def seconds(self) -> float | None:
        """How long a finished cell took in all processes that worked on it; None where that is not
        kept, and the last one's time counts."""

    def describe(self) -> Mapping[str, Any]:
        """Command, preset, seeds and settings, for the record."""


def machine() -> str:
    """Processor and cores; nothing that names the computer or its owner."""
    processor = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                processor = line.split(":", 1)[1].strip()
                break
    return f"{processor}, {os.cpu_count()} cores"


def write_record(cell: Cell, seconds: float, finished: date | None = None) -> None:
    """Note that a cell is finished, in one step; on another day only what was made before."""
    counted = cell.seconds()
    content = {
        "name": cell.name,
        "identity": cell.identity,
        "kinds": list(cell.kinds),
        "size": cell.size,
        "seconds": round(seconds if counted is None else counted, 1),
        "finished": (finished or date.today()).isoformat(),
        "machine": machine() if finished is None else "unknown",
        "versions": {name: version(name) for name in ("devote", "jax", "numpy")},
        **cell.describe(),
    }
    cell.record.parent.mkdir(parents=True, exist_ok=True)
    atomic_write_text(cell.record, json.dumps(content, indent=1) + "\n")


def read_record(path: Path) -> dict[str, Any] | None:
    """What `write_record` wrote, if it is there."""
    if not path.is_file():
        return None
    fix = "delete the file to do the work again"
    try:
        content = json.loads(path.read_text())
    except ValueError as error:
        raise UserError(f"JSON in {path}", error, fix) from error
    if not (isinstance(content, dict) and content.keys() >= TIMED):
        raise UserError(f"a record with {', '.join(sorted(TIMED))} in {path}", "none", fix)
    return content


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
