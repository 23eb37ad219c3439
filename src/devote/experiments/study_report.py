"""From finished runs to a study's figure, table, sentences and README."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from devote.core.durable import atomic_write_text
from devote.core.errors import UserError
from devote.experiments import results as files
from devote.experiments.cells import Cell, machine
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
from devote.figures.learning_curves import Panel, save_dots, save_panels
from devote.measure.curves import BINS, WINDOW, Curve, aggregate, evaluations
from devote.measure.statistics import FEWEST, iqm, performance_profile, stratified_bootstrap
from devote.regression.table import markdown_table

ALL = "all tasks"
MANY_METHODS = 12
"""Above so many, a figure shows final values instead of curves."""
Row = dict[str, Any]
"""A method on a task, or on all, by the columns of table.csv."""
HEADER = ["task", "method", "metric", "mean ± standard error", "IQM [95 % bootstrap]", "min", "max"]
HEADER += ["seeds", "steps", "preset", "time"]
NUMBERS = ("mean", "standard_error", "iqm", "iqm_low", "iqm_high", "lowest", "highest")


@dataclass(frozen=True)
class Figure:
    """A figure or table at one scale: the cells it needs and how it is drawn."""

    label: str
    """The label in the paper, or a name of ours."""
    title: str
    scale: str
    out: Path
    """Where it is written by default."""
    parts: Mapping[str, Sequence[Cell]]
    """Cells by task, for --only."""
    draw: Callable[[Path, str], list[Path]]
    """Draws what is finished: (directory, command that was typed) -> paths written."""
    missing: tuple[str, ...] = ()
    """Agents and tasks that do not exist."""
    recorded: Callable[[Path], frozenset[str]] = lambda out: frozenset()
    """Identities of cells that are in the files of a directory, but not on this disk."""

    def cells(self, only: Sequence[str] = ()) -> list[Cell]:
        """The cells of the named parts, or all."""
        unknown = [name for name in only if name not in self.parts]
        if unknown:
            expected = f"parts of {self.label}: {', '.join(self.parts)}"
            raise UserError(expected, ", ".join(unknown), "correct the names after --only")
        return [cell for part in only or self.parts for cell in self.parts[part]]


def figure_of(
    study: Study, claims: Mapping[str, Claim] | None = None, out: Path | None = None
) -> Figure:
    """A study as a figure, by default in results/LABEL/SCALE."""
    return Figure(
        label=study.label,
        title=study.title,
        scale=study.scale.name,
        out=out or Path("results") / study.label.split(":")[-1] / study.scale.name,
        parts=study.parts(),
        draw=lambda folder, command: write_report(study, folder, command, claims),
        missing=study.missing(),
        recorded=lambda folder: files.collect(study, folder).elsewhere,
    )


def drawing(
    label: str,
    title: str,
    scale: str,
    draw: Callable[[Path, str], list[Path]],
    parts: Mapping[str, Sequence[Cell]] | None = None,
    recorded: Callable[[Path], frozenset[str]] = lambda out: frozenset(),
    more: str = "",
    effort: Callable[[], str | None] | None = None,
) -> Figure:
    """A figure or table that compares no methods; `draw` takes a directory and a caption, which
    `more` goes on with. `effort` says what it took; None where the README is to stay."""
    caption = f"{label}, scale {scale}{more}"

    def drawn(out: Path, command: str) -> list[Path]:
        out.mkdir(parents=True, exist_ok=True)
        paths = draw(out, caption)
        made = effort() if effort else f"Made {date.today().isoformat()} on {machine()}."
        if not paths or made is None:
            return paths
        shown = [
            f"![{title}]({path.name})"
            if path.suffix == ".png"
            else path.read_text().removeprefix(f"{caption}\n\n")
            for path in paths
            if path.suffix in (".png", ".md")
        ]
        text = "\n\n".join([f"# {title}", caption, f"    {command}", made, *shown])
        atomic_write_text(out / "README.md", f"{text.strip()}\n")
        return [*paths, out / "README.md"]

    out = Path("results") / label.split(":")[-1] / scale
    return Figure(label, title, scale, out, parts or {}, drawn, recorded=recorded)


def write_report(
    study: Study,
    out: Path,
    command: str,
    claims: Mapping[str, Claim] | None = None,
    draw: Callable[[Results, Path, str], Path] | None = None,
) -> list[Path]:
    """Write figure, tables and README of what is finished; nothing where nothing is. `draw` draws
    (results, path, caption) where curves by method are not what is to be seen."""
    results = files.collect(study, out)
    if not results.lines:
        return []
    paths = files.write(results, out)
    rows = table_rows(study, results)
    table, caption = table_markdown(rows), _caption(study, results)
    name = study.label.split(":")[-1]
    pictures = [(draw or partial(_picture, study))(results, out / f"{name}.png", caption)]
    pictures += _profile(study, results, out / "profile.png", caption)
    texts = {
        "table.csv": csv_text([{n: _plain(v) for n, v in row.items()} for row in rows]),
        "table.md": f"{caption}\n\n{table}\n",
        "README.md": _readme(study, results, command, caption, table, pictures),
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
    return [*pictures, *paths, *(out / file for file in texts)]


def _picture(study: Study, results: Results, path: Path, caption: str) -> Path:
    """Curves; final values as dots where there are more methods than can be told apart."""
    if len(study.methods) <= MANY_METHODS:
        shown = panels(study, results)
        binned = f"lines and bands: {BINS} bins, causal average over {WINDOW}; "
        note = f"{caption}\nmean over seeds and one standard error; steps are agent decisions; "
        note += binned if any(set(panel.curves) - set(panel.points) for panel in shown) else ""
        note += "points: evaluations" if any(panel.points for panel in shown) else ""
        note = note.removesuffix("; ")
        return save_panels(path, study.title, note, shown)
    metric = files.metric_in_words(results.lines[0].metric)
    tasks = {
        task.title or task.name: {
            method: results.scores(task.name, method).final
            for method in study.names()
            if results.of(task.name, method)
        }
        for task in _present(study, results)
    }
    note = f"{caption}; dots: final values of the seeds, bars: their means"
    return save_dots(path, study.title, note, metric, tasks)


def _profile(study: Study, results: Results, path: Path, caption: str) -> list[Path]:
    """Share of runs above a final score, over all tasks whose scores are shares, with every seed of
    at least two methods; nothing where there is less to compare."""
    path.unlink(missing_ok=True)
    rows = {
        method: [results.of(task.name, method) for task in study.tasks] for method in study.names()
    }
    scores = {
        method: np.array([[line.final for line in part] for part in parts]).T
        for method, parts in rows.items()
        if _comparable(study, parts) and len(parts[0]) >= FEWEST
    }
    scores = {method: final for method, final in scores.items() if np.isfinite(final).all()}
    if len(scores) < 2 or len(study.methods) > MANY_METHODS:
        return []
    thresholds = np.linspace(0, 1, 201)
    curves = {
        method: Curve(thresholds, *performance_profile(final, thresholds))
        for method, final in scores.items()
    }
    words = files.metric_in_words(results.lines[0].metric)
    count = len(study.tasks)
    title = f"Performance profile, {count} tasks" if count > 1 else "Performance profile"
    panel = Panel(title, "share of runs above", curves, share=True, xlabel=f"final {words}")
    note = f"{caption}; bands: one standard error by a bootstrap of the runs within each task"
    return [save_panels(path, study.title, note, [panel])]


def panels(study: Study, results: Results) -> list[Panel]:
    """A panel per task that has runs, aggregated as in the paper; then one per further metric."""
    tasks = _present(study, results)
    return [_panel(study, t, results, metric) for metric in (None, *study.beside) for t in tasks]


def _present(study: Study, results: Results) -> list[Task]:
    """Tasks that have runs."""
    names = {line.task for line in results.lines}
    return [task for task in study.tasks if task.name in names]


def _panel(study: Study, task: Task, results: Results, beside: str | None = None) -> Panel:
    lines = {method: results.of(task.name, method) for method in study.names()}
    present = {method: mine for method, mine in lines.items() if mine}
    asked = len(study.seeds(task))
    metric = beside or next(iter(present.values()))[0].metric
    budget = max(line.steps for mine in present.values() for line in mine)
    seeds = {name: [results.curve(line, metric) for line in mine] for name, mine in present.items()}
    curves = aggregate(seeds, budget)
    few = {name: evaluations(mine) for name, mine in seeds.items() if metric.startswith("eval/")}
    return Panel(
        title=task.title or task.name,
        ylabel=files.metric_in_words(metric),
        curves=curves,
        points={name: curve for name, curve in few.items() if curve is not None},
        share=metric.startswith(COVERAGE) or metric in files.SHARES,
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
    study: Study,
    results: Results,
    command: str,
    caption: str,
    table: str,
    pictures: Sequence[Path],
) -> str:
    lines = results.lines
    machines = "; ".join(sorted({line.machine for line in lines}))
    days = sorted({line.finished for line in lines})
    seconds = sum({line.identity: line.seconds for line in lines}.values())
    titles = {"profile": "Performance profile"}
    parts = [
        f"# {study.title}",
        f"{caption}. {_state(study, results)}",
        f"    {command}",
        f"Runs finished {' to '.join(dict.fromkeys((days[0], days[-1])))} on {machines}, one core "
        f"each: {in_words(seconds)} of core time in all, compilation included. Every run with its "
        "seed, duration, machine and command is in [runs.csv](runs.csv), curves are in one file "
        "per task. `time` is the median over seeds.",
        *(f"![{titles.get(path.stem, study.title)}]({path.name})" for path in pictures),
        table,
        "\n".join(f"- {line}" for line in sentences(study, results)),
        caveat(comparisons_made(study, results)),
    ]
    return "\n\n".join(parts) + "\n"


def _state(study: Study, results: Results) -> str:
    """How many runs there are, which methods share runs, and what is not shown."""
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
    """A row per task and method with a finished run, then one per method over all tasks."""
    rows = []
    for task in study.tasks:
        for method in study.names():
            lines = results.of(task.name, method)
            if lines:
                rows.append(_row(study, task.name, [lines]) | _solved(task, lines))
    if len(study.tasks) > 1:
        for method in study.names():
            parts = [results.of(task.name, method) for task in study.tasks]
            if _comparable(study, parts):
                rows.append(_row(study, ALL, parts))
    return rows


def _solved(task: Task, lines: Sequence[RunLine]) -> Row:
    """How many seeds have solved the task, where it has a threshold."""
    if task.solved is None:
        return {}
    return {"solved_at": task.solved, "solved": sum(line.final >= task.solved for line in lines)}


def _comparable(study: Study, parts: Sequence[Sequence[RunLine]]) -> bool:
    """Whether a mean over tasks makes sense: all seeds everywhere, as many each, of a coverage."""
    asked = [len(study.seeds(task)) for task in study.tasks]
    if [len(lines) for lines in parts] != asked or len(set(asked)) > 1:
        return False
    metrics = {line.metric for lines in parts for line in lines}
    return len(metrics) == 1 and metrics.pop().startswith(COVERAGE)


def _row(study: Study, task: str, parts: Sequence[Sequence[RunLine]]) -> Row:
    """Statistics of a method's runs, equally many per task."""
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
    """For CSV: empty where there is no number."""
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.5g}"
    return value


def table_markdown(rows: Sequence[Row]) -> str:
    """The table for readers."""
    lines = []
    for row in rows:
        said = {n: "-" if np.isnan(row[n]) else f"{row[n]:.3f}" for n in NUMBERS}
        mean = "a run has no value" if np.isnan(row["mean"]) else said["mean"]
        mean += (
            "" if np.isnan(row["mean"] + row["standard_error"]) else f" ± {said['standard_error']}"
        )
        found = "[{iqm_low}, {iqm_high}]" if np.isfinite(row["iqm_low"]) else "no interval"
        numbers = mean, f"{said['iqm']} {found.format(**said)}", said["lowest"], said["highest"]
        steps = "by task" if row["steps"] is None else f"{row['steps']:,}"
        first, last = (row["task"], row["method"], row["metric"]), f"{row['seconds']:.0f} s"
        solved = [f"{row['solved']} of {row['count']}"] if "solved" in row else []
        lines.append((*first, *numbers, row["seeds"], steps, row["preset"], last, *solved))
    header = [*HEADER, "solved"] if any("solved" in row for row in rows) else HEADER
    return markdown_table(header, [(*line, "")[: len(header)] for line in lines])


def span(seeds: Sequence[int]) -> str:
    """Seeds in words: `0 to 4`, or a list where they have gaps."""
    ordered = sorted(seeds)
    if len(ordered) > 2 and ordered == list(range(ordered[0], ordered[-1] + 1)):
        return f"{ordered[0]} to {ordered[-1]}"
    return ", ".join(map(str, ordered))
