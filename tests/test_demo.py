"""The first thing that a user runs, at a size that a test can afford."""

from pathlib import Path

import pytest

from devote import demo
from devote.cli import demo_command, describe, parse_train
from devote.core.errors import UserError
from devote.demo import run_demo
from devote.loops.metrics_log import read
from devote.presets import smoke

FIRST, CHUNK = 64, 400  # of the preset smoke


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "desk", smoke)


@pytest.mark.slow
@pytest.mark.usefixtures("_small")
def test_one_chunk_of_both_agents_ends_in_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, stopped_by = run_demo(tmp_path, 3, FIRST + 1)
    assert (path, stopped_by) == (tmp_path / "demo.png", None)
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    said = capsys.readouterr().out
    for agent in ("devote", "sac"):
        (folder,) = tmp_path.glob(f"{agent}-*")
        assert read(folder / "metrics.csv")["step"].tolist() == [FIRST + CHUNK]
        assert f"{FIRST + CHUNK} steps, in {folder}" in said


def test_it_ends_with_how_to_watch_it_from_where_it_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "run_demo", lambda out, *_: (out / "demo.png", None))
    monkeypatch.setattr("devote.cli.which", lambda name: None)
    for started, command in ((".venv/bin/devote", ".venv/bin/devote"), ("__main__.py", "devote")):
        monkeypatch.setattr("sys.argv", [started])
        assert demo_command(["--out", str(tmp_path)]) == 0
        assert capsys.readouterr().out.endswith(f"in the browser: {command} watch {tmp_path}\n")


@pytest.mark.usefixtures("_small")
def test_steps_that_no_update_follows_are_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    with pytest.raises(UserError, match=f"expected steps above {FIRST}, .* got {FIRST}; raise"):
        run_demo(tmp_path / "demo", 0, FIRST)
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize(
    ("steps", "whole"), [(2_049, 18_048), (5_000, 18_048), (18_048, 18_048), (18_049, 34_048)]
)
def test_a_run_says_how_many_steps_it_takes(steps: int, whole: int, tmp_path: Path) -> None:
    words = ["spiral", "--steps", str(steps)]
    run, _ = parse_train(words)
    assert run.whole_steps == whole
    assert f"{steps:,} steps ({whole:,} in whole chunks)" in describe(run, tmp_path)


def test_sequences_make_the_first_steps_longer() -> None:
    run, _ = parse_train(
        ["spiral", "--agent", "sombrl", "--steps", "2049", "--learning-starts", "1"]
    )
    assert run.whole_steps == 32 * run.agent.uncertainty.sequence_length + 16_000
