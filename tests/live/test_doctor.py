"""The doctor names each illness of runs made to have it, and finds nothing in healthy ones."""

import re
import tomllib
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runs_made import OPEN, ROWS, SIDE, STEPS, columns, history, make, picture, settings

from devote.cli import dispatch
from devote.core.errors import UserError
from devote.core.settings import entries
from devote.doctor import CHECKS, examine, scope
from devote.loops.snapshots import Snapshot

COLUMN = np.arange(SIDE * SIDE) % SIDE
SEEN = OPEN & (COLUMN <= 7)
BEYOND = OPEN & (COLUMN > 7)
NOVELTY, VALUE = "novelty |c + g|", "novelty value rb"
REWARDED = {"rollout__ep_rew_mean": np.r_[0.0, 0.0, np.full(ROWS - 2, 5.0)]}
LEARNED = {**REWARDED, "train__target_mean": np.linspace(0, 0.5, ROWS)}
Case = tuple[dict[str, Any], dict[str, np.ndarray], list[Snapshot]]


def case(
    changes: dict[str, Any] | None = None,
    table: dict[str, Any] | None = None,
    last: Snapshot | None = None,
    first: Snapshot | None = None,
) -> Case:
    return settings(**(changes or {})), columns(**(table or {})), history(last, first)


def choosing(one: Snapshot) -> Snapshot:
    """The same with one of two actions to choose."""
    return replace(one, discrete=True, actions=2)


def rough(step: int) -> Snapshot:
    """Bins that know nothing of their neighbours."""
    noise = np.random.default_rng(0).uniform(0.2, 1.0, SIDE * SIDE)
    return picture(step, 1, **{NOVELTY: noise})


def drawn(**maps: np.ndarray) -> Snapshot:
    names = {"novelty": NOVELTY, "value": VALUE}
    return picture(STEPS, **{names[name]: values for name, values in maps.items()})


QUIET = np.r_[np.linspace(0.1, 0.4, 10), np.full(ROWS - 10, 0.4)]
BUBBLE = np.where(COLUMN == 2, 9.0, 1.0)
DULL = np.where(COLUMN == 2, 0.005, np.where(SEEN, 0.02 + COLUMN / 500, 0.6))
ILL: dict[str, list[Case]] = {
    "stalled": [
        case(table={"explore__coverage": QUIET, "explore__coverage_reachable": QUIET}),
    ],
    "value bubble": [case(last=drawn(value=BUBBLE, novelty=DULL))],
    "floor against horizon": [
        case({"discount": 0.999}),
        case(table={"explore__novelty": np.geomspace(0.29, 0.2, ROWS)}),
    ],
    "unknown looks worthless": [case(last=drawn(value=np.where(SEEN, 4.0, 0.2)))],
    "corrector too slow or too fast": [
        case({"discount": 0.5}, {"explore__novelty": np.full(ROWS, 0.55)}),
        case({"discount": 0.5}, last=drawn(novelty=np.full(SIDE * SIDE, 0.03))),
    ],
    "dormant explorer": [case(table={"plasticity__dormant_frac": np.linspace(0, 0.8, ROWS)})],
    "entropy collapsed or never fell": [
        case(table={"explore__entropy": np.linspace(1, -9, ROWS)}),
        case(table={"explore__entropy": np.full(ROWS, 1.38)}),
        case(table={"explore__entropy": np.full(ROWS, 1e-4)}, last=choosing(picture(STEPS))),
        case(table={"explore__entropy": np.full(ROWS, 0.69)}, last=choosing(picture(STEPS))),
    ],
    "length scale far from the data's spacing": [
        case(first=rough(0)),
        case(first=picture(0, 1, **{NOVELTY: 0.6 + 1e-3 * COLUMN})),
    ],
    "rewards seen but task value flat": [
        case(table={**REWARDED, "train__target_mean": np.full(ROWS, 0.02)}),
        case(table={"rollout__ep_rew_mean": -250.0, "train__target_mean": -1.1}),
    ],
    "reset interval against replay of rare transitions": [
        case({"reset_interval": 16_000, "batch_size": 128}),
    ],
    "too few updates for the rewards found": [
        case({"batch_size": 16, "reset_strength": 0.0}, LEARNED),
    ],
}
HEALTHY = {
    "as made": case(),
    "rewards, learned from": case(table=LEARNED),
    "a reward in the last moment": case(
        {"batch_size": 16, "reset_strength": 0.0},
        {"rollout__ep_rew_mean": np.r_[np.zeros(ROWS - 1), 1.0], "train__target_mean": 0.5},
    ),
    "all is covered, and so nothing new": case(
        table={
            "explore__coverage": np.minimum(1, np.linspace(0.5, 2, ROWS)),
            "explore__coverage_reachable": np.minimum(1, np.linspace(0.5, 2, ROWS)),
        },
        last=picture(STEPS, SIDE),
    ),
    "costs, known to the value": case(
        table={"rollout__ep_rew_mean": -250.0, "train__target_mean": -40.0}
    ),
    "just begun": (settings(), columns(2), [picture(0, 1)]),
    "hardly any updates yet": case(
        table={"explore__novelty": 0.55, "train__n_updates": np.linspace(0, 900, ROWS)}
    ),
    "no maps": (settings(), columns(), []),
    "nothing to choose between": case(
        table={"explore__entropy": np.full(ROWS, 0.1)}, last=choosing(picture(STEPS))
    ),
}


def names(told: Case) -> set[str]:
    return {finding.name for finding in examine(*told)}


@pytest.mark.parametrize("told", HEALTHY.values(), ids=HEALTHY)
def test_healthy_runs_have_no_finding(told: Case) -> None:
    assert examine(*told) == []


ALL = [(name, told) for name, cases in ILL.items() for told in cases]


@pytest.mark.parametrize(("name", "told"), ALL, ids=[name for name, _ in ALL])
def test_each_illness_is_found_and_no_other(name: str, told: Case) -> None:
    assert names(told) == {name}


def test_every_check_has_a_run_that_is_ill_and_a_section_of_the_docs() -> None:
    assert ILL.keys() == CHECKS.keys()
    text = Path(__file__, "../../../docs/watch.md").resolve().read_text()
    for name in CHECKS:
        assert f"### {name}\n" in text
        (found,) = [one for one in examine(*ILL[name][0]) if one.name == name]
        assert found.page == "docs/watch.md#" + name.replace("'", "").replace(" ", "-")
        assert found.evidence
        assert found.threshold
        assert found.remedy


def test_an_agent_without_an_explorer_may_stay_random_until_there_are_rewards() -> None:
    _, table, maps = case(table={"train__entropy": 1.38})
    sac = {name: column for name, column in table.items() if name != "explore/entropy"}
    told = settings(agent="sac"), sac, maps
    assert names(told) == set()
    paid = columns(**LEARNED, train__entropy=1.38)
    del paid["explore/entropy"]
    assert names((told[0], paid, maps)) == {"entropy collapsed or never fell"}


def test_each_seed_is_examined_and_the_ill_one_named() -> None:
    given, one, maps = case()
    ill = columns(plasticity__dormant_frac=0.9) | {"seed": np.ones(ROWS)}
    table = {name: np.r_[one[name], ill[name]] for name in one}
    both = [
        replace(m, seeds=(0, 1), arrays={n: np.r_[a, a] for n, a in m.arrays.items()}) for m in maps
    ]
    (found,) = examine(given, table, both)
    assert (found.name, found.seed) == ("dormant explorer", 1)


def test_what_it_tells_to_try_names_real_settings() -> None:
    known = {name.rsplit(".", 1)[-1] for name, _ in entries(settings())}
    text = tomllib.loads((resources.files("devote") / "doctor.toml").read_text())
    forms = [form for said in text.values() for form in (said, *said.values())]
    advice = [form["try"] for form in forms if isinstance(form, dict) and "try" in form]
    assert len(advice) == len(CHECKS) + 3  # three checks have two forms
    for one in advice:
        for name in re.findall(r"\w+_\w+", one):
            assert name in known, one


def test_the_command_says_it_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make(tmp_path / "well", maps=history())
    assert dispatch(["doctor", str(run)]) == 0
    assert capsys.readouterr().out == f"no findings in {len(CHECKS)} checks\n"
    ill = make(tmp_path / "ill", columns(plasticity__dormant_frac=0.5))
    assert dispatch(["doctor", str(ill)]) == 1
    said = capsys.readouterr().out
    assert "dormant explorer (seed 0)\n  Much of the exploration actor is dormant" in said
    assert "seen: 50% of its units" in said
    assert "try: Shorten reset_interval" in said
    assert "1 finding in 11 checks, of which 7 need maps over two axes; this run has none" in said
    sparse = replace(picture(), arrays=picture().arrays | {"weights": np.ones((1, SIDE * SIDE))})
    assert scope([sparse]) == "11 checks, of which 6 need maps with a value in every bin"
    with pytest.raises(UserError, match="no settings"):
        dispatch(["doctor", str(tmp_path)])
