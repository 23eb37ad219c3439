"""A run directory: one owner at a time, its settings, its checkpoints and its metrics."""

import fcntl
import json
import os
import socket
import warnings
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TextIO

from devote.core.durable import atomic_write_text, naming
from devote.core.errors import UserError
from devote.core.settings import digest, entries, same
from devote.loops import checkpoint
from devote.loops.loop import RunState
from devote.loops.metrics_log import MetricsLog, last_step, seal_of

LOCK = ".lock"
SETTINGS = "settings.json"
CHECKPOINTS, METRICS, FIGURES = "checkpoints", "metrics.csv", "figures"
PROGRESS = "progress.json"
"""Says which step was saved last, so that checkpoints that are out of reach are missed."""
MAY_CHANGE = ("steps",)
"""Settings that two starts of one run may differ in."""

Row = dict[str, Any]
"""Metrics of one seed by name."""


class RunDirectory:
    """Creates a directory and owns it until the block, or the process, ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: TextIO | None = None

    def __enter__(self) -> Self:
        self.path.mkdir(parents=True, exist_ok=True)
        require_no_links(self.path)
        lock = open(self.path / LOCK, "a+")  # open as long as the run is ours
        try:
            with naming(self.path / LOCK):
                _take(lock, self.path)
        except (UserError, OSError):
            lock.close()
            raise
        self._lock = lock
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The file stays: were it deleted, two processes could hold locks on two files of one name.
        if self._lock is not None:
            self._lock.close()
            self._lock = None


@dataclass(frozen=True)
class Restored:
    """What an earlier start left."""

    step: int
    state: RunState
    note: dict[str, Any]


class Store(Protocol):
    """Asked by a training in this order: open once, then append and save."""

    def open(self, shape: RunState, columns: tuple[str, ...]) -> Restored | None:
        """What is there of an earlier start, if anything."""
        ...

    def append(self, rows: list[Row]) -> None:
        """Keep metrics."""
        ...

    def save(self, step: int, state: RunState, note: dict[str, Any]) -> None:
        """Keep everything that changes, and what a later start must know besides."""
        ...

    def require_unchanged(self) -> None:
        """Refuse to go on where somebody else has written since."""
        ...


class DirectoryStore:
    """A directory that the caller owns; `settings` identify the run.

    Those that `defaults` names are at their default and may be newer than the directory.
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
        """The newest checkpoint; metrics after it are dropped."""
        require_no_links(self.directory)
        known = (self.directory / SETTINGS).exists()
        if known:
            claim_settings(self.directory, self.settings, MAY_CHANGE, self.defaults)
        found = checkpoint.restore(self.directory / CHECKPOINTS, shape, exact=True)
        if found is None:
            self._require_nothing_lost()
        elif not known:
            self._require_this_run(found[2])
        claim_settings(self.directory, self.settings, MAY_CHANGE, self.defaults)
        self.log = MetricsLog(self.directory / METRICS, columns)
        if found is None:
            self.log.truncate(-1)
            self._leave(None)
            return None
        step, state, note = found
        require_sealed(self.directory / METRICS, note, step)
        self.log.truncate(step)
        self._leave(step)
        return Restored(step, state, note)

    def append(self, rows: list[Row]) -> None:
        """Add rows to the metrics."""
        self.log.append(rows)

    def save(self, step: int, state: RunState, note: dict[str, Any]) -> None:
        """Write a checkpoint that seals the metrics up to it."""
        note = note | {"identity": self._identity(), "metrics": self.log.seal()}
        checkpoint.save(self.directory / CHECKPOINTS, step, state, note)
        self._leave(step)

    def require_unchanged(self) -> None:
        """Refuse to go on where somebody else has written since we did."""
        found = self._saved_step()
        if self._left != (found, self.log.seal()):
            raise UserError(
                f"{self.directory} as this model left it, at step {self._left and self._left[0]}",
                f"step {found}: another model or process has used it since",
                "make a new model with this directory, which goes on from what is there",
            )

    def _identity(self) -> str:
        """Hash of the settings that are not at their default, as a checkpoint keeps it."""
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
        """Refuse to start afresh over the metrics of a run whose checkpoints are out of reach."""
        path = self.directory / METRICS
        rows = path.exists() and last_step(path) > 0
        if rows and (not (self.directory / PROGRESS).exists() or self._saved_step() is not None):
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
    """Refuse metrics that are not those which a checkpoint was saved with."""
    seal = note.get("metrics")
    if seal is not None and seal != seal_of(metrics, step):
        raise UserError(
            f"{metrics} as it was when step {step:,} was saved",
            "a file that was changed since, or is of another run",
            "restore it from a copy; or to start again, delete the run directory",
        )


def require_no_links(directory: Path) -> None:
    """Refuse a run directory whose files are really elsewhere, where we would write."""
    for name in (LOCK, SETTINGS, METRICS, PROGRESS, CHECKPOINTS, FIGURES):
        path = directory / name
        if path.is_symlink():
            got = f"a link to {os.readlink(path)}"
            fix = "put the files themselves there, or use a new run directory"
            raise UserError(f"{path} itself", got, fix)


class MemoryStore:
    """Keeps nothing; the run lives in memory alone."""

    def __str__(self) -> str:
        return "memory"

    def open(self, shape: RunState, columns: tuple[str, ...]) -> None:
        """There is never anything."""
        return None

    def append(self, rows: list[Row]) -> None:
        """Forget."""

    def save(self, step: int, state: RunState, note: dict[str, Any]) -> None:
        """Forget."""

    def require_unchanged(self) -> None:
        """Nobody else knows of it."""


def claim_settings(
    directory: Path,
    settings: dict[str, Any],
    ignore: Collection[str] = (),
    defaults: Collection[str] = (),
) -> None:
    """Write `settings.json`, or compare with the one that is there and refuse any difference.

    `ignore` names fields that may change between two starts of one run, such as `steps`, and then
    are written anew; the name of a nested table ignores all of it. `defaults` names fields that
    may be missing in the file: a default is what was done before there was a setting.
    """
    path = directory / SETTINGS
    if path.exists():
        require_settings(directory, settings, ignore, defaults)
        saved, asked = _both(path, settings)
        if all(_same(saved, asked, name) for name in saved | asked if _ignored(name, ignore)):
            return
    atomic_write_text(path, json.dumps(settings, indent=2) + "\n")


def require_settings(
    directory: Path,
    settings: dict[str, Any],
    ignore: Collection[str] = (),
    defaults: Collection[str] = (),
) -> None:
    """Refuse any difference from the `settings.json` that is there."""
    path = directory / SETTINGS
    saved, asked = _both(path, settings)
    saved = {name: asked[name] for name in defaults if name in asked} | saved
    differences = [
        f"{name}: saved {_show(saved, name)}, asked {_show(asked, name)}"
        for name in saved | asked
        if not _ignored(name, ignore) and not _same(saved, asked, name)
    ]
    if differences:
        fix = "ask for the saved settings, or use a new run directory"
        raise UserError(f"the settings in {path}", "; ".join(differences), fix)


def _both(path: Path, settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Saved and asked settings, each field by its name."""
    return dict(entries(read_settings(path))), dict(entries(json.loads(json.dumps(settings))))


def _take(lock: TextIO, path: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        owner = lock.read().strip() or "a process that has just started"
        fix = "wait until it ends, or use another run directory"
        raise UserError(f"no other process on {path}", f"owner {owner}", fix) from error
    except OSError as error:
        # Some cluster file systems have no locks; refusing would leave their users without runs.
        message = f"{path} cannot be locked ({error}): make sure that one process at a time uses it"
        warnings.warn(message, stacklevel=3)
    lock.truncate(0)
    lock.write(f"pid {os.getpid()} on host {socket.gethostname()}\n")
    lock.flush()


def read_settings(path: Path) -> dict[str, Any]:
    """The table in a file of settings, or why there is none."""
    fix = "restore it from a copy, or use a new run directory"
    try:
        saved = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise UserError(f"JSON in {path}", f"a damaged file ({error})", fix) from error
    if not isinstance(saved, dict):
        raise UserError(f"a table of settings in {path}", type(saved).__name__, fix)
    return saved


def _same(saved: dict[str, Any], asked: dict[str, Any], name: str) -> bool:
    return name in saved and name in asked and same(saved[name], asked[name])


def _show(fields: dict[str, Any], name: str) -> str:
    return json.dumps(fields[name]) if name in fields else "nothing"


def _ignored(name: str, ignore: Collection[str]) -> bool:
    return any(name == field or name.startswith(f"{field}.") for field in ignore)
