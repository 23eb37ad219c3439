"""Claims of the paper, held against runs: what an interval bears out, and what it leaves open."""

from pathlib import Path

import numpy as np
import pytest

from devote.experiments.claims import MARGIN, Claim, Relation, _held, as_markdown, judged
from devote.experiments.results import Results
from devote.experiments.study_files import Entry, RunLine
from devote.measure.statistics import Shift

FIVE = 0.001 * np.arange(5)


def results(runs: dict[tuple[str, str], tuple[float, float]]) -> Results:
    """Five runs of each task and method, by what they come to at the end and halfway."""
    entries = {}
    for (task, method), (end, halfway) in runs.items():
        for seed, apart in enumerate(FIVE):
            values = np.array([halfway, end]) + apart
            line = RunLine(
                task, method, seed, "desk", 2, "explore/coverage", values[-1], 1, "", "", "", ""
            )
            columns = {"step": np.array([1.0, 2.0]), "explore/coverage": values}
            entries[line.key] = Entry(line, columns)
    return Results(entries)


@pytest.mark.parametrize(
    ("relation", "low", "high", "verdict"),
    [
        ("above", 0.001, 0.5, "holds"),
        ("above", -0.1, 0.5, "open"),
        ("above", -0.5, -0.1, "does not hold"),
        ("above", 0.0, 0.0, "does not hold"),  # all runs end alike
        ("below", -0.5, -0.001, "holds"),
        ("below", -0.5, 0.1, "open"),
        ("below", 0.0, 0.0, "does not hold"),
        ("little above", -0.5, MARGIN, "holds"),
        ("little above", 0.001, MARGIN, "holds"),  # certainly above, and by little
        ("little above", 0.0, 0.5, "open"),
        ("little above", MARGIN + 0.01, 0.5, "does not hold"),
        ("not below", -MARGIN, 0.5, "holds"),
        ("not below", -0.5, 0.4, "open"),
        ("not below", -0.5, -MARGIN - 0.01, "does not hold"),
    ],
)
def test_an_interval_bears_a_claim_out_speaks_against_it_or_leaves_it_open(
    relation: Relation, low: float, high: float, verdict: str
) -> None:
    assert judged(relation, Shift((low + high) / 2, low, high, 0.97)) == verdict


def test_a_claim_holds_where_all_its_rows_do_and_fails_where_one_does() -> None:
    runs = {
        ("maze", "devote"): (0.9, 0.5),
        ("maze", "sac"): (0.2, 0.1),
        ("maze", "rnd"): (0.9, 0.1),
    }
    runs |= {("sea", name): (end, end) for name, end in (("devote", 0.5), ("sac", 0.6))}
    claim = Claim("It is best", "devote", "above", ("sac", "rnd"), ("maze",), ("sea",))
    said, _, table = as_markdown([claim], results(runs)).partition("\n\n")
    assert said == (
        "- It is best: at the end open (1 holds, 1 open); on average holds (2 of 2). "
        "In tasks that the paper does not show: at the end does not hold (1 does not hold, "
        "1 not run); on average does not hold (1 does not hold, 1 not run)."
    )
    rows = [[part.strip() for part in row.split("|")[1:-1]] for row in table.splitlines()[2:6]]
    assert [row[:3] for row in rows] == [
        ["It is best", "maze", "devote above sac"],
        ["", "maze", "devote above rnd"],
        ["", "sea (ours)", "devote above sac"],
        ["", "sea (ours)", "devote above rnd"],
    ]
    assert rows[0][3].startswith("+0.700 [+0.697, +0.703]")
    assert [row[4] for row in rows] == ["holds", "open", "does not hold", "not run"]
    assert [row[6] for row in rows] == ["holds", "holds", "does not hold", "not run"]
    assert table.endswith(
        "Of the 6 tests behind this up to 0.3 would show an order by chance if there were "
        "none; nothing is corrected for that."
    )


def test_a_claim_about_tasks_that_are_not_run_says_nothing() -> None:
    claim = Claim("It is best", "devote", "above", ("sac",), ("sea", "maze"))
    said = as_markdown([claim], results({})).splitlines()[0]
    assert said == "- It is best: at the end not run (2 of 2); on average not run (2 of 2)."


def test_a_claim_about_a_run_without_a_value_says_so() -> None:
    mine = np.array([0.1, np.nan, 0.2, 0.3, 0.4])
    assert _held("above", mine, np.zeros(5)) == ("-", "no value")


def test_claims_need_an_order(tmp_path: Path) -> None:
    few = results({("maze", "devote"): (0.9, 0.5), ("maze", "sac"): (0.2, 0.1)})
    few = Results({key: entry for key, entry in few.shown.items() if key[2] < 3})
    claim = Claim("It is best", "devote", "above", ("sac",), ("maze",))
    text = as_markdown([claim], few)
    assert "| too few seeds |" in text
    assert "by chance" not in text
    both = Claim("It is best", "devote", "above", ("sac", "rnd"), ("maze",))
    said = as_markdown([both], few).splitlines()[0]
    assert "at the end not judged (1 too few seeds, 1 not run);" in said
