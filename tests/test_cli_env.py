"""Environments on the command line."""

from pathlib import Path
from typing import Any

import pytest

from corridor import QUIET
from devote.cli import default_name, dispatch, parse_train
from devote.core.errors import UserError

MINE = f"""{QUIET}
class Loud(Quiet):
    def step(self, action):
        return super().step(action)[:4]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my_envs.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_check_env_says_pass_and_fail_by_its_exit_code(here: Path, capsys: Any) -> None:
    assert dispatch(["check-env", "my_envs:Quiet"]) == 0
    assert "0 failed" in capsys.readouterr().out
    assert dispatch(["check-env", "my_envs:Loud"]) == 1
    text = capsys.readouterr().out
    assert "FAIL  step result: expected step to return 5 values; got 4 values" in text
    assert dispatch(["check-env", "CartPole-v1"]) == 0


@pytest.mark.parametrize("words", [[], ["--help-me"], ["a", "b"]])
def test_check_env_wants_one_name(words: list[str]) -> None:
    with pytest.raises(UserError, match="one environment"):
        dispatch(["check-env", *words])


def test_train_takes_a_gymnasium_id_or_an_environment_of_ones_own(here: Path) -> None:
    run, _ = parse_train(["CliffWalking-v1", "--time-limit", "50", "--agent", "sac"])
    assert (run.env_name, run.env.id, run.env.time_limit) == ("gymnasium", "CliffWalking-v1", 50)
    assert default_name(run) == "CliffWalking-v1-sac-desk-0"
    run, _ = parse_train(["my_envs:Quiet", "--coverage-entries", "0", "1"])
    assert (run.env.id, run.env.coverage_entries) == ("my_envs:Quiet", (0, 1))
    assert default_name(run) == "my_envs_Quiet-devote-desk-0"
    run, _ = parse_train(["gymnasium", "--id", "Acrobot-v1"])
    assert run.env.id == "Acrobot-v1"


def test_misspelt_ids_get_a_suggestion() -> None:
    with pytest.raises(UserError, match="CliffWalking"):
        parse_train(["CliffWlking-v1"])
    with pytest.raises(UserError, match="did you mean spiral"):
        parse_train(["spirl"])
