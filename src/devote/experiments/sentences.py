"""What the intervals allow to say about a task, and no more."""

from collections.abc import Mapping, Sequence

import numpy as np

from devote.experiments.results import Results, Scores
from devote.experiments.study import Study, Task
from devote.measure.statistics import FEWEST, probability_of_improvement, shift

LEVEL = 0.95
ABOVE, BELOW, EQUAL, UNTOLD = "above", "below", "equal", "untold"
"""What can be found of one method against another; equal: they cannot be told apart."""


def sentences(study: Study, results: Results) -> list[str]:
    """One for every task, about the first method against each other one."""
    found = []
    for task in study.tasks:
        scores = {
            method: results.scores(task.name, method)
            for method in study.names()
            if results.of(task.name, method)
        }
        if scores:
            found.append(sentence(_opening(study, task, results), scores, study.names()[0]))
        else:
            found.append(f"{task.name}: no run is finished, so nothing is said.")
    return found


def sentence(opening: str, scores: Mapping[str, Scores], reference: str) -> str:
    """`reference` against every other method."""
    others = [method for method in scores if method != reference]
    if reference not in scores or not others:
        return f"{opening}: nothing to compare with yet."
    seeds = {m: min(len(scores[m].final), len(scores[reference].final)) for m in others}
    verdicts = [
        _verdict(reference, scores[reference], method, scores[method])
        for method in others
        if seeds[method] >= FEWEST
    ]
    few = [method for method in others if seeds[method] < FEWEST]
    if few:
        least = min(seeds[method] for method in few)
        verdicts.append(
            f"with {least} seed{'s' if least > 1 else ''} no interval is possible for {reference} "
            f"and {', '.join(few)} (at least {FEWEST} give one, 4 an order)"
        )
    return f"{opening}: {'; '.join(verdicts)}."


def _opening(study: Study, task: Task, results: Results) -> str:
    lines = [line for line in results.lines if line.task == task.name]
    counts = sorted({len(results.of(task.name, method)) for method in {x.method for x in lines}})
    seeds = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    plural = "" if counts == [1] else "s"
    return (
        f"{task.name} ({_plain(lines[0].metric)} after {lines[0].steps:,} steps, "
        f"{seeds} seed{plural}, preset {study.scale.preset})"
    )


def compared(mine: np.ndarray, theirs: np.ndarray) -> tuple[str, str, str]:
    """What scores by seed say of one method against another: the finding, the difference with its
    interval, and the evidence in words."""
    found = shift(mine, theirs, LEVEL)
    difference = f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"
    chance = float(probability_of_improvement(mine[:, None], theirs[:, None]))
    evidence = f"difference {difference} at {found.level:.0%}, a run ahead with chance {chance:.2f}"
    if found.level < LEVEL:
        return UNTOLD, difference, evidence
    finding = ABOVE if found.low > 0 else BELOW if found.high < 0 else EQUAL
    return finding, difference, evidence


def _verdict(mine: str, my_scores: Scores, other: str, their_scores: Scores) -> str:
    finding, _, evidence = compared(my_scores.final, their_scores.final)
    if finding == EQUAL:
        words = f"{mine} and {other} cannot be told apart at the end ({evidence})"
        earlier, _, evidence = compared(my_scores.average, their_scores.average)
        order = {ABOVE: "is above", BELOW: "is below"}.get(earlier)
        return f"{words}; on average over the run {mine} {order} ({evidence})" if order else words
    return {
        UNTOLD: f"{mine} and {other}: too few seeds for an order ({evidence})",
        ABOVE: f"{mine} is above {other} ({evidence})",
        BELOW: f"{mine} is below {other} ({evidence})",
    }[finding]


def _plain(metric: str) -> str:
    return metric.split("/")[-1].replace("_", " ")


def caveat(methods: Sequence[str]) -> str:
    """What a reader should know about the sentences."""
    text = (
        "Differences are medians over all pairs of runs with the exact interval of the rank-sum "
        "test (distribution-free; its level is the lowest from 95 % on that so few runs allow)."
    )
    if len(methods) > 2:
        text += f" Each of the {len(methods) - 1} comparisons per task stands for itself."
    return text
