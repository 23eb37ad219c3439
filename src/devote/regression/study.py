"""The calibration table, its ablations and the data of its figures; resumable, cell by cell."""

import sys
from functools import partial

from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from devote.core.durable import atomic_write_text
from devote.core.errors import UserError
from devote.regression import cells
from devote.regression.plan import PRESETS, Study, cells_of, with_needs
from devote.regression.scores import read_cell
from devote.regression.table import as_csv, as_markdown
from devote.regression.tasks import GP


def run(study: Study) -> None:
    """Every missing cell, then the table; cells that are there are not computed again."""
    asked = cells_of(study)
    with _bar() as bar:
        for dataset, model in with_needs(asked):
            if not cells.is_finished(study, dataset, model):
                line = bar.add_task(f"{dataset} {model}", total=study.training.epochs)
                cells.compute(study, dataset, model, partial(_advance, bar, line))
    if GP in study.chosen_datasets():
        cells.write_drawings(study)
    rows = [read_cell(result) for result in cells.results_of(study, asked) if result["splits"]]
    atomic_write_text(study.out / "table.md", as_markdown(rows, study.preset))
    atomic_write_text(study.out / "table.csv", as_csv(rows))


def _advance(bar: Bar, line: TaskID, done: int, _: int) -> None:
    bar.update(line, completed=done)


def _bar() -> Bar:
    return Bar(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    )


def main() -> None:
    """`python -m devote.regression.study paper --data DIR`; `devote figure` uses every core."""
    import tyro

    try:
        run(tyro.extras.overridable_config_cli(PRESETS))
    except UserError as error:
        sys.exit(f"devote: {error}")


if __name__ == "__main__":
    main()
