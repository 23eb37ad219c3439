"""Identities: the same everywhere for the same settings, other for others."""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from devote.build import plan
from devote.core.errors import UserError
from devote.core.settings import defaults, differences, identity
from devote.experiments.comparison import TrainingCell
from devote.loops.train import train
from devote.presets import PRESETS
from devote.run import Run
from devote.saved import run_of

RUN = PRESETS["desk"]("deep_sea", "devote")


@dataclass(frozen=True)
class Inner:
    rate: float = 0.5


@dataclass(frozen=True)
class Settings:
    name: str
    size: float = 3.0
    inner: Inner = field(default_factory=Inner)


def test_other_processes_agree_whatever_their_hash_seed() -> None:
    code = (
        "from devote.presets import PRESETS; from devote.core.settings import identity;"
        "print(identity(PRESETS['desk']('deep_sea', 'devote')))"
    )
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, env={"PYTHONHASHSEED": "7"}, capture_output=True, check=True)
    assert found.stdout.decode().strip() == identity(RUN)


def test_every_field_counts_and_equal_numbers_are_equal() -> None:
    base = Settings("a")
    others = [Settings("b"), Settings("a", 4.0), Settings("a", inner=Inner(0.25))]
    assert len({identity(one) for one in [base, *others]}) == 4
    assert identity(replace(base, size=3)) == identity(base)
    assert identity(replace(RUN, seed=1)) != identity(RUN)
    assert identity(Settings("a"), without=["name"]) == identity(Settings("b"), without=["name"])


def test_order_of_fields_and_a_new_field_at_its_default_change_nothing() -> None:
    @dataclass(frozen=True)
    class Later:
        inner: Inner = field(default_factory=Inner)
        size: float = 3.0
        new: int = 7
        name: str = ""

    assert identity(Later(name="a", size=4)) == identity(Settings("a", 4))
    assert identity(Later(name="a", new=8)) != identity(Settings("a"))
    assert not differences(asdict(Settings("a", 4)), Later(name="a", size=4))


def test_a_default_that_has_changed_is_noticed() -> None:
    saved = asdict(Settings("a")) | {"inner": {"rate": 0.1}}
    assert differences(saved, Settings("a")) == {"inner.rate": ("0.1", "0.5")}
    assert "gone" in differences(asdict(Settings("a")) | {"gone": 1}, Settings("a"))


def test_a_longer_run_is_the_same_cell(tmp_path: Path) -> None:
    cell, longer = (TrainingCell(replace(RUN, steps=n), tmp_path) for n in (1000, 2000))
    assert cell.folder == longer.folder
    assert cell.identity != TrainingCell(replace(RUN, seed=1), tmp_path).identity


def test_saved_settings_give_their_run_back() -> None:
    run = replace(RUN, env=replace(RUN.env, size=20), seed=3)
    assert run_of(asdict(run)) == run


def test_a_setting_newer_than_the_saved_ones_is_at_its_default_not_at_the_preset_s() -> None:
    saved: dict[str, Any] = asdict(RUN)
    default = type(RUN.agent.sac)().critic_width
    assert RUN.agent.sac.critic_width != default  # or this test says nothing
    del saved["agent"]["sac"]["critic_width"]
    found = run_of(saved)
    assert found.agent.sac.critic_width == default
    assert identity(found) != identity(RUN)
    del saved["agent"]["sac"], saved["loop"]
    assert run_of(saved).agent.sac == type(RUN.agent.sac)()
    assert run_of(saved).loop == type(RUN.loop)()
    del saved["steps"]
    with pytest.raises(UserError, match="expected steps in the saved settings"):
        run_of(saved)


def test_a_cell_begun_before_a_setting_existed_goes_on(tmp_path: Path) -> None:
    cell = TrainingCell(replace(PRESETS["smoke"]("deep_sea", "sac"), steps=400), tmp_path)
    name = "env_timeout"
    assert f"loop.{name}" in defaults(cell.run)
    before: dict[str, Any] = asdict(cell.run)
    del before["loop"][name]
    cell.folder.mkdir(parents=True)
    (cell.folder / "settings.json").write_text(json.dumps(before))

    def begin(run: Run) -> None:
        train(replace(plan(run, cell.folder), steps=0), silent=True)

    begin(cell.run)
    with pytest.raises(UserError, match="env_timeout: saved nothing, asked 5"):
        begin(replace(cell.run, loop=replace(cell.run.loop, env_timeout=5.0)))
