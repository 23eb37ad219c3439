"""The time left that a person reads."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from fake import FakeCell

from devote.experiments.durations import Board, Durations


@dataclass(frozen=True)
class Halfway(FakeCell):
    """A cell that says how far it is."""

    share: float = 0.0

    @property
    def kinds(self) -> tuple[str, ...]:
        return (f"fake {self.number}",)

    def progress(self) -> float:
        return self.share


@dataclass(frozen=True)
class Lasted(Halfway):
    """A cell that knows how long it took."""

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("lasted",)

    def seconds(self) -> float:
        return 40.0


def test_what_nobody_has_measured_takes_as_long_as_a_whole_cell(tmp_path: Path) -> None:
    running, waiting = Halfway(tmp_path, 1, share=1.0), Halfway(tmp_path, 2)
    board = Board([running, waiting], Durations(), cores=1, silent=True)
    assert board.left({}) == "time left not known yet"
    board.durations.add(running.kinds, running.size, 60.0)
    assert board.left({}) == "about 60 s left"


def test_a_cell_is_judged_by_its_pace_since_its_first_progress(tmp_path: Path) -> None:
    first, later = Halfway(tmp_path, 1, share=0.5), Halfway(tmp_path, 1, share=0.75)
    board = Board([first], Durations(), cores=2, silent=True)
    board.at_start[first.identity] = 0.4  # it went on from there, and was compiled for 100 s
    assert board.left({first.identity: 100.0}) == "time left not known yet"
    board.open[first.identity] = later
    assert board.left({first.identity: 120.0}) == "about 20 s left"


def test_a_cell_that_went_on_tells_the_time_of_its_like_by_all_its_sittings(tmp_path: Path) -> None:
    cells = [Lasted(tmp_path, number, share=0.5) for number in (1, 2)]
    board = Board(cells, Durations(), cores=1, silent=True)
    board.started(cells[0])
    board.done(cells[0], 3.0)
    assert board.left({}) == "about 20 s left"


def test_failures_are_not_counted_as_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("devote.experiments.durations.QUIET_SECONDS", 0.0)
    cells = [Halfway(tmp_path, number, share=0.5) for number in (1, 2, 3)]
    board = Board(cells, Durations(), cores=1)
    board.started(cells[0])
    board.done(cells[0], 5.0)
    board.failed(cells[1], "no reason", "")
    board.show({cells[2].identity: 1.0})
    assert "1/3 done, 1 failed, " in capsys.readouterr().out
