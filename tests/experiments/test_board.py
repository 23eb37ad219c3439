"""The time left that a person reads."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from fake import FakeCell

from devote.experiments.board import Board
from devote.experiments.durations import Durations


@dataclass(frozen=True)
class Halfway(FakeCell):
    """A cell that says how far it is."""

    share: float = 0.0

    @property
    def kinds(self) -> tuple[str, ...]:
        return (f"fake {self.number}",)

    def progress(self) -> float:
        return self.share


def test_what_nobody_has_measured_takes_as_long_as_a_whole_cell(tmp_path: Path) -> None:
    running, waiting = Halfway(tmp_path, 1, share=1.0), Halfway(tmp_path, 2)
    board = Board([running, waiting], Durations(), cores=1, silent=True)
    assert board.left({}) == "time left not known yet"
    board.at_start[running.identity] = 0.0
    assert board.left({running.identity: 60.0}) == "about 60 s left"


def test_a_cell_that_went_on_is_judged_by_its_pace_since(tmp_path: Path) -> None:
    cell = Halfway(tmp_path, 1, share=0.75)
    board = Board([cell], Durations(), cores=2, silent=True)
    board.at_start[cell.identity] = 0.5
    assert board.left({cell.identity: 20.0}) == "about 20 s left"


def test_failures_are_not_counted_as_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("devote.experiments.board.QUIET_SECONDS", 0.0)
    cells = [Halfway(tmp_path, number, share=0.5) for number in (1, 2, 3)]
    board = Board(cells, Durations(), cores=1)
    board.started(cells[0])
    board.done(cells[0], 5.0)
    board.failed(cells[1], "no reason", "")
    board.show({cells[2].identity: 1.0})
    assert "1/3 done, 1 failed, " in capsys.readouterr().out
