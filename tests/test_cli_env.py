"""Environments on the command line."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from corridor import QUIET
from devote.cli import HELP, default_name, dispatch, parse_train
from devote.core.errors import UserError

MINE = f"""{QUIET}
class Loud(Quiet):
    def step(self, action):
        return super().step(action)[:4]
"""


CRASHES = f"""{QUIET}
import signal

class Crash(Quiet):
    def step(self, action):
        signal.raise_signal(signal.SIGSEGV)
"""


LEAVES = f"""{QUIET}
import os

class Leave(Quiet):
    def step(self, action):
        os._exit(0)
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


def test_check_env_names_an_environment_that_ends_its_process(here: Path, capsys: Any) -> None:
    (here / "leaving.py").write_text(LEAVES)
    assert dispatch(["check-env", "leaving:Leave"]) == 1
    text = capsys.readouterr().out
    assert "pass  action space" in text
    assert "FAIL  answers: expected an environment that leaves its process running" in text
    assert "ended with exit code 0 in step 1; last action" in text


def test_check_env_explains_itself(capsys: Any) -> None:
    for flag in HELP:
        assert dispatch(["check-env", flag]) == 0
        assert "usage: devote check-env ENV" in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["--help-me"], ["a", "b"]])
def test_check_env_wants_one_name(words: list[str]) -> None:
    with pytest.raises(UserError, match="one environment"):
        dispatch(["check-env", *words])


@pytest.mark.parametrize("name", ["my_envs.py:Quiet", "./my_envs:Quiet", ":Quiet", "my_envs:"])
def test_a_name_that_python_could_not_import_is_told_how_to_write_it(here: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"expected module:name; .*without \.py or slashes"):
        dispatch(["check-env", name])


@pytest.mark.parametrize("text", ["def f(:", "1 / 0"])
def test_a_module_that_fails_is_reported_in_its_own_words(here: Path, text: str) -> None:
    (here / "fails_so.py").write_text(text)
    with pytest.raises(UserError, match=r"to import fails_so; got \w+Error.*(?s:.)*fails_so\.py"):
        dispatch(["check-env", "fails_so:MyEnv"])


def test_a_crash_in_native_code_shows_where(here: Path) -> None:
    (here / "crashes.py").write_text(CRASHES)
    words = [sys.executable, "-m", "devote", "check-env", "crashes:Crash"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    assert "ended with exit code -11 in step 1" in ended.stdout
    assert "crashes.py" in ended.stderr
    assert "in step" in ended.stderr


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


def test_a_run_without_maps_says_how_to_have_them(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    ended = SimpleNamespace(stopped_by=None)
    monkeypatch.setattr("devote.loops.train.train", lambda plan: ended)
    monkeypatch.setattr("devote.run_report.draw_run", lambda result, directory, title: [])
    monkeypatch.setattr("devote.cli.use_compilation_cache", lambda: None)
    assert dispatch(["train", "MountainCarContinuous-v0", "--preset", "smoke"]) == 0
    assert "no maps: " in capsys.readouterr().out
    monkeypatch.setattr("devote.run_report.draw_run", lambda result, directory, title: ["map.png"])
    assert dispatch(["train", "MountainCarContinuous-v0", "--preset", "smoke"]) == 0
    text = capsys.readouterr().out
    assert "wrote map.png" in text
    assert "no maps" not in text
