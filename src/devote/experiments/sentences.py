"""What the intervals allow to say about a task, and no more."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from devote.experiments.results import Results, Scores
from devote.experiments.study import Study, Task
from devote.measure.statistics import FEWEST, Shift, probability_of_improvement, shift

LEVEL = 0.95
ABOVE, BELOW, OPEN, UNTOLD = "above", "below", "open", "untold"
"""What can be found of one method against another; open: they cannot be told apart."""


class Finding(NamedTuple):
    """One method against another, by seed."""

    order: str
    """ABOVE, BELOW, OPEN or UNTOLD."""
    shift: Shift
    chance: float
    """Of a run of the first to be ahead of one of the other, among the runs there are."""

    @property
    def difference(self) -> str:
        """The shift with its interval."""
        return f"{self.shift.value:+.3f} [{self.shift.low:+.3f}, {self.shift.high:+.3f}]"

    @property
    def evidence(self) -> str:
        """The numbers behind a sentence."""
        pairs = f"ahead in {self.chance:.0%} of pairs"
        return f"difference {self.difference} at {self.shift.level:.0%}, {pairs}"


def compared(mine: np.ndarray, theirs: np.ndarray) -> Finding:
    """What scores by seed say of one method against another; nothing where a run has none."""
    found = shift(mine, theirs, LEVEL)
    chance = float(probability_of_improvement(mine[:, None], theirs[:, None]))
    if found.level < LEVEL or not np.isfinite([*mine, *theirs]).all():
        return Finding(UNTOLD, found, chance)
    order = ABOVE if found.low > 0 else BELOW if found.high < 0 else OPEN
    return Finding(order, found, chance)


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
    """`reference` against every other method, those of one verdict together."""
    others = [method for method in scores if method != reference]
    if reference not in scores or not others:
        return f"{opening}: nothing to compare with yet."
    mine, told = scores[reference], _by_verdict(scores, reference, others)
    words = {
        ABOVE: f"{reference} is above {{}}",
        BELOW: f"{reference} is below {{}}",
        OPEN: f"{reference} cannot be told apart at the end from {{}}",
        UNTOLD: f"too few seeds for an order of {reference} and {{}}",
        "no value": f"some runs of {reference} or of {{}} have no value, so no order is given",
        "no interval": f"no interval is possible for {reference} and {{}} "
        f"(with at least {FEWEST} seeds each there is one)",
    }
    parts = [
        text.format(_listed([_named(name, mine, scores[name], verdict) for name in told[verdict]]))
        for verdict, text in words.items()
        if told[verdict]
    ]
    return f"{opening}: {'; '.join(parts)}."


def _by_verdict(
    scores: Mapping[str, Scores], reference: str, others: Sequence[str]
) -> dict[str, list[str]]:
    told: dict[str, list[str]] = {
        verdict: [] for verdict in (ABOVE, BELOW, OPEN, UNTOLD, "no value", "no interval")
    }
    mine = scores[reference].final
    for method in others:
        theirs = scores[method].final
        if min(len(mine), len(theirs)) < FEWEST:
            told["no interval"].append(method)
        elif not np.isfinite([*mine, *theirs]).all():
            told["no value"].append(method)
        else:
            told[compared(mine, theirs).order].append(method)
    return told


def _named(method: str, mine: Scores, theirs: Scores, verdict: str) -> str:
    """A method with its numbers; where runs end alike, also those of the averages."""
    if verdict in ("no value", "no interval"):
        return method
    evidence = compared(mine.final, theirs.final).evidence
    if verdict == OPEN:
        earlier = compared(mine.average, theirs.average)
        if earlier.order in (ABOVE, BELOW):
            evidence += f"; on average over the run it is {earlier.order}: {earlier.evidence}"
    return f"{method} ({evidence})"


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _opening(study: Study, task: Task, results: Results) -> str:
    lines = [line for line in results.lines if line.task == task.name]
    counts = sorted({len(results.of(task.name, method)) for method in {x.method for x in lines}})
    seeds = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    plural = "" if counts == [1] else "s"
    return (
        f"{task.name} ({_plain(lines[0].metric)} after {lines[0].steps:,} steps, "
        f"{seeds} seed{plural}, preset {study.scale.preset})"
    )


def _plain(metric: str) -> str:
    return metric.split("/")[-1].replace("_", " ")


def by_chance(comparisons: int) -> str:
    """How many orders mere chance could show."""
    most = comparisons * (1 - LEVEL)
    return (
        f"Of {comparisons} comparisons up to {most:.1f} would show an order by chance if there "
        "were none; nothing is corrected for that."
    )


def caveat(comparisons: int) -> str:
    """What a reader should know about the sentences."""
    text = (
        "Differences are medians over all pairs of runs with the exact interval of the rank-sum "
        "test (distribution-free; its level is the lowest from 95 % on that so few runs allow). "
        "The bootstrap interval of the IQM is too narrow for so few runs and decides nothing."
    )
    return f"{text} {by_chance(comparisons)}" if comparisons > 1 else text
