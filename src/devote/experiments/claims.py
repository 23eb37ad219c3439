"""What the paper says about methods on tasks, beside what the runs here allow to say."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from devote.experiments.results import Results
from devote.experiments.sentences import ABOVE, BELOW, EQUAL, UNTOLD, compared
from devote.measure.statistics import FEWEST

HOLDS = {
    "above": (ABOVE,),
    "below": (BELOW,),
    "not above": (BELOW, EQUAL),
    "not below": (ABOVE, EQUAL),
}
"""By what the paper says: findings that go with it."""


@dataclass(frozen=True)
class Claim:
    """One method against others on some tasks, as a sentence of the paper has it."""

    words: str
    method: str
    relation: str
    """A key of HOLDS."""
    others: tuple[str, ...]
    tasks: tuple[str, ...]
    beyond: tuple[str, ...] = ()
    """Tasks that the paper does not show and the claim is held against all the same."""


HEADER = ("the paper", "task", "method", "should be", "at the end", "", "on average", "")


def as_markdown(claims: Sequence[Claim], results: Results) -> str:
    """A row for every claim, task and other method: difference and verdict, of the final values
    and of their averages over the budget."""
    lines = [f"| {' | '.join(HEADER)} |", "| --- " * len(HEADER) + "|"]
    lines += [row for claim in claims for row in _rows(claim, results)]
    return "\n".join(lines)


def _rows(claim: Claim, results: Results) -> Iterator[str]:
    words = claim.words
    for task in (*claim.tasks, *claim.beyond):
        name = f"{task} (ours)" if task in claim.beyond else task
        for other in claim.others:
            mine, theirs = (results.scores(task, method) for method in (claim.method, other))
            cells = [words, name, claim.method, f"{claim.relation} {other}"]
            cells += _held(claim.relation, mine.final, theirs.final)
            cells += _held(claim.relation, mine.average, theirs.average)
            yield f"| {' | '.join(cells)} |"
            words = ""


def _held(relation: str, mine: np.ndarray, theirs: np.ndarray) -> tuple[str, str]:
    """Difference and verdict."""
    fewest = min(len(mine), len(theirs))
    if fewest < FEWEST:
        return "-", "too few seeds" if fewest else "not run"
    finding, difference, _ = compared(mine, theirs)
    return difference, judged(relation, finding)


def judged(relation: str, finding: str) -> str:
    """Whether a finding bears out what the paper says, speaks against it, or leaves it open."""
    if finding == UNTOLD:
        return "too few seeds"
    if finding == EQUAL:  # no proof of equality
        return "not contradicted" if EQUAL in HOLDS[relation] else "open: cannot be told apart"
    return "holds" if finding in HOLDS[relation] else "does not hold"
