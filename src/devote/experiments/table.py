"""The table of a study: every row with its preset, budget and seeds."""

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields

import numpy as np

from devote.experiments.results import COVERAGE, Results
from devote.experiments.study import Study
from devote.experiments.study_files import RunLine
from devote.measure.statistics import iqm, stratified_bootstrap

LEVEL = 0.95
ALL = "all tasks"


@dataclass(frozen=True)
class Row:
    """A method on a task, or on all."""

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
    steps: int | None
    """None where tasks differ."""
    preset: str
    scale: str
    seconds: float
    """Median over the runs."""


def rows_of(study: Study, results: Results) -> list[Row]:
    """One row per task and method with a finished run; then one per method over all tasks."""
    rows = []
    for task in study.tasks:
        for method in study.names():
            lines = results.of(task.name, method)
            if lines:
                rows.append(_row(study, task.name, [lines]))
    if len(study.tasks) > 1:
        for method in study.names():
            parts = [results.of(task.name, method) for task in study.tasks]
            if _comparable(study, parts):
                rows.append(_row(study, ALL, parts))
    return rows


def _comparable(study: Study, parts: Sequence[Sequence[RunLine]]) -> bool:
    """Whether one number makes sense: all seeds of all tasks, as many each, of one share."""
    asked = [len(study.seeds(task)) for task in study.tasks]
    if [len(lines) for lines in parts] != asked or len(set(asked)) > 1:
        return False
    metrics = {line.metric for lines in parts for line in lines}
    return len(metrics) == 1 and metrics.pop().startswith(COVERAGE)


def _row(study: Study, task: str, parts: Sequence[Sequence[RunLine]]) -> Row:
    """Statistics of a method's runs, by task as many each."""
    lines = [line for part in parts for line in part]
    final = np.array([[line.final for line in part] for part in parts]).T  # (run, task)
    runs, tasks = final.shape
    middle = stratified_bootstrap(final, statistic=iqm, level=LEVEL)
    error = np.sqrt(final.var(axis=0, ddof=1).sum() / runs) / tasks if runs > 1 else np.nan
    steps = {line.steps for line in lines}
    return Row(
        task=task,
        method=lines[0].method,
        metric=lines[0].metric,
        mean=float(final.mean()),
        standard_error=float(error),
        iqm=middle.value,
        iqm_low=middle.low,
        iqm_high=middle.high,
        lowest=float(final.min()),
        highest=float(final.max()),
        seeds=" or ".join(dict.fromkeys(span([line.seed for line in part]) for part in parts)),
        count=len(lines),
        steps=steps.pop() if len(steps) == 1 else None,
        preset=lines[0].preset,
        scale=study.scale.name,
        seconds=float(np.median([line.seconds for line in lines])),
    )


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
        "| task | method | metric | mean ± standard error | IQM [95 % bootstrap] | min | max | "
        "seeds | steps | preset | time |",
        "| --- " * 11 + "|",
    ]
    for row in rows:
        spread = "" if np.isnan(row.standard_error) else f" ± {row.standard_error:.3f}"
        mean = "a run has no value" if np.isnan(row.mean) else f"{row.mean:.3f}{spread}"
        interval = (
            "no interval" if np.isnan(row.iqm_low) else f"[{row.iqm_low:.3f}, {row.iqm_high:.3f}]"
        )
        steps = "by task" if row.steps is None else f"{row.steps:,}"
        lines.append(
            f"| {row.task} | {row.method} | {row.metric} | {mean} | {_three(row.iqm)} {interval} "
            f"| {_three(row.lowest)} | {_three(row.highest)} | {row.seeds} | {steps} | "
            f"{row.preset} | {row.seconds:.0f} s |"
        )
    return "\n".join(lines) + "\n"


def span(seeds: Sequence[int]) -> str:
    """Which seeds: `0 to 4`, or one by one where some between are missing."""
    ordered = sorted(seeds)
    if len(ordered) > 2 and ordered == list(range(ordered[0], ordered[-1] + 1)):
        return f"{ordered[0]} to {ordered[-1]}"
    return ", ".join(map(str, ordered))


def _three(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"


def _cell(value: object) -> object:
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.5g}"
    return value
