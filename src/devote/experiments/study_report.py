"""From finished runs to a study's figure, table, sentences and README."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from devote.core.durable import atomic_write_text
from devote.core.errors import UserError
from devote.experiments import results as files
from devote.experiments.cells import Cell
from devote.experiments.comparison import Study, Task
from devote.experiments.durations import in_words
from devote.experiments.results import ASIDE, COVERAGE, RUNS, Results, RunLine, csv_text
from devote.experiments.verdicts import (
    LEVEL,
    MARGIN,
    Claim,
    caveat,
    claims_markdown,
    comparisons_made,
    sentences,
)
from devote.figures.learning_curves import Panel, save_panels
from devote.measure.curves import BINS, WINDOW, aggregate
from devote.measure.statistics import iqm, stratified_bootstrap
from devote.regression.table import markdown_table

ALL = "all tasks"
Row = dict[str, Any]
"""A method on a task, or on all, by the columns of table.csv."""
HEADER = ["task", "method", "metric", "mean ± standard error", "IQM [95 % bootstrap]", "min", "max"]
HEADER += ["seeds", "steps", "preset", "time"]


@dataclass(frozen=True)
class Figure:
    """One figure or table at one scale, as a value: the work it needs and how it is drawn."""

    label: str
    """The paper's, or a name of our own."""
    title: str
    scale: str
    out: Path
    """Where it is written by default."""
    parts: Mapping[str, Sequence[Cell]]
    """The work by task, so that a part of it can be asked for."""
    draw: Callable[[Path, str], list[Path]]
    """From the results there are to files: (directory, command that was typed) -> paths written."""
    missing: tuple[str, ...] = ()
    """Agents and tasks that it asks for and that the library does not have yet."""
    recorded: Callable[[Path], frozenset[str]] = lambda out: frozenset()
    """Identities of cells that are not on this disk, but in the files of a directory; damaged
    files, or those of another scale, are refused."""

    def cells(self, only: Sequence[str] = ()) -> list[Cell]:
        """The cells of the named parts, or all."""
        unknown = [name for name in only if name not in self.parts]
        if unknown:
            expected = f"parts of {self.label}: {', '.join(self.parts)}"
            raise UserError(expected, ", ".join(unknown), "correct the names after --only")
        return [cell for part in only or self.parts for cell in self.parts[part]]


def figure_of(study: Study, out: Path, claims: Mapping[str, Claim] | None = None) -> Figure:
    """A study as a figure."""
    return Figure(
        label=study.label,
        title=study.title,
        scale=study.scale.name,
        out=out,
        parts=study.parts(),
        draw=lambda folder, command: write_report(study, folder, command, claims),
        missing=study.missing(),
        recorded=lambda folder: files.collect(study, folder).elsewhere,
    )


def write_report(
    study: Study, out: Path, command: str, claims: Mapping[str, Claim] | None = None
) -> list[Path]:
    """Everything a study has to show, from what is finished; nothing where nothing is."""
    results = files.collect(study, out)
    if not results.lines:
        return []
    paths = files.write(results, out)
    rows = table_rows(study, results)
    table, caption = table_markdown(rows), _caption(study, results)
    note = (
        f"{caption}\nmean and standard error over seeds, {BINS} bins, causal average over {WINDOW} "
        "bins; steps are agent decisions"
    )
    name = study.label.split(":")[-1]
    picture = save_panels(out / f"{name}.png", study.title, note, panels(study, results))
    texts = {
        "table.csv": csv_text([{n: _plain(v) for n, v in row.items()} for row in rows]),
        "table.md": f"{caption}\n\n{table}\n",
        "README.md": _readme(study, results, command, caption, table, picture.name),
    }
    if claims:
        texts["README.md"] += (
            "\n## Claim by claim\n\nWhat the paper says of its own scale, and what the runs above "
            "allow to say of theirs; differences as in the sentences, of the final values and of "
            "the averages over the budget. A claim holds where all of its rows do, and fails where "
            f"one does. A coverage of {MARGIN:g} counts as little, and as a match. The paper does "
            f"not show tasks marked (ours).\n\n{claims_markdown(claims, results)}\n"
        )
    for file, text in texts.items():
        atomic_write_text(out / file, text)
    return [picture, *paths, *(out / file for file in texts)]


def panels(study: Study, results: Results) -> list[Panel]:
    """The paper's aggregation of every task that has runs."""
    return [_panel(study, task, results) for task in _present(study, results)]


def _present(study: Study, results: Results) -> list[Task]:
    """Tasks that have runs."""
    names = {line.task for line in results.lines}
    return [task for task in study.tasks if task.name in names]


def _panel(study: Study, task: Task, results: Results) -> Panel:
    lines = {method: results.of(task.name, method) for method in study.names()}
    present = {method: mine for method, mine in lines.items() if mine}
    metric, asked = next(iter(present.values()))[0].metric, len(study.seeds(task))
    budget = max(line.steps for mine in present.values() for line in mine)
    seeds = {method: [results.curve(line) for line in mine] for method, mine in present.items()}
    curves = aggregate(seeds, budget)
    return Panel(
        title=task.title or task.name,
        ylabel=files.metric_in_words(metric),
        curves=curves,
        share=metric.startswith(COVERAGE),
        unfinished={
            method: f"{len(mine)}/{asked}" for method, mine in lines.items() if len(mine) < asked
        },
        undefined=tuple(method for method in present if method not in curves),
    )


def _caption(study: Study, results: Results) -> str:
    tasks: dict[str, list[str]] = {}
    for task in _present(study, results):
        tasks.setdefault(span(study.seeds(task)), []).append(task.title or task.name)
    alike = len(tasks) == 1
    seeds = "; ".join(s if alike else f"{s} ({', '.join(names)})" for s, names in tasks.items())
    return f"{study.label}, scale {study.scale.name}, preset {study.scale.preset}, seeds {seeds}"


def _readme(
    study: Study, results: Results, command: str, caption: str, table: str, picture: str
) -> str:
    lines = results.lines
    machines = "; ".join(sorted({line.machine for line in lines}))
    days = sorted({line.finished for line in lines})
    seconds = sum({line.identity: line.seconds for line in lines}.values())
    parts = [
        f"# {study.title}",
        f"{caption}. {_state(study, results)}",
        f"    {command}",
        f"Runs finished {' to '.join(dict.fromkeys((days[0], days[-1])))} on {machines}, one core "
        f"each: {in_words(seconds)} of core time in all, compilation included. Every run with its "
        "seed, duration, machine and command is in [runs.csv](runs.csv), curves are in one file "
        "per task. `time` is the median over seeds.",
        f"![{study.title}]({picture})",
        table,
        "\n".join(f"- {line}" for line in sentences(study, results)),
        caveat(comparisons_made(study, results)),
    ]
    return "\n\n".join(parts) + "\n"


def _state(study: Study, results: Results) -> str:
    """How many runs there are, which methods are the same runs, and what is not shown."""
    asked = sum(len(study.seeds(task)) for task in study.tasks) * len(study.methods)
    words = [f"{len(results.lines)} of {asked} runs are there."]
    alike: dict[tuple[str, str], list[str]] = {}
    for line in results.lines:
        alike.setdefault((line.task, line.identity), []).append(line.method)
    pairs = [(task, " and ".join(methods)) for (task, _), methods in alike.items() if methods[1:]]
    words += [f"In {task}, {methods} are the same runs." for task, methods in dict.fromkeys(pairs)]
    if results.set_aside:
        tasks = ", ".join(dict.fromkeys(line.task for line in results.set_aside))
        words.append(
            f"{len(results.set_aside)} more (in {tasks}) were recorded with other settings, "
            "methods or seeds, or fewer steps; they are in no number, curve or sentence here, but "
            f"in {ASIDE}/{RUNS}."
        )
    if study.missing():
        words.append(f"Not in the library yet: {', '.join(study.missing())}.")
    return " ".join(words)


def table_rows(study: Study, results: Results) -> list[Row]:
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
    return {
        "task": task,
        "method": lines[0].method,
        "metric": lines[0].metric,
        "mean": float(final.mean()),
        "standard_error": float(error),
        "iqm": middle.value,
        "iqm_low": middle.low,
        "iqm_high": middle.high,
        "lowest": float(final.min()),
        "highest": float(final.max()),
        "seeds": " or ".join(dict.fromkeys(span([line.seed for line in part]) for part in parts)),
        "count": len(lines),
        "steps": steps.pop() if len(steps) == 1 else None,  # tasks differ
        "preset": lines[0].preset,
        "scale": study.scale.name,
        "seconds": float(np.median([line.seconds for line in lines])),  # over the runs
    }


def _plain(value: object) -> object:
    """As a table in CSV has it: empty where there is no number."""
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.5g}"
    return value


def table_markdown(rows: Sequence[Row]) -> str:
    """The columns that a reader wants."""
    lines = []
    for row in rows:
        mean, error, middle, iqm_low, iqm_high, low, high = (
            "" if np.isnan(row[name]) else f"{row[name]:.3f}"
            for name in (
                "mean",
                "standard_error",
                "iqm",
                "iqm_low",
                "iqm_high",
                "lowest",
                "highest",
            )
        )
        mean = (mean or "a run has no value") + (f" ± {error}" if mean and error else "")
        interval = f"[{iqm_low}, {iqm_high}]" if iqm_low else "no interval"
        steps = "by task" if row["steps"] is None else f"{row['steps']:,}"
        numbers = (mean, f"{middle or '-'} {interval}", low or "-", high or "-")
        first, last = (row["task"], row["method"], row["metric"]), f"{row['seconds']:.0f} s"
        lines.append((*first, *numbers, row["seeds"], steps, row["preset"], last))
    return markdown_table(HEADER, lines)


def span(seeds: Sequence[int]) -> str:
    """Which seeds: `0 to 4`, or one by one where some between are missing."""
    ordered = sorted(seeds)
    if len(ordered) > 2 and ordered == list(range(ordered[0], ordered[-1] + 1)):
        return f"{ordered[0]} to {ordered[-1]}"
    return ", ".join(map(str, ordered))
