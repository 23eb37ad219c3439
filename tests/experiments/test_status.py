"""Where the cells of a study are, whoever makes them; and what the engines refuse."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake import FakeCell
from pretended import WORDS
from test_runner import hold

from devote import cli
from devote.core.errors import UserError
from devote.experiments import commands
from devote.experiments.commands import in_counts, states_of, status
from devote.experiments.ray_engine import require_room
from devote.experiments.runner import LocalEngine, difference, shared_token
from devote.experiments.slurm import Resources, jobs_folder


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "work").mkdir()
    with hold(tmp_path / "work" / "fake1.lock", 1):
        yield tmp_path / "work"


def test_every_state_has_its_cells(work: Path, tmp_path: Path) -> None:
    cells = [FakeCell(tmp_path, number) for number in range(7)]
    cells[0].result.touch()
    (work / "fake2.log").write_text("devote: stopped from outside; what it had is saved\n")
    (work / "fake3.log").write_text("much\ndevote: train/critic_loss is nan\n")
    jobs_folder(tmp_path).mkdir()
    (jobs_folder(tmp_path) / "abc").write_text("fake4\nfake5\n")
    (jobs_folder(tmp_path) / "abc-1.log").write_text("sh: no such program\n")
    states = states_of(cells, tmp_path, {"fake4": "PENDING"})
    assert in_counts(states) == "1 done, 1 running, 1 queued, 1 stopped, 2 failed, 1 not begun"
    assert states["running"] == ["cell 1 0%"]
    assert states["failed"] == [
        "cell 3: train/critic_loss is nan",
        "cell 5: ended without a result: sh: no such program",
    ]
    assert not (work / "fake6.lock").exists()  # looking leaves nothing


def test_status_is_a_command_that_runs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "run_cells", lambda *_: pytest.fail("something runs"))
    words = ["compare", *WORDS, "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    assert cli.dispatch([*words, "--status"]) == 0
    assert capsys.readouterr().out == "12 not begun\n"
    assert not list(tmp_path.iterdir())
    with pytest.raises(UserError, match="the identity of a run of this study; got nobody"):
        cli.dispatch([*words, "--cell", "nobody"])
    options = ("--cores", "0"), ("--cpus-per-run", "0"), ("--gpus-per-run", "nan")
    for wrong in (*options, ("--time-limit", "0")):
        with pytest.raises(UserError, match=f"{wrong[0]} from [01] to 100,000; got {wrong[1]}"):
            cli.dispatch([*words, *wrong])
        with pytest.raises(UserError, match=wrong[0]):
            cli.dispatch(["tune", "spiral", *wrong])
    with pytest.raises(UserError, match="trials that one command oversees"):
        cli.dispatch([*words, "--on", "slurm", "--tune", "3"])


def test_what_slurm_is_asked_for() -> None:
    assert Resources().options == ["--cpus-per-task=1", "--ntasks=1"]
    more = Resources(
        cpus_per_run=4, gpus_per_run=1, partition="gpu", account="lab", time_limit=30
    ).options
    assert more[2:] == ["--gpus-per-task=1", "--partition=gpu", "--account=lab", "--time=30"]


def test_nodes_without_room_or_with_another_directory_are_told(tmp_path: Path) -> None:
    node = {"Alive": True, "Resources": {"CPU": 8.0, "GPU": 1.0}}
    gone = {"Alive": False, "Resources": {"CPU": 64.0, "GPU": 8.0}}
    require_room([node, gone], 8, 0.5)
    with pytest.raises(UserError, match="2 GPUs; got at most 8 CPUs and 1 GPUs"):
        require_room([node, gone], 1, 2)
    with shared_token(tmp_path / "work") as (token, expected):
        assert difference(expected, tmp_path, token) == ""
        assert "devote " in difference("0", tmp_path, token)
        assert "no directory" in difference(expected, tmp_path / "x", token)
        assert "another" in difference(expected, tmp_path, tmp_path / "elsewhere" / token.name)
    assert not token.exists()


def test_one_cell_of_several_can_be_stopped(tmp_path: Path) -> None:
    engine = LocalEngine(tmp_path / "work", 1)
    cell = FakeCell(tmp_path, 0, pause=60.0)
    engine.start(cell)
    engine.stop([cell.identity])
    assert engine.ended(0) == {}
    assert not engine.running
    assert not cell.finished()
    assert status([cell], tmp_path).startswith("1 ")
