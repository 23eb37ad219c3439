"""Environments on the command line."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import devote.cli
from corridor import QUIET
from devote.cli import HELP, default_name, dispatch, parse_train, plain_warning
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
    assert (
        "FAIL  runs: expected no exception; got SystemExit: os._exit(0) in step 1 after action"
        in text
    )
    assert "os._exit(0)" in text


def test_check_env_takes_the_options_of_an_environment(here: Path, capsys: Any) -> None:
    words = ["check-env", "FrozenLake-v1", "--env-options"]
    assert dispatch([*words, "is_slippery=false", "map_name=8x8"]) == 0
    assert "observation space: an integer with 64 values" in capsys.readouterr().out
    assert dispatch([*words, "slippery=false"]) == 1
    assert "options that FrozenLake-v1 takes" in capsys.readouterr().out
    with pytest.raises(UserError, match="write name=value"):
        dispatch([*words, "is_slippery"])


def test_check_env_does_not_look_for_our_own_tasks_in_gymnasium() -> None:
    with pytest.raises(UserError, match="got spiral, a task of devote; devote train spiral"):
        dispatch(["check-env", "spiral"])


def test_our_own_warnings_come_without_a_line_of_our_code() -> None:
    mine = devote.cli.__file__
    assert plain_warning("no time limit", UserWarning, mine, 3) == "devote: no time limit\n"
    assert plain_warning("other", UserWarning, "/x.py", 3) == "/x.py:3: UserWarning: other\n"


def test_check_env_explains_itself(capsys: Any) -> None:
    for flag in HELP:
        with pytest.raises(SystemExit, match="0"):
            dispatch(["check-env", flag])
        text = capsys.readouterr().out
        assert "usage: devote check-env [-h] STR" in text
        assert "module:MyEnv" in text


@pytest.mark.parametrize("words", [[], ["--help-me"], ["a", "b"]])
def test_check_env_wants_one_name(words: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
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
    run, *_ = parse_train(["CliffWalking-v1", "--time-limit", "50", "--agent", "sac"])
    assert (run.env_name, run.env.id, run.env.time_limit) == ("gymnasium", "CliffWalking-v1", 50)
    assert default_name(run).startswith("CliffWalking-v1-sac-desk-0-")
    run, *_ = parse_train(["my_envs:Quiet", "--coverage-entries", "0", "1"])
    assert (run.env.id, run.env.coverage_entries) == ("my_envs:Quiet", (0, 1))
    assert default_name(run).startswith("my_envs_Quiet-devote-desk-0-")
    run, *_ = parse_train(["gymnasium", "--id", "Acrobot-v1"])
    assert run.env.id == "Acrobot-v1"
    assert default_name(run) == "Acrobot-v1-devote-desk-0"


def test_runs_of_other_settings_have_other_folders() -> None:
    words = [[], ["--size", "20"], ["--size", "30"], ["--size", "30", "--steps", "5000"]]
    names = [default_name(parse_train(["deep_sea", *more])[0]) for more in words]
    assert names[0] == "deep_sea-devote-desk-0"
    assert len(set(names)) == 3
    assert names[2] == names[3]  # a longer run goes on with the shorter one
    ids = [default_name(parse_train(["brax", "--id", name])[0]) for name in ("ant", "hopper")]
    assert ids == ["ant-devote-desk-0", "hopper-devote-desk-0"]


def test_misspelt_ids_get_a_suggestion() -> None:
    with pytest.raises(UserError, match="CliffWalking"):
        parse_train(["CliffWlking-v1"])
    with pytest.raises(UserError, match="did you mean spiral"):
        parse_train(["spirl"])
    with pytest.raises(UserError, match=r"did you mean CartPole-v\d\?"):
        parse_train(["CartPole"])
    with pytest.raises(UserError, match=r"did you mean Taxi-v4\?"):
        parse_train(["Taxi-v3"])


def test_a_run_ends_with_its_result(here: Path, capsys: Any) -> None:
    words = ["CartPole-v1", "--preset", "smoke", "--agent", "sac", "--steps", "1500"]
    assert dispatch(["train", *words, "--out", "run"]) == 0
    text = capsys.readouterr().out
    assert "sac in CartPole-v1" in text
    assert "exploitation actor: return " in text
    assert "over 2 episodes, after" in text
    assert "1,664 / 1,500" not in text
    assert "see it act: devote render run" in text
    assert "nan" not in text
    assert "soft reset" not in text
    assert Path("run/figures/returns.png").stat().st_size > 10_000
