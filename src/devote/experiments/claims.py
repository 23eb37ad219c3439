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


def as_markdown(claims: Sequence[Claim], results: Results) -> str:
    """A row for every claim, task and other method."""
    lines = ["| the paper | task | method | should be | difference | here |", "| --- " * 6 + "|"]
    lines += [row for claim in claims for row in _rows(claim, results)]
    return "\n".join(lines)


def _rows(claim: Claim, results: Results) -> Iterator[str]:
    words = claim.words
    for task in claim.tasks:
        for other in claim.others:
            mine, theirs = (
                np.array([line.final for line in results.of(task, method)])
                for method in (claim.method, other)
            )
            difference, verdict = "-", "not run"
            if min(len(mine), len(theirs)) >= FEWEST:
                finding, difference, _ = compared(mine, theirs)
                verdict = judged(claim.relation, finding)
            should = f"{claim.relation} {other}"
            yield f"| {words} | {task} | {claim.method} | {should} | {difference} | {verdict} |"
            words = ""


def judged(relation: str, finding: str) -> str:
    """Whether a finding bears out what the paper says, speaks against it, or leaves it open."""
    if finding == UNTOLD:
        return "too few seeds"
    if finding == EQUAL:  # no proof of equality
        return "not contradicted" if EQUAL in HOLDS[relation] else "open: cannot be told apart"
    return "holds" if finding in HOLDS[relation] else "does not hold"
