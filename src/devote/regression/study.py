"""The calibration table, its ablations and the data of its figures; resumable, cell by cell."""

import time
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from devote.core.errors import UserError
from devote.regression import tasks, uci
from devote.regression.drawings import prior_draws, task_draws
from devote.regression.store import finished, read_arrays, write, write_arrays, write_json
from devote.regression.table import LENGTHS, TABLE_MODELS, as_csv, as_markdown, collect
from devote.regression.tasks import AUTHORS, GP, Dataset, Variant
from devote.regression.training import Progress, Training

SIZES = tuple(f"mlp-{width}x{depth}" for depth in (1, 2) for width in (50, 100, 200, 400))
EVERY = (*uci.TABLES, GP)
FAST = ("concrete", "energy", "wine", "yacht", GP)
MEAN = "mean"
"""The cell that every other cell of a dataset reads."""


@dataclass(frozen=True)
class Study:
    """Which cells to compute, how, and where they go."""

    preset: str = "paper"
    out: Path = Path("results/calibration/paper")
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

    def chosen_datasets(self) -> tuple[str, ...]:
        """Named or implied datasets, refused where unknown."""
        chosen = self.datasets or (EVERY if self.scope == "whole" else FAST)
        unknown = sorted(set(chosen) - set(EVERY))
        if unknown:
            raise UserError(f"datasets among {', '.join(EVERY)}", unknown, "correct the names")
        return chosen

    def chosen_models(self) -> tuple[str, ...]:
        """Named or implied models, refused where unknown."""
        implied = TABLE_MODELS if self.rows == "table" else (*LENGTHS, "rfn-auto", *SIZES)
        for model in self.models:
            if model not in ("boot-ens", "gp-exact"):
                tasks.parse_prior(model, self.variant)
        return self.models or implied

    def identity(self) -> dict[str, Any]:
        """What a result depends on besides dataset and model."""
        training = asdict(self.training)
        del training["layout"]
        return {
            "preset": self.preset,
            "splits": self.splits,
            "members": self.members,
            "variant": asdict(self.variant),
            "training": training,
        }


def run(study: Study) -> None:
    """Every missing cell, then the table; cells that are there are not computed again."""
    cells = cells_of(study)
    # Means first: every other cell of a dataset reads them.
    _compute(study, [(name, MEAN) for name in dict.fromkeys(name for name, _ in cells)])
    _compute(study, cells)
    if GP in study.chosen_datasets():
        write_drawings(study)
    rows = collect(study.out)
    write(study.out / "table.md", as_markdown(rows, study.preset).encode())
    write(study.out / "table.csv", as_csv(rows).encode())


def cells_of(study: Study) -> list[tuple[str, str]]:
    """Dataset and model of every cell but the means, the largest dataset first."""
    models = study.chosen_models()
    cost = {name: table.shape[0] for name, table in uci.TABLES.items()}
    by_cost = sorted(study.chosen_datasets(), key=lambda name: -cost.get(name, 0))
    cells = [(name, model) for name in by_cost for model in models]
    return [cell for cell in cells if cell[1] != "gp-exact" or cell[0] == GP]


def write_drawings(study: Study) -> None:
    """What the figures of the GP task show besides the models' answers."""
    write_arrays(study.out / GP / "priors.npz", prior_draws(study.variant))
    write_arrays(study.out / GP / "task.npz", task_draws(study.splits))


def _compute(study: Study, cells: list[tuple[str, str]]) -> None:
    """The cells that are missing, one after another."""
    with _bar() as bar:
        for dataset, model in [cell for cell in cells if not is_finished(study, *cell)]:
            line = bar.add_task(f"{dataset} {model}", total=study.training.epochs)
            compute(study, dataset, model, partial(_advance, bar, line))


def _advance(bar: Bar, line: TaskID, done: int, _: int) -> None:
    bar.update(line, completed=done)


def compute(
    study: Study,
    dataset: str,
    model: str,
    progress: Progress | None = None,
) -> None:
    """One cell: fit, ask, score, write."""
    started, worked = time.perf_counter(), time.process_time()
    if model == MEAN:
        content = _fit_means(study, dataset, progress)
        scores: list[dict[str, float]] = []
    else:
        means = read_arrays(study.out / dataset / f"{MEAN}.npz")
        data = _dataset(study, dataset, means["reference"])
        given = tasks.answer(
            model, data, means["mean"], study.members, study.variant, study.training, progress
        )
        content = {"mean": given.mean, "std": given.std}
        scores = tasks.score(data, given.mean, given.std)
        if given.mean is not means["mean"]:
            for row, other in zip(scores, tasks.score(data, means["mean"], given.std), strict=True):
                row.update({f"{name}_separate": value for name, value in other.items()})
    numbers = {name: np.asarray(values, np.float32) for name, values in content.items()}
    write_arrays(study.out / dataset / f"{model}.npz", numbers)
    result = {
        "dataset": dataset,
        "model": model,
        "settings": study.identity(),
        "seconds": round(time.perf_counter() - started, 1),
        "cpu_seconds": round(time.process_time() - worked, 1),
        "splits": scores,
    }
    write_json(study.out / dataset / f"{model}.json", result)


def is_finished(study: Study, dataset: str, model: str) -> bool:
    """Whether a cell is there; one of other settings is refused."""
    return finished(study.out / dataset / f"{model}.json", study.identity())


def _fit_means(study: Study, dataset: str, progress: Progress | None) -> dict[str, np.ndarray]:
    """The separate mean of every split and, for a UCI table, the reference f at all its rows."""
    reference = np.zeros(0)
    if dataset != GP:
        x, y = tasks.scaled_table(dataset, study.data)
        reference = tasks.fit_reference(x, y, study.variant, study.training)
    data = _dataset(study, dataset, reference)
    mean = tasks.separate_mean(data, study.variant, study.training, progress)
    return {"mean": mean, "reference": reference}


def _dataset(study: Study, name: str, reference: np.ndarray) -> Dataset:
    if name == GP:
        return tasks.synthetic(study.splits)
    table = tasks.scaled_table(name, study.data)
    return tasks.tabular(*table, reference, study.splits, study.variant.ties)


def _bar() -> Bar:
    return Bar(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    )


PRESETS = {
    "paper": ("The paper's text.", Study()),
    "authors": (
        "What the authors' code does.",
        Study(preset="authors", out=Path("results/calibration/authors"), variant=AUTHORS),
    ),
    "smoke": (
        "Seconds, for tests.",
        replace(
            Study(preset="smoke", out=Path("results/calibration/smoke")),
            datasets=(GP,),
            splits=2,
            members=3,
            variant=Variant(features=64),
            training=Training(epochs=20),
        ),
    ),
}


def main() -> None:
    """`python -m devote.regression.study paper --data DIR`; `devote figure` uses every core."""
    import tyro

    run(tyro.extras.overridable_config_cli(PRESETS))


if __name__ == "__main__":
    main()
