"""A run directory has one owner, and one set of settings."""

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from devote.core.errors import UserError
from devote.loops.run_dir import RunDirectory, claim_settings

OWN = """
import sys, time
from pathlib import Path
from devote.loops.run_dir import RunDirectory
with RunDirectory(Path(sys.argv[1])):
    print("mine", flush=True)
    time.sleep(60)
"""


def start_owner(path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", OWN, str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_second_process_is_told_who_owns(tmp_path: Path) -> None:
    owner = start_owner(tmp_path / "deep" / "run")
    try:
        assert first_line(owner) == "mine\n"
        with pytest.raises(UserError, match=rf"pid {owner.pid} on host {os.uname().nodename}"):
            RunDirectory(tmp_path / "deep" / "run").__enter__()
    finally:
        end(owner)
    with RunDirectory(tmp_path / "deep" / "run") as run:  # the lock of a killed owner is free
        assert f"pid {os.getpid()} " in (run.path / ".lock").read_text()


def test_lock_is_exclusive_within_a_process_and_free_afterwards(tmp_path: Path) -> None:
    with RunDirectory(tmp_path), pytest.raises(UserError, match=f"pid {os.getpid()}"):
        RunDirectory(tmp_path).__enter__()
    with RunDirectory(tmp_path):
        pass


def test_file_system_without_locks_warns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*arguments: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.warns(UserWarning, match="No locks available"), RunDirectory(tmp_path):
        pass


SETTINGS: dict[str, Any] = {
    "agent": "devote",
    "steps": 100,
    "sac": {"rate": 3e-4, "hidden": (256, 256), "extra": {}},
    "flag": True,
    "nan": float("nan"),
}


def test_equal_settings_go_on(tmp_path: Path) -> None:
    claim_settings(tmp_path, SETTINGS)
    before = (tmp_path / "settings.json").read_bytes()
    assert json.loads(before)["sac"]["rate"] == 3e-4
    claim_settings(tmp_path, SETTINGS)
    claim_settings(tmp_path, SETTINGS | {"steps": 100.0})
    claim_settings(tmp_path, SETTINGS, ignore=("steps", "sac"))
    assert (tmp_path / "settings.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["settings.json"]


def test_what_may_change_is_written_anew_and_nothing_else(tmp_path: Path) -> None:
    claim_settings(tmp_path, SETTINGS)
    longer = SETTINGS | {"steps": 200, "sac": {"rate": 1.0}}
    with pytest.raises(UserError, match="agent"):
        claim_settings(tmp_path, longer | {"agent": "rnd"}, ignore=("steps", "sac"))
    assert json.loads((tmp_path / "settings.json").read_text())["steps"] == 100
    claim_settings(tmp_path, longer, ignore=("steps", "sac"))
    saved = json.loads((tmp_path / "settings.json").read_text())
    assert (saved["steps"], saved["sac"], saved["agent"]) == (200, {"rate": 1.0}, "devote")
    assert [path.name for path in tmp_path.iterdir()] == ["settings.json"]


def test_a_full_disk_leaves_the_old_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim_settings(tmp_path, SETTINGS)
    before = (tmp_path / "settings.json").read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space.*settings\.json"):
        claim_settings(tmp_path, SETTINGS | {"steps": 200}, ignore=("steps",))
    assert (tmp_path / "settings.json").read_bytes() == before


def test_a_setting_newer_than_the_directory_goes_on_at_its_default_alone(tmp_path: Path) -> None:
    claim_settings(tmp_path, SETTINGS)
    newer = SETTINGS | {"new": 1, "sac": SETTINGS["sac"] | {"newer": 2}}
    claim_settings(tmp_path, newer, defaults=("new", "sac.newer", "agent"))
    with pytest.raises(UserError, match="got new: saved nothing, asked 1;"):
        claim_settings(tmp_path, newer, defaults=("sac.newer",))
    with pytest.raises(UserError, match='agent: saved "devote", asked "sac"'):
        claim_settings(tmp_path, newer | {"agent": "sac"}, defaults=("new", "sac.newer", "agent"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"agent": "rnd"}, ['agent: saved "devote", asked "rnd"']),
        ({"steps": 200, "flag": 1}, ["steps: saved 100, asked 200", "flag: saved true, asked 1"]),
        ({"new": None}, ["new: saved nothing, asked null"]),
        (
            {"sac": {"rate": 1e-3, "hidden": [256], "extra": {"x": 1}}},
            [
                "sac.rate: saved 0.0003, asked 0.001",
                "sac.hidden: saved [256, 256], asked [256]",
                "sac.extra.x: saved nothing, asked 1",
            ],
        ),
    ],
)
def test_other_settings_are_refused_field_by_field(
    tmp_path: Path, change: dict[str, Any], words: list[str]
) -> None:
    claim_settings(tmp_path, SETTINGS)
    before = (tmp_path / "settings.json").read_bytes()
    with pytest.raises(UserError) as refusal:
        claim_settings(tmp_path, SETTINGS | change)
    assert all(word in str(refusal.value) for word in words)
    assert str(refusal.value).count("saved ") >= len(words)
    unchanged = {"agent", "steps", "flag", "nan"} - change.keys()
    assert not [name for name in unchanged if f"{name}: saved" in str(refusal.value)]
    assert (tmp_path / "settings.json").read_bytes() == before


@pytest.mark.parametrize("text", ["", '{"agent": "dev', "[1]", "\xff", "[" * 100_000])
def test_damaged_settings_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "settings.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=r"settings\.json"):
        claim_settings(tmp_path, SETTINGS)
