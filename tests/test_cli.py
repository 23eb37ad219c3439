"""What a user types, and what comes back when it is wrong."""

import errno
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import devote
from devote import cli
from devote.build import AGENTS, JAX_ENVS, TASKS
from devote.cli import describe, dispatch, parse_train
from devote.core.errors import DivergedError, UserError
from devote.core.settings import flat
from devote.presets import PRESETS


def test_any_setting_is_a_flag_and_the_difference_is_printed() -> None:
    words = ["spiral", "--length-scale", "1.5", "--discount=0.9", "--out", "there"]
    run, asked = parse_train(words)
    assert run.agent.length_scale == 1.5
    assert run.agent.sac.discount == 0.9
    assert asked.out == Path("there")
    text = describe(run, asked.out)
    default = PRESETS["desk"]("spiral", "devote")
    assert f"length_scale = 1.5 (preset: {default.agent.length_scale})" in text
    assert "num_indices" not in text


@pytest.mark.parametrize("agent", AGENTS)
def test_time_is_estimated_before_a_run(agent: str) -> None:
    assert " days of updates on one CPU core" in describe(PRESETS["paper"]("spiral", agent), Path())
    assert "time" not in describe(PRESETS["smoke"]("spiral", agent), Path())


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("env", JAX_ENVS)
def test_every_preset_is_within_range_and_is_what_the_command_line_gives(
    env: str, agent: str, preset: str
) -> None:
    run, _ = parse_train([env, "--agent", agent, "--preset", preset])
    assert run == PRESETS[preset](env, agent)
    run.check()
    json.dumps(flat(run))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "did you mean train?"),
        (["train", "spirall"], "did you mean spiral?"),
        (["train", "spiral", "--agent", "devot"], "did you mean devote?"),
        (["train", "spiral", "--preset", "dsk"], "did you mean desk?"),
        (["train"], "expected an environment"),
    ],
)
def test_unknown_names_get_a_suggestion(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message.replace("?", r"\?")):
        dispatch(words) if words != ["train"] else parse_train([])


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("env", sorted(set(TASKS) - set(JAX_ENVS)))
def test_every_preset_of_a_task_on_the_host_is_within_range(env: str, preset: str) -> None:
    PRESETS[preset](env, "devote").check()


def test_unknown_setting_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse_train(["spiral", "--lenght-scale", "2"])
    assert caught.value.code == 2
    assert "--length-scale" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("--discount", "1.5", "expected discount from 0 to 1; got 1.5; change --discount"),
        ("--length-scale", "0", "expected length_scale above 0; got 0.0"),
        ("--learning-rate", "nan", "expected learning_rate above 0; got nan"),
        ("--reset-interval", "-5", "expected reset_interval from 0 to 2,147,483,647; got -5"),
        ("--reset-interval", "15999", "reset_interval of at least 16000, .*; got 15999"),
        ("--eval-interval", "1", "eval_interval of at least 16000"),
        ("--checkpoint-interval", "1", "at least 16000, .*raise --checkpoint-i.* or lower --log-i"),
        ("--log-interval", "200000", "reset_interval of at least 200000"),
        ("--num-envs", "0", "expected num_envs from 1 to 1,000,000; got 0"),
        ("--updates-per-step", "0", "expected updates_per_step above 0; got 0"),
        ("--steps", "2048", "expected steps above 2048, .* got 2048; raise --steps or lower"),
        ("--steps", str(2**63), "expected steps from 1 to 2,147,483,647; got 9223372036854775808"),
        ("--seeds", str(10**18), "expected seeds from 1 to 1,000"),
        ("--seed", str(2**32), "expected seed from 0 to 4,294,967,295"),
        ("--critic-depth", str(10**9), "expected critic_depth from 1 to 1,000"),
        ("--num-envs", "9" * 400, "expected num_envs from 1 to 1,000,000"),
        ("--episode-length", "0", "expected episode_length from 1 to 10,000,000"),
        ("--updates-per-step", "1e300", "less than 2,147,483,648 updates"),
        ("--env-timeout", "1e308", "expected env_timeout from 0 to 1,000,000"),
        ("--replay-capacity", "3", "at least num_envs"),
        ("--step-size", "4", "jump over a wall"),
        ("--layout", "###\n#S \n###", "row 1"),
    ],
)
def test_bad_values_are_refused_before_anything_is_written(
    flag: str, value: str, message: str, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    with pytest.raises(UserError, match=message):
        dispatch(["train", "spiral", flag, value, "--out", str(out)])
    assert not out.exists()


@pytest.mark.parametrize(
    ("agent", "flag"),
    [
        ("sombrl", "--num-guessers"),
        ("devote-no-tud-ucb", "--num-indices"),
        ("devote-no-tud-opt-ucb", "--num-indices"),
    ],
)
def test_a_spread_over_one_is_refused(agent: str, flag: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(UserError, match=f"at least 2.*got 1; raise {flag}"):
        dispatch(["train", "spiral", "--agent", agent, flag, "1", "--out", str(out)])
    assert not out.exists()


def test_help_explains_settings_with_their_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse_train(["deep_sea", "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert "--size INT" in text
    assert "(default: 50)" in text


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (UserError("a", "b", "c"), 2, "expected a; got b; c"),
        (DivergedError("loss became nan"), 3, "loss became nan"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (RuntimeError("RESOURCE_EXHAUSTED: 9 bytes"), 2, "not enough memory"),
        (RuntimeError("INTERNAL: Out of memory allocating 9 bytes"), 2, "not enough memory"),
        (OSError(errno.ENOSPC, "No space left", "runs/x"), 2, "cannot use runs/x: No space left"),
    ],
)
def test_what_a_user_meets_is_a_message_and_a_code(
    error: BaseException,
    code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(words: list[str]) -> int:
        raise error

    monkeypatch.setattr(cli, "dispatch", fail)
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == code
    assert capsys.readouterr().err.startswith(f"devote: {message}")


def test_an_error_of_the_system_about_no_file_is_not_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(words: list[str]) -> int:
        raise OSError(errno.ECHILD, "No child processes")

    monkeypatch.setattr(cli, "dispatch", fail)
    with pytest.raises(OSError, match="No child"):
        cli.main()


@pytest.mark.parametrize("below", ["", "run"])
def test_a_file_in_the_place_of_a_run_directory_is_named(
    below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").write_text("mine")
    out = tmp_path / "taken" / below
    monkeypatch.setattr(cli, "use_compilation_cache", lambda: None)
    words = ["devote", "train", "deep_sea", "--preset", "smoke", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 2
    assert f"devote: cannot use {tmp_path / 'taken'}" in capsys.readouterr().err
    assert (tmp_path / "taken").read_text() == "mine"


def test_whoever_reads_the_output_may_leave() -> None:
    words = f"{shlex.quote(sys.executable)} -m devote --help"
    script = f"({words}; echo $? >&2) | true"
    told = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert told.stderr.split() == ["141"]


def test_settings_come_from_a_file_and_flags_win(tmp_path: Path, capsys: Any) -> None:
    words = ["CliffWalking-v1", "--agent", "devote-plus", "--discount", "0.9", "--seed", "3"]
    run, _ = parse_train(words)
    assert dispatch(["train", *words, "--print-config"]) == 0
    path = tmp_path / "run.json"
    path.write_text(capsys.readouterr().out)
    assert parse_train(["--config", str(path)])[0] == run
    changed, _ = parse_train(["--config", str(path), "--seed", "4", "--steps", "2e3"])
    assert (changed.seed, changed.steps, changed.agent.sac.discount) == (4, 2000, 0.9)
    (tmp_path / "run.yaml").write_text("env: deep_sea\nsize: 20\nlength_scale: 2e-1\nsteps: 1e4")
    sea, _ = parse_train([f"--config={tmp_path / 'run.yaml'}", "--agent", "rnd"])
    assert (sea.env.size, sea.agent.length_scale, sea.agent_name) == (20, 0.2, "rnd")
    assert sea.steps == 10_000


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"lenght_scale": 2}', "length_scale"),
        ("[1]", "JSON object"),
        ("{", "JSON"),
        (None, "a file"),
    ],
)
def test_a_wrong_file_of_settings_is_told(tmp_path: Path, content: Any, words: str) -> None:
    path = tmp_path / "run.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=words):
        parse_train(["spiral", "--config", str(path)])


def test_the_version_is_the_package_s(capsys: Any) -> None:
    assert dispatch(["--version"]) == 0
    assert capsys.readouterr().out == f"devote {devote.__version__}\n"


@pytest.mark.parametrize(("output", "code"), [("> /dev/full", 2), (">&-", 0), ("| true", 0)])
def test_what_nobody_reads_is_no_traceback(output: str, code: int) -> None:
    line = f"'{sys.executable}' -m devote --help {output}"
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert ended.returncode == code
    assert "Traceback" not in ended.stderr
    assert "Exception" not in ended.stderr


@pytest.mark.parametrize(
    "words",
    [
        "compare --envs deep_sea --agents sac --tune -1",
        f"compare --envs deep_sea --agents sac --tune {2**63}",
        f"tune deep_sea --trials {10**18}",
        f"tune deep_sea --seeds {2**63}",
        "tune deep_sea --check-seeds -1",
    ],
)
def test_absurd_counts_of_studies_are_refused_at_once(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="to 100,000"):
        dispatch([*words.split(), "--preset", "smoke"])
    assert not list(tmp_path.iterdir())
