"""The table of a study: every row with its preset, budget and seeds."""

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields

import numpy as np

from devote.experiments.results import Results
from devote.experiments.study import Study
from devote.measure.statistics import iqm, stratified_bootstrap

LEVEL = 0.95


@dataclass(frozen=True)
class Row:
    """A method on a task."""

    task: str
    method: str
    metric: str
    mean: float
    standard_error: float
    iqm: float
    iqm_low: float
    iqm_high: float
    lowest: float
    highest: float
    seeds: str
    count: int
    steps: int
    preset: str
    scale: str
    seconds: float
    """Median over the runs."""


def rows_of(study: Study, results: Results) -> list[Row]:
    """One row per task and method with at least one finished run."""
    rows = []
    for task in study.tasks:
        for method in study.names():
            lines = results.of(task.name, method)
            if lines:
                final = np.array([line.final for line in lines])
                middle = stratified_bootstrap(final[:, None], statistic=iqm, level=LEVEL)
                error = final.std(ddof=1) / np.sqrt(len(final)) if len(final) > 1 else np.nan
                rows.append(
                    Row(
                        task=task.name,
                        method=method,
                        metric=lines[0].metric,
                        mean=float(final.mean()),
                        standard_error=float(error),
                        iqm=middle.value,
                        iqm_low=middle.low,
                        iqm_high=middle.high,
                        lowest=float(final.min()),
                        highest=float(final.max()),
                        seeds=span([line.seed for line in lines]),
                        count=len(lines),
                        steps=lines[0].steps,
                        preset=lines[0].preset,
                        scale=study.scale.name,
                        seconds=float(np.median([line.seconds for line in lines])),
                    )
                )
    return rows


def as_csv(rows: Sequence[Row]) -> str:
    """All columns; empty where there is no number."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [entry.name for entry in fields(Row)], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(value) for name, value in asdict(row).items()})
    return text.getvalue()


def as_markdown(rows: Sequence[Row]) -> str:
    """The columns that a reader wants."""
    lines = [
        "| task | method | metric | mean ± standard error | IQM [95 % interval] | min | max | "
        "seeds | steps | preset | time |",
        "| --- " * 11 + "|",
    ]
    for row in rows:
        spread = "" if np.isnan(row.standard_error) else f" ± {row.standard_error:.3f}"
        interval = (
            "no interval" if np.isnan(row.iqm_low) else f"[{row.iqm_low:.3f}, {row.iqm_high:.3f}]"
        )
        lines.append(
            f"| {row.task} | {row.method} | {row.metric} | {row.mean:.3f}{spread} | {row.iqm:.3f} "
            f"{interval} | {row.lowest:.3f} | {row.highest:.3f} | {row.seeds} | {row.steps:,} | "
            f"{row.preset} | {row.seconds:.0f} s |"
        )
    return "\n".join(lines) + "\n"


def span(seeds: Sequence[int]) -> str:
    """Which seeds: `0 to 4`, or one by one where some between are missing."""
    ordered = sorted(seeds)
    if len(ordered) > 2 and ordered == list(range(ordered[0], ordered[-1] + 1)):
        return f"{ordered[0]} to {ordered[-1]}"
    return ", ".join(map(str, ordered))


def _cell(value: object) -> object:
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.5g}"
    return value
