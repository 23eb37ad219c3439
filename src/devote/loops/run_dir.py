"""A run directory: locked by one process, with settings, checkpoints, metrics and maps."""

import fcntl
import json
import os
import socket
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TextIO

import numpy as np

from devote.core.durable import atomic_write_text, naming, read_table
from devote.core.errors import UserError
from devote.core.settings import digest, entries, same
from devote.loops import checkpoint, snapshots
from devote.loops.loop import RunState
from devote.loops.metrics_log import MetricsLog, seal_of
from devote.loops.snapshots import Snapshot

LOCK = ".lock"
SETTINGS = "settings.json"
CHECKPOINTS, METRICS, FIGURES = "checkpoints", "metrics.csv", "figures"
MAPS = "maps"
TENSORBOARD, WANDB = "tensorboard", "wandb"
STUDY = "study.json"
"""In the directory of a study's figures: the runs that it is made of."""
PROGRESS = "progress.json"
"""The step that was saved last, so that missing checkpoints are noticed."""
MAY_CHANGE = ("steps", "loop.map_interval")
"""Settings that may change when a run is continued."""

Row = dict[str, Any]
"""Metrics of one seed by name."""


class RunDirectory:
    """Creates a directory and locks it until the block, or the process, ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: TextIO | None = None

    def __enter__(self) -> Self:
        self.path.mkdir(parents=True, exist_ok=True)
        require_no_links(self.path)
        lock = open(self.path / LOCK, "a+")  # locked while it is open
        try:
            with naming(self.path / LOCK):
                _take(lock, self.path)
        except (UserError, OSError):
            lock.close()
            raise
        self._lock = lock
        return self

    def __exit__(self, *_: object) -> None:
        # the file stays: if it were deleted, two processes could lock two files of that name
        if self._lock is not None:
            self._lock.close()
            self._lock = None


@dataclass(frozen=True)
class Restored:
    """What was saved last."""

    step: int
    state: RunState
    note: dict[str, Any]


class Store:
    """Where a training saves: `open` once, then `append` and `save`. This one saves nothing."""

    def __str__(self) -> str:
        return "memory"

    def open(self, shape: RunState, columns: tuple[str, ...]) -> Restored | None:
        """What was saved before, if anything."""
        return None

    def append(self, rows: list[Row]) -> None:
        """Save metrics."""

    def keep_maps(self, take: Callable[[], Snapshot]) -> None:
        """Save a snapshot, which is only taken if it is saved."""

    def save(self, step: int, state: RunState, note: dict[str, Any]) -> None:
        """Save the state, and a note for the continuation."""

    def require_unchanged(self) -> None:
        """Refuse to continue if somebody else has saved since."""


class DirectoryStore(Store):
    """Saves to a directory that the caller has locked; `settings` identify the run.

    `defaults` names the settings at their default, which may be newer than the directory.
    """

    def __init__(
        self, directory: Path, settings: dict[str, Any], defaults: Collection[str] = ()
    ) -> None:
        self.directory = directory
        self.settings, self.defaults = settings, defaults
        self.log: MetricsLog
        self._left: tuple[int | None, str] | None = None

    def __str__(self) -> str:
        return str(self.directory)

    def open(self, shape: RunState, columns: tuple[str, ...]) -> Restored | None:
        """The newest checkpoint, once everything agrees with it; later metrics are dropped."""
        require_no_links(self.directory)
        had_settings = (self.directory / SETTINGS).exists()
        if had_settings:
            require_settings(self.directory, self.settings, MAY_CHANGE, self.defaults)
        resized = (".replay", np.ndim(shape.key))  # the replay may be shorter; seeds come first
        found = checkpoint.restore(self.directory / CHECKPOINTS, shape, exact=True, shorter=resized)
        if found is None:
            self._require_nothing_lost()
        else:
            if not had_settings:
                self._require_this_run(found[2])
            require_sealed(self.directory / METRICS, found[2], found[0])
        claim_settings(self.directory, self.settings, MAY_CHANGE, self.defaults)
        self.log = MetricsLog(self.directory / METRICS, columns)
        step = -1 if found is None else found[0]
        self.log.truncate(step)
        snapshots.drop_after(self.directory / MAPS, step)
        self._leave(None if found is None else step)
        return None if found is None else Restored(*found)

    def append(self, rows: list[Row]) -> None:
        """Add rows to the metrics."""
        self.log.append(rows)

    def keep_maps(self, take: Callable[[], Snapshot]) -> None:
        """Write a snapshot."""
        snapshots.write(self.directory / MAPS, take())

    def save(self, step: int, state: RunState, note: dict[str, Any]) -> None:
        """Write a checkpoint with a digest of the metrics so far."""
        note = note | {"identity": self._identity(), "metrics": self.log.seal()}
        checkpoint.save(self.directory / CHECKPOINTS, step, state, note)
        self._leave(step)

    def require_unchanged(self) -> None:
        """Refuse to continue if another model or process has written here since."""
        found = self._saved_step()
        if self._left != (found, self.log.seal()):
            raise UserError(
                f"{self.directory} as this model left it, at step {self._left and self._left[0]}",
                f"step {found}: another model or process has used it since",
                "make a new model with this directory, which continues from what is there",
            )

    def _identity(self) -> str:
        """Hash of the settings that are not at their default, as a checkpoint has it."""
        skipped = {*self.defaults, *MAY_CHANGE}
        table = dict(entries(json.loads(json.dumps(self.settings))))
        return digest({name: value for name, value in table.items() if name not in skipped})

    def _require_this_run(self, note: dict[str, Any]) -> None:
        if note.get("identity", self._identity()) != self._identity():
            raise UserError(
                f"{SETTINGS} in {self.directory}, which its checkpoints belong to",
                "none, and checkpoints of other settings",
                "restore it from a copy, or use a new run directory",
            )

    def _require_nothing_lost(self) -> None:
        """Refuse to start over the metrics of a run whose checkpoints are missing."""
        path = self.directory / METRICS
        rows = path.exists() and path.read_bytes().count(b"\n") > 1
        began_anew = (self.directory / PROGRESS).exists() and self._saved_step() is None
        if rows and not began_anew:
            raise UserError(
                f"checkpoints in {self.directory / CHECKPOINTS}, for {METRICS} holds rows",
                "none",
                "mount or restore them; or to start again, delete the run directory",
            )

    def _saved_step(self) -> int | None:
        path = self.directory / PROGRESS
        step = read_settings(path).get("saved_step") if path.exists() else None
        return step if isinstance(step, int) else None

    def _leave(self, step: int | None) -> None:
        atomic_write_text(self.directory / PROGRESS, json.dumps({"saved_step": step}) + "\n")
        self._left = (step, self.log.seal())


def require_sealed(metrics: Path, note: dict[str, Any], step: int) -> None:
    """Refuse metrics other than those that a checkpoint was saved with."""
    seal = note.get("metrics")
    if seal is not None and (not metrics.exists() or seal != seal_of(metrics, step)):
        raise UserError(
            f"{metrics} as it was when step {step:,} was saved",
            "a file that was changed since, or is of another run" if metrics.exists() else "none",
            "restore it from a copy; or to start again, delete the run directory",
        )


def require_no_links(directory: Path) -> None:
    """Refuse a run directory in which we would write through a link, or to something else."""
    fix = "put the files themselves there, or use a new run directory"
    folders = (CHECKPOINTS, FIGURES, MAPS, TENSORBOARD, WANDB)
    inside = sorted((directory / TENSORBOARD).glob("*"))
    names = (LOCK, SETTINGS, METRICS, PROGRESS, *folders)
    for path in [*(directory / name for name in names), *inside]:
        if path.is_symlink():
            raise UserError(f"{path} itself", f"a link to {os.readlink(path)}", fix)
        if os.path.lexists(path) and path not in inside:
            expected, holds = (
                ("folder", path.is_dir()) if path.name in folders else ("file", path.is_file())
            )
            if not holds:
                raise UserError(f"{path} to be a {expected}", "something else", fix)


def claim_settings(
    directory: Path,
    settings: dict[str, Any],
    ignore: Collection[str] = (),
    defaults: Collection[str] = (),
) -> None:
    """Write `settings.json`, or refuse settings other than those in it.

    `ignore` names fields that may change when a run is continued, such as `steps`, and are then
    written again; the name of a nested table stands for all of it. `defaults` names fields that may
    be missing in the file, as settings that are newer than it.
    """
    path = directory / SETTINGS
    if not path.exists() or require_settings(directory, settings, ignore, defaults):
        atomic_write_text(path, json.dumps(settings, indent=2) + "\n")


def require_settings(
    directory: Path,
    settings: dict[str, Any],
    ignore: Collection[str] = (),
    defaults: Collection[str] = (),
) -> bool:
    """Refuse settings other than those in `settings.json`; whether ignored ones differ."""
    path = directory / SETTINGS
    asked = dict(entries(json.loads(json.dumps(settings))))
    saved = dict(entries(read_settings(path)))
    known = {name: asked[name] for name in defaults if name in asked} | saved

    def shown(name: str) -> list[str]:
        """Saved and asked, as JSON."""
        return [json.dumps(t[name]) if name in t else "nothing" for t in (known, asked)]

    names = known | asked
    differing = [n for n in names if (n in known) != (n in asked) or not same(known[n], asked[n])]
    refused = [n for n in differing if not any(n == i or n.startswith(f"{i}.") for i in ignore)]
    if refused:
        words = ["{}: saved {}, asked {}".format(name, *shown(name)) for name in refused]
        fix = "ask for the saved settings, or use a new run directory"
        raise UserError(f"the settings in {path}", "; ".join(words), fix)
    return bool(differing)


def _take(lock: TextIO, path: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        owner = lock.read().strip() or "a process that has just started"
        fix = "wait until it ends, or use another run directory"
        raise UserError(f"no other process on {path}", f"owner {owner}", fix) from error
    except OSError as error:  # some cluster file systems have no locks
        message = f"{path} cannot be locked ({error}): make sure that one process at a time uses it"
        warnings.warn(message, stacklevel=3)
    lock.truncate(0)
    lock.write(f"pid {os.getpid()} on host {socket.gethostname()}\n")
    lock.flush()


def read_settings(path: Path) -> dict[str, Any]:
    """Read a file of settings."""
    return read_table(path, "restore it from a copy, or use a new run directory")
