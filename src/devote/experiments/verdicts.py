"""Conclusions from intervals: a sentence per task, and verdicts on the paper's claims."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

import numpy as np

from devote.experiments.comparison import Study, Task
from devote.experiments.results import Results, Scores, metric_in_words
from devote.measure.statistics import FEWEST, Shift, probability_of_improvement, shift
from devote.regression.table import markdown_table

LEVEL = 0.95
ORDERED = 4
"""Seeds each from which on the rank-sum test can reach that level."""
MARGIN = 0.05
"""Coverage that still counts as "little benefit" or as "matching"; set before any reported run of a
rival was looked at."""
Relation = Literal["above", "below", "little above", "not below"]


class Order(StrEnum):
    """How the first of two methods compares."""

    ABOVE = "above"
    BELOW = "below"
    UNDECIDED = "undecided"
    TOO_FEW = "too few seeds for the level"
    NO_VALUE = "a run has no value"
    NO_INTERVAL = "too few seeds for any interval"


class Verdict(StrEnum):
    """Whether a claim holds."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "open"
    TOO_FEW = "too few seeds"
    NOT_RUN = "not run"
    NO_VALUE = "no value"


TESTED = {Verdict.HOLDS, Verdict.FAILS, Verdict.OPEN}
"""Verdicts that come from a test."""


class Comparison(NamedTuple):
    """One method against another, by seed."""

    order: Order
    shift: Shift = Shift(np.nan, np.nan, np.nan, 0.0)
    chance: float = np.nan
    """Share of pairs in which the first method's run is ahead."""

    @property
    def difference(self) -> str:
        """The shift with its interval."""
        value, low, high = map(_signed, self.shift[:3])
        return f"{value} [{low}, {high}]"

    @property
    def evidence(self) -> str:
        """Difference, level and share of pairs in words."""
        pairs = f"ahead in {self.chance:.0%} of pairs"
        return f"difference {self.difference} at {self.shift.level:.0%}, {pairs}"


def _signed(number: float) -> str:
    """Three digits; scientific where those would be 0."""
    if number == 0:
        return "0.000"
    return f"{number:+.3f}" if abs(number) >= 0.0005 else f"{number:+.0e}"


def compare(mine: np.ndarray, theirs: np.ndarray) -> Comparison:
    """Compare two methods by their scores by seed."""
    if not np.isfinite([*mine, *theirs]).all():
        return Comparison(Order.NO_VALUE)
    if min(len(mine), len(theirs)) < FEWEST:
        return Comparison(Order.NO_INTERVAL)
    found = shift(mine, theirs, LEVEL)
    chance = float(probability_of_improvement(mine[:, None], theirs[:, None]))
    if found.level < LEVEL:
        return Comparison(Order.TOO_FEW, found, chance)
    order = Order.ABOVE if found.low > 0 else Order.BELOW if found.high < 0 else Order.UNDECIDED
    return Comparison(order, found, chance)


def sentences(study: Study, results: Results) -> list[str]:
    """A sentence per task: the first method against each other one."""
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
    """`reference` against the other methods, grouped by order."""
    others = [method for method in scores if method != reference]
    if reference not in scores or not others:
        return f"{opening}: nothing to compare with."
    words = {
        Order.ABOVE: f"{reference} is above {{}}",
        Order.BELOW: f"{reference} is below {{}}",
        Order.UNDECIDED: f"{reference} cannot be told apart at the end from {{}}",
        Order.TOO_FEW: f"too few seeds for an order of {reference} and {{}}",
        Order.NO_VALUE: f"some runs of {reference} or of {{}} have no value, so no order is given",
        Order.NO_INTERVAL: f"no interval is possible for {reference} and {{}} "
        f"(it takes {FEWEST} seeds each, and an order {ORDERED}, or {FEWEST} against 5)",
    }
    named: dict[Order, list[str]] = {}
    for method in others:
        order, text = _named(method, scores[reference], scores[method])
        named.setdefault(order, []).append(text)
    parts = [text.format(_listed(named[order])) for order, text in words.items() if order in named]
    return f"{opening}: {'; '.join(parts)}."


def _named(method: str, mine: Scores, theirs: Scores) -> tuple[Order, str]:
    """A method with its numbers, and those of averages where runs end alike."""
    found = compare(mine.final, theirs.final)
    if found.order in (Order.NO_VALUE, Order.NO_INTERVAL):
        return found.order, method
    evidence = found.evidence
    if found.order is Order.UNDECIDED:
        earlier = compare(mine.average, theirs.average)
        if earlier.order in (Order.ABOVE, Order.BELOW):
            evidence += f"; on average over the run it is {earlier.order}: {earlier.evidence}"
    return found.order, f"{method} ({evidence})"


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


def comparisons_made(study: Study, results: Results) -> int:
    """Tests behind the sentences: one for a pair, and another where runs end alike."""
    count = 0
    for task in study.tasks:
        mine, *others = (results.scores(task.name, method) for method in study.names())
        orders = [compare(mine.final, theirs.final).order for theirs in others]
        tested = sum(order in (Order.ABOVE, Order.BELOW, Order.UNDECIDED) for order in orders)
        count += tested + orders.count(Order.UNDECIDED)
    return count


def by_chance(tests: int) -> str:
    """How many of the tests chance alone could decide."""
    return (
        f"Of the {tests} tests behind this up to {tests * (1 - LEVEL):.1f} would show an order by "
        "chance if there were none; nothing is corrected for that."
    )


def caveat(tests: int) -> str:
    """How the differences were computed."""
    text = (
        "Differences are medians over all pairs of runs with the exact interval of the rank-sum "
        "test (distribution-free; its level is the lowest from 95 % on that so few runs allow). "
        "The bootstrap interval of the IQM is too narrow for so few runs and decides nothing."
    )
    return f"{text} {by_chance(tests)}" if tests > 1 else text


@dataclass(frozen=True)
class Claim:
    """One method against others on some tasks, as the paper claims."""

    method: str
    relation: Relation
    others: tuple[str, ...]
    tasks: tuple[str, ...]
    beyond: tuple[str, ...] = ()
    """Further tasks, which the paper does not show."""
    metric: str | None = None
    """A column of the metrics; the study's where not given."""

    def verdict(self, found: Shift) -> Verdict:
        """Whether an interval supports the claim, contradicts it, or neither."""
        holds, fails = {
            "above": (found.low > 0, found.high <= 0),
            "below": (found.high < 0, found.low >= 0),
            "little above": (found.high <= MARGIN, found.low > MARGIN),
            "not below": (found.low >= -MARGIN, found.high < -MARGIN),
        }[self.relation]
        return Verdict.HOLDS if holds else Verdict.FAILS if fails else Verdict.OPEN

    def test(self, mine: np.ndarray, theirs: np.ndarray) -> tuple[str, Verdict]:
        """The difference of two methods, and the verdict on the claim."""
        fewest = min(len(mine), len(theirs))
        if fewest < FEWEST:
            return "-", Verdict.TOO_FEW if fewest else Verdict.NOT_RUN
        found = compare(mine, theirs)
        if found.order is Order.NO_VALUE:
            return "-", Verdict.NO_VALUE
        few = found.order is Order.TOO_FEW
        return found.difference, Verdict.TOO_FEW if few else self.verdict(found.shift)


class ClaimRow(NamedTuple):
    """A claim on one task against one method: difference and verdict, at the end of the budget and
    on average over it."""

    task: str
    other: str
    end: tuple[str, Verdict]
    average: tuple[str, Verdict]


def claims_markdown(claims: Mapping[str, Claim], results: Results) -> str:
    """A line per claim, then a row for every task and other method."""
    header = ("claim", "task", "should be", "at the end", "verdict", "on average", "verdict")
    lines, table, tests = [], [], 0
    for words, claim in claims.items():
        rows = claim_rows(claim, claim.tasks, results)
        more = claim_rows(claim, claim.beyond, results)
        ours = f" In tasks that the paper does not show: {summed(more)}" if more else ""
        lines.append(f"- {words}: {summed(rows)}{ours}")
        for row in (*rows, *more):
            task = f"{row.task} (ours)" if row.task in claim.beyond else row.task
            should = f"{claim.method} {claim.relation} {row.other}"
            table.append((words if row is rows[0] else "", task, should, *row.end, *row.average))
            tests += sum(verdict in TESTED for _, verdict in (row.end, row.average))
    parts = ["\n".join(lines), markdown_table(header, table)]
    return "\n\n".join([*parts, *([by_chance(tests)] if tests else [])])


def claim_rows(claim: Claim, tasks: Sequence[str], results: Results) -> list[ClaimRow]:
    """The claim on each of the tasks, against each of its other methods."""
    rows = []
    for task in tasks:
        mine = results.scores(task, claim.method, claim.metric)
        for other in claim.others:
            theirs = results.scores(task, other, claim.metric)
            end = claim.test(mine.final, theirs.final)
            rows.append(ClaimRow(task, other, end, claim.test(mine.average, theirs.average)))
    return rows


def summed(rows: Sequence[ClaimRow]) -> str:
    """A claim about all of them: it holds where all rows do and fails where one does."""
    return (
        f"at the end {overall([row.end[1] for row in rows])}; "
        f"on average {overall([row.average[1] for row in rows])}."
    )


def overall(verdicts: Sequence[Verdict]) -> str:
    """One verdict for several, with their counts."""
    found = Counter(verdicts)
    if len(found) == 1:
        return f"{verdicts[0]} ({len(verdicts)} of {len(verdicts)})"
    counts = ", ".join(f"{count} {verdict}" for verdict, count in found.items())
    if not found.keys() & TESTED:
        return f"not judged ({counts})"
    return f"{Verdict.FAILS if found[Verdict.FAILS] else Verdict.OPEN} ({counts})"
