"""The calibration study as a value: which cells, how they are computed, where they go."""

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from devote.core.errors import UserError
from devote.regression import tasks, uci
from devote.regression.scores import AUTO, LENGTHS, REFERENCE
from devote.regression.table import TABLE_MODELS
from devote.regression.tasks import AUTHORS, ENSEMBLE, GP, Variant
from devote.regression.training import Training

SIZES = tuple(f"mlp-{width}x{depth}" for depth in (1, 2) for width in (50, 100, 200, 400))
EVERY = (*uci.TABLES, GP)
FAST = ("concrete", "energy", "wine", "yacht", GP)
MEAN = "mean"
"""The cell that every other cell of a dataset reads."""
ENSEMBLE_ONLY = "variant.ensemble_loss"
"""No other model depends on it."""
ROOT = Path("runs/calibration")


@dataclass(frozen=True)
class Study:
    """Which cells to compute, how, and where they go."""

    preset: str = "paper"
    out: Path = ROOT / "paper"
    data: Path | None = None
    """Directory of the UCI tables; else DEVOTE_DATA, else the cache, else a download."""
    datasets: tuple[str, ...] = ()
    """All of `scope` where empty."""
    models: tuple[str, ...] = ()
    """All of `rows` where empty."""
    scope: Literal["whole", "fast"] = "whole"
    rows: Literal["table", "ablations"] = "table"
    splits: int = 10  # paper
    members: int = 10  # paper
    variant: Variant = field(default_factory=Variant)
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        if self.splits < 1 or self.members < 2:
            got = f"{self.splits} and {self.members}"
            raise UserError("at least 1 split and 2 members", got, "raise them")

    def chosen_datasets(self) -> tuple[str, ...]:
        """Named or implied datasets, refused where unknown."""
        chosen = self.datasets or (EVERY if self.scope == "whole" else FAST)
        unknown = sorted(set(chosen) - set(EVERY))
        if unknown:
            raise UserError(f"datasets among {', '.join(EVERY)}", unknown, "correct the names")
        return chosen

    def chosen_models(self) -> tuple[str, ...]:
        """Named or implied models, refused where unknown."""
        implied = TABLE_MODELS if self.rows == "table" else (*LENGTHS, AUTO, *SIZES)
        for model in self.models:
            if model not in (ENSEMBLE, REFERENCE, MEAN):
                tasks.parse_prior(model, self.variant)
        return self.models or implied

    def settings(self, model: str) -> dict[str, Any]:
        """What a model's results depend on besides the dataset, by dotted name."""
        training = asdict(self.training)
        del training["layout"]
        named = {"preset": self.preset, "splits": self.splits, "members": self.members}
        named |= {f"variant.{name}": value for name, value in asdict(self.variant).items()}
        named |= {f"training.{name}": value for name, value in training.items()}
        return {n: v for n, v in named.items() if n != ENSEMBLE_ONLY or model == ENSEMBLE}


def identity(study: Study, dataset: str, model: str) -> str:
    """Hash of a cell: dataset, model and the settings that are not at their class's default.

    A setting added later, whose default is what was done before, makes no old cell a stranger.
    """
    table = {n: v for n, v in study.settings(model).items() if v != DEFAULTS[n]}
    text = json.dumps(table | {"dataset": dataset, "model": model}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def cells_of(study: Study) -> list[tuple[str, str]]:
    """Dataset and model of every cell asked for, the largest dataset first."""
    models = study.chosen_models()
    cost = {name: table.shape[0] for name, table in uci.TABLES.items()}
    by_cost = sorted(study.chosen_datasets(), key=lambda name: -cost.get(name, 0))
    cells = [(name, model) for name in by_cost for model in models]
    return [cell for cell in cells if cell[1] != REFERENCE or cell[0] == GP]


def needs(model: str) -> tuple[str, ...]:
    """Models of the same dataset whose cells a cell reads."""
    if model == MEAN:
        return ()
    return (MEAN, *LENGTHS) if model == AUTO else (MEAN,)


def with_needs(cells: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The cells and, before each, what it needs; each once."""
    found: dict[tuple[str, str], None] = {}
    for dataset, model in cells:
        found |= dict.fromkeys(with_needs([(dataset, need) for need in needs(model)]))
        found[dataset, model] = None
    return list(found)


def command(study: Study, dataset: str, model: str) -> str:
    """What one types to compute one cell alone."""
    base = PRESETS[study.preset][1]
    words = ["python -m devote.regression.study", study.preset]
    words += ["--datasets", dataset, "--models", model]
    if study.out != base.out:
        words += ["--out", str(study.out)]
    then = base.settings(model)
    changed = {n: v for n, v in study.settings(model).items() if v != then[n]}
    for name, value in changed.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    return " ".join(words)


DEFAULTS = Study().settings(ENSEMBLE)
PRESETS = {
    "paper": ("The paper's text.", Study()),
    "authors": (
        "What the authors' code does.",
        Study(preset="authors", out=ROOT / "authors", variant=AUTHORS),
    ),
    "smoke": (
        "Seconds, for tests.",
        replace(
            Study(preset="smoke", out=ROOT / "smoke"),
            datasets=(GP,),
            splits=2,
            members=3,
            variant=Variant(features=64),
            training=Training(epochs=20),
        ),
    ),
}
