"""Training runs as cells: typed, finished, adopted, or of other settings."""

import json
import os
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from pretended import ASKED, pretend

from devote.cli import parse_train
from devote.core.errors import UserError
from devote.experiments.adopt import adopt
from devote.experiments.cells import write_record
from devote.experiments.commands import study_of
from devote.experiments.comparison import TrainingCell, changes_of, command
from devote.presets import PRESETS


def test_a_run_s_own_command_gives_the_same_run() -> None:
    run = next(iter(study_of(replace(ASKED, set=("scale_inputs=true",))).runs().values())).run
    words = command(run).split()
    assert words[:2] == ["devote", "train"]
    assert parse_train(words[2:])[0] == run
    assert changes_of(run) == {"size": 6, "scale_inputs": True}


def test_several_numbers_are_joined_by_a_plus() -> None:
    task = "CartPole-v1,coverage_entries=0+2"
    cell = next(iter(study_of(replace(ASKED, envs=(task,))).runs().values()))
    assert (cell.run.env.id, cell.run.env.coverage_entries) == ("CartPole-v1", (0, 2))
    assert parse_train(command(cell.run).split()[2:])[0] == cell.run


def test_runs_of_foreign_tasks_say_which() -> None:
    for task in ("gymnasium", "brax"):
        run = PRESETS["smoke"](task, "sac")
        assert run.env.id in command(run).split()
        assert run.env.id in TrainingCell(run).name
        assert parse_train(command(run).split()[2:])[0] == run


def test_only_as_many_steps_as_asked_for_are_shown(tmp_path: Path) -> None:
    run = replace(PRESETS["smoke"]("spiral", "sac"), steps=8000)
    pretend(TrainingCell(run, tmp_path), [0.1, 0.2, 0.3, 0.4])
    shorter = TrainingCell(replace(run, steps=3000), tmp_path)
    assert shorter.finished()
    assert shorter.metrics()["step"].tolist() == [2000, 4000]
    assert not TrainingCell(replace(run, steps=9000), tmp_path).finished()
    assert TrainingCell(replace(run, steps=16000), tmp_path).progress() == 0.5


def test_a_real_run_is_a_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devote.core.durable.use_compilation_cache", lambda: None)
    run = replace(PRESETS["smoke"]("deep_sea", "sac"), steps=800)
    cell = TrainingCell(run, tmp_path)
    assert cell.make()
    assert not cell.finished()
    write_record(cell, 1.0)
    assert cell.finished()
    assert cell.progress() == 1.0
    record = json.loads(cell.record.read_text())
    assert record["seconds"] == pytest.approx(cell.metrics()["time/time_elapsed"][-1], abs=0.1)
    typed = tmp_path / "typed"  # as if `devote train --out typed` had made it
    cell.record.unlink()
    cell.folder.rename(typed)
    day = datetime(2020, 1, 2, 12).timestamp()
    os.utime(typed / "metrics.csv", (day, day))
    adopted = adopt(typed, tmp_path)
    assert adopted == cell
    assert cell.finished()
    record = json.loads(cell.record.read_text())
    assert (record["finished"], record["machine"]) == ("2020-01-02", "unknown")
    (typed / "checkpoints").rename(typed / "elsewhere")
    assert adopt(typed, tmp_path) is None
    (typed / "elsewhere").rename(typed / "checkpoints")
    cell.record.unlink()
    cell.folder.unlink()
    cell.folder.mkdir()  # as if a runner had been killed at the same run
    with pytest.raises(UserError, match=r"no other run in the place .*move one of them away"):
        adopt(typed, tmp_path)
    assert not cell.finished()
    (typed / "metrics.csv").rename(typed / "elsewhere.csv")
    assert adopt(typed, tmp_path) is None
    several = json.loads((typed / "settings.json").read_text()) | {"seeds": 2}
    (typed / "settings.json").write_text(json.dumps(several))
    with pytest.raises(UserError, match=r"a run of one seed in .*; got 2 in one program"):
        adopt(typed, tmp_path)


def test_a_run_of_other_settings_in_the_place_of_a_cell_does_not_count(tmp_path: Path) -> None:
    cell = TrainingCell(PRESETS["smoke"]("spiral", "sac"), tmp_path)
    pretend(cell, [0.1])
    assert cell.finished()
    record = json.loads(cell.record.read_text())
    record["settings"]["agent"]["discount"] = 0.5
    cell.record.write_text(json.dumps(record))
    assert not cell.finished()
