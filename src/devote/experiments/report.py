"""From finished runs to a study's figure, table, sentences and README."""

from collections.abc import Sequence
from pathlib import Path

from devote.core.durable import atomic_write_text
from devote.experiments import claims as claimed
from devote.experiments import results as files
from devote.experiments.claims import MARGIN, Claim
from devote.experiments.durations import in_words
from devote.experiments.results import COVERAGE, Results, metric_in_words
from devote.experiments.sentences import caveat, comparisons_made, sentences
from devote.experiments.study import Study, Task
from devote.experiments.study_files import ASIDE, RUNS
from devote.experiments.table import as_csv, as_markdown, rows_of, span
from devote.figures.curves import Panel, save_panels
from devote.measure.curves import BINS, WINDOW, aggregate


def write_report(study: Study, out: Path, command: str, claims: Sequence[Claim] = ()) -> list[Path]:
    """Everything a study has to show, from what is finished; nothing where nothing is."""
    results = files.collect(study, out)
    if not results.lines:
        return []
    paths = files.write(results, out)
    rows = rows_of(study, results)
    said = sentences(study, results)
    name = study.label.split(":")[-1]
    picture = save_panels(
        out / f"{name}.png", study.title, _note(study, results), panels(study, results)
    )
    texts = {
        "table.csv": as_csv(rows),
        "table.md": _caption(study, results) + "\n\n" + as_markdown(rows),
        "README.md": _readme(study, results, command, as_markdown(rows), said, picture.name),
    }
    if claims:
        texts["README.md"] += _claimed(claims, results)
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
    seeds = {
        method: [results.observations(line) for line in mine] for method, mine in present.items()
    }
    curves = aggregate(seeds, budget)
    return Panel(
        title=task.title or task.name,
        ylabel=metric_in_words(metric),
        curves=curves,
        share=metric.startswith(COVERAGE),
        unfinished={
            method: f"{len(mine)}/{asked}" for method, mine in lines.items() if len(mine) < asked
        },
        undefined=tuple(method for method in present if method not in curves),
    )


def _note(study: Study, results: Results) -> str:
    return (
        f"{_caption(study, results)}\nmean and standard error over seeds, {BINS} bins, "
        f"causal average over {WINDOW} bins; steps are agent decisions"
    )


def _caption(study: Study, results: Results) -> str:
    tasks: dict[str, list[str]] = {}
    for task in _present(study, results):
        tasks.setdefault(span(study.seeds(task)), []).append(task.title or task.name)
    alike = len(tasks) == 1
    seeds = "; ".join(s if alike else f"{s} ({', '.join(names)})" for s, names in tasks.items())
    return f"{study.label}, scale {study.scale.name}, preset {study.scale.preset}, seeds {seeds}"


def _readme(
    study: Study, results: Results, command: str, table: str, said: Sequence[str], picture: str
) -> str:
    lines = results.lines
    machines = "; ".join(sorted({line.machine for line in lines}))
    days = sorted({line.finished for line in lines})
    seconds = sum({line.identity: line.seconds for line in lines}.values())
    parts = [
        f"# {study.title}",
        f"{_caption(study, results)}. {_state(study, results)}",
        f"    {command}",
        f"Runs finished {' to '.join(dict.fromkeys((days[0], days[-1])))} on {machines}, one core "
        f"each: {in_words(seconds)} of core time in all, compilation included. Every run with its "
        "seed, duration, machine and command is in [runs.csv](runs.csv), curves are in one file "
        "per task. `time` is the median over seeds.",
        f"![{study.title}]({picture})",
        table.rstrip(),
        "\n".join(f"- {line}" for line in said),
        caveat(comparisons_made(study, results)),
    ]
    return "\n\n".join(parts) + "\n"


def _claimed(claims: Sequence[Claim], results: Results) -> str:
    return (
        "\n## Claim by claim\n\nWhat the paper says of its own scale, and what the runs above "
        "allow to say of theirs; differences as in the sentences, of the final values and of the "
        "averages over the budget. A claim holds where all of its rows do, and fails where one "
        f"does. A coverage of {MARGIN:g} counts as little, and as a match. The paper does not show "
        f"tasks marked (ours).\n\n{claimed.as_markdown(claims, results)}\n"
    )


def _shared(results: Results) -> list[str]:
    """Methods whose settings come to the same on a task."""
    found: dict[tuple[str, str], list[str]] = {}
    for line in results.lines:
        found.setdefault((line.task, line.identity), []).append(line.method)
    pairs = [(task, " and ".join(methods)) for (task, _), methods in found.items() if methods[1:]]
    return [f"In {task}, {methods} are the same runs." for task, methods in dict.fromkeys(pairs)]


def _state(study: Study, results: Results) -> str:
    asked = sum(len(study.seeds(task)) for task in study.tasks) * len(study.methods)
    words = [f"{len(results.lines)} of {asked} runs are there."]
    words += _shared(results)
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
