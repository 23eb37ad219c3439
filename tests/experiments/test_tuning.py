"""Where settings are looked for, without a trial."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from pretended import ASKED, pretend

from devote.build import AGENTS
from devote.core.errors import UserError
from devote.core.settings import flat
from devote.experiments.commands import study_of, tuning_of
from devote.experiments.comparison import Method
from devote.experiments.tuning import Space, Tuning, parse_space, write_tuning


def tuning(agent: str) -> Tuning:
    study = study_of(replace(ASKED, agents=(agent,)))
    return tuning_of(study, study.tasks[1], study.methods[0], 5)


@pytest.mark.parametrize("agent", AGENTS)
def test_every_agent_has_main_settings_that_can_be_looked_for(agent: str) -> None:
    asked = tuning(agent)
    found, known = asked.spaces, flat(asked.default.agent)
    assert {"learning_rate", "polyak"} < found.keys()
    assert ("reset_strength" in found) == (
        found.keys() >= {"optimism"} and asked.default.agent.reset_strength > 0
    )
    for name, space in found.items():
        assert space.low < space.high
        assert space.holds(known[name])
        assert any(asked.default != asked.run_with({name: text}) for text in space.texts())


def test_what_is_given_takes_the_place_of_a_range_and_what_is_set_stays() -> None:
    asked = tuning("devote,optimism=3")
    assert "optimism" not in asked.spaces
    named = ("polyak=0.1:0.2:log", "optimiser=adam,laprop", "num_indices=4", "length_scale=x2")
    asked = replace(asked, given=tuple(map(parse_space, named)))
    assert asked.spaces["polyak"] == Space(0.1, 0.2, log=True)
    length = asked.default.agent.length_scale
    assert asked.spaces["length_scale"] == Space(length / 2, length * 2, log=True)
    assert asked.spaces["optimiser"].choices == ("adam", "laprop")
    assert asked.run_with({"optimiser": "laprop"}).agent.optimism == 3
    assert asked.journal != tuning("devote,optimism=3").journal


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("polyak", "name=low:high"),
        ("polyak=1:2:lin", "name=low:high"),
        ("polyak=a:b", "numbers as the ends of polyak"),
        ("polyak=2:1", "low below high for polyak"),
        ("polyak=0:1:log", "above 0 with log"),
        ("polyk=0.1:0.2", "did you mean polyak?"),
        ("polyak=0.1:7", "expected polyak from 0 to 1"),
        ("optimiser=adam,sgd", "optimiser"),
        ("num_envs=1:2", "a setting of sac"),
    ],
)
def test_a_space_that_cannot_be_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        _ = replace(tuning("sac"), given=(parse_space(text),)).spaces
    assert message in str(caught.value)


def test_seeds_of_trials_are_for_tuning() -> None:
    cells = tuning("sac").cells({"polyak": "0.2"})
    assert [cell.run.seed for cell in cells] == [101, 102]
    assert {cell.run.agent.polyak for cell in cells} == {0.2}


def test_a_trial_that_was_given_up_has_no_score(tmp_path: Path) -> None:
    optuna = pytest.importorskip("optuna", reason="no Optuna: pip install devote[tune]")
    study = study_of(replace(ASKED, agents=("sac",), runs=tmp_path / "runs"))
    asked = tuning_of(study, study.tasks[0], study.methods[0], 2)
    changes = {"polyak": "0.2"}
    for state, value in (("COMPLETE", 0.5), ("PRUNED", 0.9)):
        asked.open().add_trial(
            optuna.trial.create_trial(
                state=optuna.trial.TrialState[state],
                value=value,
                user_attrs={"changes": changes, "words": "as it ended"},
            )
        )
    for cell in asked.cells(changes):
        pretend(cell, [0.5])
    write_tuning(asked, tmp_path / "out", "devote tune")
    with open(tmp_path / "out" / "trials.csv", newline="") as file:
        assert [row["score"] for row in csv.DictReader(file)] == ["0.5", ""]
    readme = (tmp_path / "out" / "README.md").read_text()
    assert "The best scores 0.5, finished " in readme
    assert "on seeds 101, 102" in readme


def test_tuned_settings_are_of_their_task_alone(tmp_path: Path) -> None:
    study = study_of(ASKED)
    (method, *_) = study.methods
    tuned = Method(method.name, method.agent, tuned=(("spiral", (("optimism", "7"),)),))
    runs = replace(study, methods=(tuned,)).runs()
    found = {task: cell.run.agent.optimism for (task, _, _), cell in runs.items()}
    assert found["spiral"] == 7
    assert (
        found["deep_sea_size_6"] == study.runs()["deep_sea_size_6", "devote", 0].run.agent.optimism
    )
