"""What the paper says about methods on tasks, beside what the runs here allow to say."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from devote.experiments.results import Results
from devote.experiments.sentences import NO_VALUE, UNTOLD, by_chance, compared
from devote.measure.statistics import FEWEST, Shift

MARGIN = 0.05
"""Coverage that still counts as "little benefit" or as "matching"; set before any reported run of a
rival was looked at."""
Relation = Literal["above", "below", "little above", "not below"]
HOLDS, FAILS, OPEN = "holds", "does not hold", "open"
FEW, NONE = "too few seeds", "not run"
JUDGED = {HOLDS, FAILS, OPEN}


@dataclass(frozen=True)
class Claim:
    """One method against others on some tasks, as a sentence of the paper has it."""

    words: str
    method: str
    relation: Relation
    others: tuple[str, ...]
    tasks: tuple[str, ...]
    beyond: tuple[str, ...] = ()
    """Tasks that the paper does not show and the claim is held against all the same."""


class Row(NamedTuple):
    """A claim on one task against one method: differences and verdicts, at the end of the budget
    and on average over it."""

    task: str
    other: str
    end: tuple[str, str]
    average: tuple[str, str]


def as_markdown(claims: Sequence[Claim], results: Results) -> str:
    """A line per claim, then a row for every task and other method."""
    header = ("claim", "task", "should be", "at the end", "verdict", "on average", "verdict")
    lines, table = [], [f"| {' | '.join(header)} |", "| --- " * len(header) + "|"]
    tests = 0
    for claim in claims:
        rows = list(rows_of(claim, claim.tasks, results))
        more = list(rows_of(claim, claim.beyond, results))
        ours = f" In tasks that the paper does not show: {_summed(more)}" if more else ""
        lines.append(f"- {claim.words}: {_summed(rows)}{ours}")
        words = claim.words
        for row in (*rows, *more):
            task = f"{row.task} (ours)" if row.task in claim.beyond else row.task
            should = f"{claim.method} {claim.relation} {row.other}"
            table.append(f"| {' | '.join((words, task, should, *row.end, *row.average))} |")
            words = ""
            tests += sum(found in JUDGED for _, found in (row.end, row.average))
    return "\n".join([*lines, "", *table, *(["", by_chance(tests)] if tests else [])])


def rows_of(claim: Claim, tasks: Sequence[str], results: Results) -> Iterator[Row]:
    """A claim held against every task and every other method that it names."""
    for task in tasks:
        for other in claim.others:
            mine, theirs = (results.scores(task, method) for method in (claim.method, other))
            yield Row(
                task,
                other,
                _held(claim.relation, mine.final, theirs.final),
                _held(claim.relation, mine.average, theirs.average),
            )


def _summed(rows: Sequence[Row]) -> str:
    """A claim about all of them: it holds where all rows do and fails where one does."""
    parts = [
        f"{when} {_whole([row[place][1] for row in rows])}"
        for when, place in (("at the end", 2), ("on average", 3))
    ]
    return f"{'; '.join(parts)}."


def _whole(verdicts: Sequence[str]) -> str:
    found = Counter(verdicts)
    if len(found) == 1:
        return f"{verdicts[0]} ({len(verdicts)} of {len(verdicts)})"
    counts = ", ".join(f"{count} {verdict}" for verdict, count in found.items())
    if not found.keys() & JUDGED:
        return f"not judged ({counts})"
    return f"{FAILS if found[FAILS] else OPEN} ({counts})"


def _held(relation: Relation, mine: np.ndarray, theirs: np.ndarray) -> tuple[str, str]:
    """Difference and verdict."""
    fewest = min(len(mine), len(theirs))
    if fewest < FEWEST:
        return "-", FEW if fewest else NONE
    if not np.isfinite([*mine, *theirs]).all():
        return "-", NO_VALUE
    found = compared(mine, theirs)
    return found.difference, FEW if found.order == UNTOLD else judged(relation, found.shift)


def judged(relation: Relation, found: Shift) -> str:
    """Whether an interval bears out what the paper says, speaks against it, or leaves it open."""
    holds, fails = {
        "above": (found.low > 0, found.high <= 0),
        "below": (found.high < 0, found.low >= 0),
        "little above": (found.high <= MARGIN, found.low > MARGIN),
        "not below": (found.low >= -MARGIN, found.high < -MARGIN),
    }[relation]
    return HOLDS if holds else FAILS if fails else OPEN
