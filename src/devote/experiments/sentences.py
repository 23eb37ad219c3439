"""What the intervals allow to say about a task, and no more."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from devote.experiments.results import Results, Scores, metric_in_words
from devote.experiments.study import Study, Task
from devote.measure.statistics import FEWEST, Shift, probability_of_improvement, shift

LEVEL = 0.95
ORDERED = 4
"""Seeds each from which on the rank-sum test can reach that level."""
ABOVE, BELOW, OPEN, UNTOLD = "above", "below", "open", "untold"
"""What can be found of one method against another; open: they cannot be told apart."""
NO_VALUE, NO_INTERVAL = "no value", "no interval"


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
        value, low, high = map(_signed, self.shift[:3])
        return f"{value} [{low}, {high}]"

    @property
    def evidence(self) -> str:
        """The numbers behind a sentence."""
        pairs = f"ahead in {self.chance:.0%} of pairs"
        return f"difference {self.difference} at {self.shift.level:.0%}, {pairs}"


def _signed(number: float) -> str:
    """Three digits, and where they would hide on which side of 0 it lies, one that does not."""
    if number == 0:
        return "0.000"
    return f"{number:+.3f}" if abs(number) >= 0.0005 else f"{number:+.0e}"


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
        return f"{opening}: nothing to compare with."
    mine, told = scores[reference], _by_verdict(scores, reference, others)
    words = {
        ABOVE: f"{reference} is above {{}}",
        BELOW: f"{reference} is below {{}}",
        OPEN: f"{reference} cannot be told apart at the end from {{}}",
        UNTOLD: f"too few seeds for an order of {reference} and {{}}",
        NO_VALUE: f"some runs of {reference} or of {{}} have no value, so no order is given",
        NO_INTERVAL: f"no interval is possible for {reference} and {{}} "
        f"(it takes {FEWEST} seeds each, and an order {ORDERED}, or {FEWEST} against 5)",
    }
    parts = [
        text.format(_listed([_named(name, mine, scores[name], found) for name in told[found]]))
        for found, text in words.items()
        if found in told
    ]
    return f"{opening}: {'; '.join(parts)}."


def comparisons_made(study: Study, results: Results) -> int:
    """What the sentences rest on: one test a pair, and another where runs end alike."""
    count = 0
    for task in study.tasks:
        mine, *others = (results.scores(task.name, method) for method in study.names())
        verdicts = [verdict(mine.final, theirs.final) for theirs in others]
        count += sum((told in (ABOVE, BELOW, OPEN)) + (told == OPEN) for told in verdicts)
    return count


def verdict(mine: np.ndarray, theirs: np.ndarray) -> str:
    """What can be said of two methods by their scores."""
    if not np.isfinite([*mine, *theirs]).all():
        return NO_VALUE
    if min(len(mine), len(theirs)) < FEWEST:
        return NO_INTERVAL
    return compared(mine, theirs).order


def _by_verdict(
    scores: Mapping[str, Scores], reference: str, others: Sequence[str]
) -> dict[str, list[str]]:
    told: dict[str, list[str]] = {}
    for method in others:
        found = verdict(scores[reference].final, scores[method].final)
        told.setdefault(found, []).append(method)
    return told


def _named(method: str, mine: Scores, theirs: Scores, told: str) -> str:
    """A method with its numbers; where runs end alike, also those of the averages."""
    if told in (NO_VALUE, NO_INTERVAL):
        return method
    evidence = compared(mine.final, theirs.final).evidence
    if told == OPEN:
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
        f"{task.name} ({metric_in_words(lines[0].metric)} after {lines[0].steps:,} steps, "
        f"{seeds} seed{plural}, preset {study.scale.preset})"
    )


def by_chance(tests: int) -> str:
    """How many orders mere chance could show."""
    most = tests * (1 - LEVEL)
    return (
        f"Of the {tests} tests behind this up to {most:.1f} would show an order by chance if there "
        "were none; nothing is corrected for that."
    )


def caveat(tests: int) -> str:
    """What a reader should know about the sentences."""
    text = (
        "Differences are medians over all pairs of runs with the exact interval of the rank-sum "
        "test (distribution-free; its level is the lowest from 95 % on that so few runs allow). "
        "The bootstrap interval of the IQM is too narrow for so few runs and decides nothing."
    )
    return f"{text} {by_chance(tests)}" if tests > 1 else text
