"""All that these tests use of the library: when a module moves, this file alone is edited."""

from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from safetensors.numpy import load_file

from devote import Devote
from devote.cli import dispatch
from devote.experiments.catalogue import FIGURES
from devote.experiments.training import TrainingCell, command
from devote.loops.program import FusedProgram
from devote.loops.train import train as train_plan
from devote.presets import PRESETS
from devote.registry import AGENTS, TASKS
from devote.regression.plan import PRESETS as FITS
from devote.regression.plan import identity as fit_identity
from devote.regression.study import run as run_study
from devote.words import parse_train

SCALES = ("smoke", "desk", "paper")
PRESET_NAMES, TASK_NAMES, AGENT_NAMES = tuple(PRESETS), tuple(TASKS), tuple(AGENTS)


def typed(words: list[str]) -> Any:
    """The run that follows `devote train`."""
    return parse_train(words)[0]


def cell_of(words: list[str]) -> TrainingCell:
    """The same as a cell of a study, with `identity`, `record` and `run`."""
    bare, told = _without(words, "--seed", "--steps")
    run = replace(_typed(tuple(bare)), **{name: int(value) for name, value in told.items()})
    return TrainingCell(run)


def command_of(cell: TrainingCell) -> str:
    """What one would type for a cell today."""
    return command(cell.run)


def preset_cell(preset: str, task: str, agent: str) -> TrainingCell | None:
    """A task as a preset has it; None where the preset does not know the task."""
    try:
        return TrainingCell(PRESETS[preset](task, agent))
    except KeyError:
        return None


def fit_of(words: list[str]) -> str:
    """Identity of the fit that `python -m devote.regression.study ...` computes alone."""
    bare, told = _without(words, "--datasets", "--models")
    study = _typed_study(tuple(bare))
    return f"{study.out.name}-{fit_identity(study, told['datasets'], told['models'])}"


def figure_cells() -> Iterator[tuple[str, str, Any]]:
    """Label, scale and every cell of every figure, with all that it needs."""
    for label, build in FIGURES.items():
        for scale in SCALES:
            for cell in build(scale, Path("runs")).cells():
                for one in (*cell.needs, cell):
                    yield label, scale, one


def plan(words: list[str], directory: Path) -> Any:
    """The run that follows `devote train`, in a directory and ready for `train`."""
    return typed(words).plan(directory)


def train(planned: Any) -> None:
    """Begin a run, or go on with it."""
    train_plan(planned, silent=True)


def can_go_on(planned: Any) -> bool:
    """Whether a plan is good for a second `train`: environments on the host are closed."""
    return isinstance(planned.program, FusedProgram)


def train_and_draw(words: list[str], directory: Path) -> None:
    """All that `devote train` does."""
    with redirect_stdout(StringIO()):
        assert dispatch(["train", *words, "--out", str(directory)]) == 0


def learn(task: str, steps: int, directory: Path, **settings: Any) -> Devote:
    """The same from Python, for DEVOTE on the smoke preset."""
    return Devote(task, preset="smoke", directory=directory, **settings).learn(
        steps, progress_bar=False
    )


def load(folder: Path) -> Devote:
    """A saved model."""
    return Devote.load(folder)


def fit_all(out: Path) -> None:
    """Every fit of the smallest study of calibration, and its table."""
    with redirect_stdout(StringIO()):
        run_study(replace(FITS["smoke"][1], out=out))


def tensors(checkpoint: Path) -> dict[str, np.ndarray]:
    """The arrays of a checkpoint by name."""
    return load_file(checkpoint / "state.safetensors")


def _without(words: list[str], *flags: str) -> tuple[list[str], dict[str, str]]:
    """Words without some flags, and the values of these: to read typed words takes long."""
    rest, told = list(words), {}
    for flag in flags:
        if flag in rest:
            place = rest.index(flag)
            told[flag.removeprefix("--")] = rest[place + 1]
            del rest[place : place + 2]
    return rest, told


@cache
def _typed(words: tuple[str, ...]) -> Any:
    return typed(list(words))


@cache
def _typed_study(words: tuple[str, ...]) -> Any:
    return tyro.extras.overridable_config_cli(FITS, args=list(words))
