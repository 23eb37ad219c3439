"""Checkpoints under kills at named points and full disks; `faults` kills at all others."""

import errno
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from devote.core import durable
from devote.loops import checkpoint

# Imports JAX once, then forks a child for each kill; a child that survives exits with 0.
# A kill does not lose what the kernel already has, so these scenes save the time of fsync.
FORKS = """
import os, shutil, signal, sys
from pathlib import Path
import numpy as np
from devote.loops import checkpoint

root = Path(sys.argv[1])
os.fsync = lambda descriptor: None
kill = lambda: os.kill(os.getpid(), signal.SIGKILL)

def state(value): return {"w": np.full(20_000, value, np.float32)}

def in_child(name, steps, work):
    folder = root / name
    for step in steps:
        checkpoint.save(folder, step, state(step), {})
    pid = os.fork()
    if pid == 0:
        try:
            work(folder)
        except OSError as error:
            os._exit(3)
        os._exit(0)
    return pid

def ends(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def before(module, name):
    def patched(*arguments): kill()
    setattr(module, name, patched)

def after(module, name):
    real = getattr(module, name)
    def patched(*arguments, **options): real(*arguments, **options); kill()
    setattr(module, name, patched)
"""

NAMED = """
for point, patch in {
    "0 before the tensors": lambda: before(checkpoint, "_write_state"),
    "0 after the tensors": lambda: after(checkpoint, "_write_state"),
    "0 before the manifest": lambda: before(checkpoint, "_write_manifest"),
    "0 after the manifest": lambda: after(checkpoint, "_write_manifest"),
    "0 before the rename": lambda: before(checkpoint, "_publish"),
    "1 after the rename": lambda: after(checkpoint, "_publish"),
    "1 before a deletion": lambda: before(checkpoint, "_discard"),
    "1 before the removal": lambda: before(checkpoint, "_remove"),
    "1 amid the removal": lambda: after(os, "unlink"),
    "1 after a deletion": lambda: after(checkpoint, "_discard"),
}.items():
    def work(folder): patch(); checkpoint.save(folder, 3, state(3), {})
    assert ends(in_child(f"named/{point}", (1, 2), work)) == -signal.SIGKILL, point
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What all the kills left, a folder for each scene."""
    root = tmp_path_factory.mktemp("killed")
    command = [sys.executable, "-W", "ignore", "-c", FORKS + NAMED, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return root


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def state(value: int) -> dict[str, np.ndarray]:
    return {"w": np.full(20_000, value, np.float32)}


def newest(directory: Path) -> tuple[int, int]:
    """Step and content of the newest checkpoint; a warning of damage would be a failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        restored = checkpoint.restore(directory, state(0))
    assert restored is not None
    assert len(set(restored[1]["w"].tolist())) == 1
    return restored[0], int(restored[1]["w"][0])


def require_life_goes_on(directory: Path) -> None:
    step = newest(directory)[0] + 1
    checkpoint.save(directory, step, state(step), {})
    assert newest(directory) == (step, step)
    assert all(path.name.startswith("step_") for path in directory.iterdir())
    assert len(list(directory.iterdir())) <= 2


@pytest.mark.usefixtures("hasty")
def test_kill_at_named_points(killed: Path) -> None:
    folders = list((killed / "named").iterdir())
    assert len(folders) == 10
    for folder in folders:
        published = folder.name.startswith("1")
        assert newest(folder)[0] == (3 if published else 2), folder.name
        require_life_goes_on(folder)


@pytest.mark.parametrize("place", ["_write_state", "_write_manifest", "_publish", "sync"])
def test_full_disk_leaves_the_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for step in (1, 2):
        checkpoint.save(tmp_path, step, state(step), {})
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, place, full)
        with pytest.raises(OSError, match="No space"):
            checkpoint.save(tmp_path, 3, state(3), {})
    assert {path.name for path in tmp_path.iterdir()} == {"step_000000001", "step_000000002"}
    require_life_goes_on(tmp_path)


def test_everything_is_on_disk_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []
    fsync, rename = os.fsync, os.rename

    def note_fsync(descriptor: int) -> None:
        log.append(f"fsync {Path(os.readlink(f'/proc/self/fd/{descriptor}')).name}")
        fsync(descriptor)

    def note_rename(source: Path, target: Path) -> None:
        log.append(f"rename {target.name}")
        rename(source, target)

    folder = tmp_path / "checkpoints"
    checkpoint.save(folder, 1, state(1), {}, keep=1)
    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "rename", note_rename)
    checkpoint.save(folder, 2, state(2), {}, keep=1)
    assert log == [
        f"fsync {tmp_path.name}",
        "fsync state.safetensors",
        "fsync manifest.json",
        "fsync .tmp_step_000000002",
        "rename step_000000002",
        "fsync checkpoints",
        "rename .tmp_doomed_step_000000001",
    ]


def test_atomic_text_is_old_or_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "text"
    durable.atomic_write_text(path, "old\u2603")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match=r"No space.*text"):
            durable.atomic_write_text(path, "new")
    assert path.read_text() == "old\u2603"
    assert list(tmp_path.iterdir()) == [path]
    durable.atomic_write_text(path, "new")
    assert path.read_text() == "new"
