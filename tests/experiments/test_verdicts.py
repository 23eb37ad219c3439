"""Sentences and claims: what an interval bears out, and what it leaves open."""

import re
from pathlib import Path

import numpy as np
import pytest

from devote.experiments.comparison import Study
from devote.experiments.results import RecordedRun, Results, RunLine, Scores, collect
from devote.experiments.verdicts import (
    MARGIN,
    ORDERED,
    Claim,
    Relation,
    caveat,
    claims_markdown,
    comparisons_made,
    sentence,
    sentences,
)
from devote.measure.statistics import FEWEST, Shift

HIGH_LOW = ((9, "a"), (0, "b"))
FIVE = 0.001 * np.arange(5)


def made_up(runs: dict[tuple[str, str], tuple[float, float]]) -> Results:
    """Five runs of each task and method, by what they come to at the end and halfway."""
    entries = {}
    for (task, method), (end, halfway) in runs.items():
        for seed, apart in enumerate(FIVE):
            values = np.array([halfway, end]) + apart
            line = RunLine(
                task, method, seed, "desk", 2, "explore/coverage", values[-1], 1, "", "", "", ""
            )
            columns = {"step": np.array([1.0, 2.0]), "explore/coverage": values}
            entries[line.key] = RecordedRun(line, columns)
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
    claim = Claim("", relation, (), ())
    assert claim.verdict(Shift((low + high) / 2, low, high, 0.97)) == verdict


def test_a_claim_holds_where_all_its_rows_do_and_fails_where_one_does() -> None:
    runs = {
        ("maze", "devote"): (0.9, 0.5),
        ("maze", "sac"): (0.2, 0.1),
        ("maze", "rnd"): (0.9, 0.1),
    }
    runs |= {("sea", name): (end, end) for name, end in (("devote", 0.5), ("sac", 0.6))}
    claim = Claim("devote", "above", ("sac", "rnd"), ("maze",), ("sea",))
    said, _, table = claims_markdown({"It is best": claim}, made_up(runs)).partition("\n\n")
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
    claim = Claim("devote", "above", ("sac",), ("sea", "maze"))
    said = claims_markdown({"It is best": claim}, made_up({})).splitlines()[0]
    assert said == "- It is best: at the end not run (2 of 2); on average not run (2 of 2)."


def test_a_claim_about_a_run_without_a_value_says_so() -> None:
    mine = np.array([0.1, np.nan, 0.2, 0.3, 0.4])
    claim = Claim("", "above", (), ())
    assert claim.test(mine, np.zeros(5)) == ("-", "no value")


def test_claims_need_an_order(tmp_path: Path) -> None:
    few = made_up({("maze", "devote"): (0.9, 0.5), ("maze", "sac"): (0.2, 0.1)})
    few = Results({key: entry for key, entry in few.shown.items() if key[2] < 3})
    claim = Claim("devote", "above", ("sac",), ("maze",))
    text = claims_markdown({"It is best": claim}, few)
    assert "| too few seeds |" in text
    assert "by chance" not in text
    both = Claim("devote", "above", ("sac", "rnd"), ("maze",))
    said = claims_markdown({"It is best": both}, few).splitlines()[0]
    assert "at the end not judged (1 too few seeds, 1 not run);" in said


@pytest.mark.parametrize(
    ("mine", "theirs", "words"),
    [
        ([0.9, 0.8], [0.1, 0.2], "no interval is possible for a and b (it takes 3 seeds each"),
        ([0.9, np.nan], [0.1, 0.2], "some runs of a or of b have no value"),
        ([0.9], [0.1], "no interval is possible for a and b"),
        ([0.9, 0.8, 0.85], [0.1, 0.2, 0.1], "too few seeds for an order of a and b (difference"),
        ([0.9, 0.8, 0.85, 0.9], [0.1, 0.2, 0.1, 0.3], "a is above b (difference +0.7"),
        ([0.1, 0.2, 0.1, 0.3], [0.9, 0.8, 0.85, 0.9], "a is below b (difference -0.7"),
        ([0.1, 0.9, 0.5, 0.6], [0.2, 0.8, 0.5, 0.7], "a cannot be told apart at the end from b"),
        ([0.9, 0.8, 0.85, np.nan], [0.1, 0.2, 0.1, 0.3], "some runs of a or of b have no value"),
    ],
)
def test_sentences_say_what_the_seeds_allow(
    mine: list[float], theirs: list[float], words: str
) -> None:
    scores = {"a": Scores(*[np.array(mine)] * 2), "b": Scores(*[np.array(theirs)] * 2)}
    text = sentence("maze", scores, "a")
    assert words in text
    claims = ("above", "below", "apart", "too few", "no interval", "no value")
    assert sum(claim in text for claim in claims) == 1


def test_three_and_four_seeds_are_what_intervals_and_orders_take() -> None:
    for count in range(2, 6):
        text = sentence("maze", {x: Scores(*[np.arange(count) + i] * 2) for i, x in HIGH_LOW}, "a")
        assert ("no interval" in text) == (count < FEWEST)
        assert ("is above" in text) == (count >= ORDERED)


def test_the_side_of_zero_shows_in_the_digits() -> None:
    near, zero = np.array([0.0004, 0.0005, 0.0006, 0.0004]), np.zeros(4)
    assert "above b (difference +4e-04 [+4e-04, +0.001]" in sentence(
        "maze", {"a": Scores(near, near), "b": Scores(zero, zero)}, "a"
    )
    same = sentence("maze", {"a": Scores(zero, zero), "b": Scores(zero, zero)}, "a")
    assert "(difference 0.000 [0.000, 0.000]" in same


def test_methods_of_one_verdict_stand_together() -> None:
    low, high = (np.array([x, x + 0.01, x + 0.02, x + 0.03]) for x in (0.1, 0.5))
    scores = {name: Scores(x, x) for name, x in (("a", high), ("b", low), ("c", high), ("d", low))}
    text = sentence("maze", scores, "a")
    assert re.fullmatch(
        r"maze: a is above b \(difference \+0\.400 [^)]*ahead in 100% of pairs\) and d \([^)]*\); "
        r"a cannot be told apart at the end from c \([^)]*ahead in 50% of pairs\)\.",
        text,
    )


def test_runs_that_end_alike_are_told_apart_by_their_averages() -> None:
    end, early, late = np.ones(5), 0.9 + 0.01 * np.arange(5), 0.6 + 0.01 * np.arange(5)
    scores = {"a": Scores(end, early), "b": Scores(end, late), "c": Scores(end[:2], late[:2])}
    text = sentence("maze", scores, "a")
    assert "a cannot be told apart at the end from b (" in text
    assert "on average over the run it is above: difference +0.300" in text
    assert "no interval is possible for a and c (" in text  # b is told all the same
    assert "on average over the run it is below" in sentence("maze", scores, "b")


def test_as_many_tests_are_counted_as_were_made(study: Study, tmp_path: Path) -> None:
    results = collect(study, tmp_path)
    assert comparisons_made(study, results) == 3  # in the maze both end alike: a second look
    few = Results({key: entry for key, entry in results.shown.items() if key[2] < 3})
    assert comparisons_made(study, few) == 0
    assert "Of the 3 tests behind this up to 0.2 would" in caveat(3)
    assert "by chance" not in caveat(1)


def test_a_task_without_a_finished_run_has_a_sentence_too(study: Study, tmp_path: Path) -> None:
    for (task, _, _), cell in study.runs().items():
        if task == "spiral":
            cell.record.unlink()
    assert sentences(study, collect(study, tmp_path / "new"))[1].startswith("spiral: no run")
