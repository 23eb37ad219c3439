"""Reads run directories while trainings write them. Nothing here writes, follows a link, or trusts
the content of a file."""

import hashlib
import math
import os
import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from devote.core.durable import read_table
from devote.core.errors import UserError
from devote.core.settings import entries
from devote.loops import snapshots
from devote.loops.metrics_log import last_row, read
from devote.loops.run_dir import FIGURES, LOCK, MAPS, METRICS, PROGRESS, SETTINGS, STUDY
from devote.loops.snapshots import ARROWS, FIRST, Snapshot
from devote.measure.coverage import planes
from devote.measure.curves import SeedCurve, aggregate

PICTURES = {".png": "image/png", ".gif": "image/gif", ".mp4": "video/mp4"}
LARGEST = 1 << 20  # bytes of a JSON file
DEEPEST = 6  # levels of folders to look through
SILENT_SECONDS = 600.0  # after which a run on another machine counts as dead
HIDDEN = (".", "checkpoints", "node_modules")
MOST_POINTS = 2000  # of a curve


@dataclass
class WatchedRun:
    """A run or study directory, by its resolved path."""

    path: Path
    name: str
    _table: tuple[Any, dict[str, np.ndarray]] | None = field(default=None, repr=False)

    @property
    def id(self) -> str:
        """Its name in URLs, which gives no path away."""
        return hashlib.sha256(str(self.path).encode()).hexdigest()[:12]

    def own(self, *parts: str) -> Path | None:
        """A file in the directory; None if it is missing or reached through a link."""
        path = self.path.joinpath(*parts)
        return path if path.resolve() == path and path.is_file() else None

    def json(self, name: str) -> dict[str, Any]:
        """A JSON table; empty if it cannot be read."""
        path = self.own(name)
        try:
            return {} if path is None else read_table(path, "", LARGEST)
        except (UserError, OSError):
            return {}

    def metrics(self) -> dict[str, np.ndarray]:
        """Columns of the metrics, read again when the file has changed; empty if there are none."""
        path = self.own(METRICS)
        if path is None:
            return {}
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            if self._table is None or self._table[0] != stamp:
                self._table = stamp, read(path)
        except (UserError, ValueError, OSError):
            return {}
        return self._table[1]

    def summary(self, locked: frozenset[int]) -> dict[str, Any]:
        """What the list of runs shows; `locked` are the inodes locked by processes here."""
        saved, log = self.json(SETTINGS), self.own(METRICS)
        row = {} if log is None else last_row(log)
        told = (row.get("step"), saved.get("steps"), row.get("time/fps"))
        step, steps, rate = (x if math.isfinite(x) else 0.0 for x in map(_number, told))
        state = self._state(row, step, steps, locked)
        left = (steps - step) / rate if state == "running" and rate > 0 else None
        return {
            "id": self.id,
            "name": self.name,
            "task": str(saved.get("env_name", "")),
            "agent": str(saved.get("agent_name", "")),
            "preset": str(saved.get("preset", "")),
            "state": state,
            "step": step,
            "steps": steps,
            "rate": rate,
            "left": left,
            "maps": len(snapshots.listed(self.path / MAPS)),
        }

    def _state(self, row: dict[str, str], step: float, steps: float, locked: frozenset[int]) -> str:
        lock, kept = self.own(LOCK), self.json(PROGRESS).get("saved_step")
        saved = kept if isinstance(kept, int) else -1
        if lock is not None and self._held(lock, locked):
            return "running" if row else "starting"
        if saved >= steps > 0:
            return "finished"
        told = [_number(x) for name, x in row.items() if x and not name.startswith("rollout/")]
        if not all(map(math.isfinite, told)):
            return "diverged"
        return "stopped" if saved >= max(step, 1) else "killed"

    def _held(self, lock: Path, locked: frozenset[int]) -> bool:
        with open(lock, errors="replace") as file:
            owner = file.read(300).split()
        if len(owner) == 5 and owner[4] != socket.gethostname():  # pid 1 on host h
            log = self.own(METRICS) or lock
            return time.time() - log.stat().st_mtime < SILENT_SECONDS
        return lock.stat().st_ino in locked

    def pictures(self) -> list[str]:
        """Names of figures and films."""
        folder = self.path / FIGURES
        names = sorted(path.name for path in folder.glob("*") if path.suffix in PICTURES)
        return [name for name in names if self.own(FIGURES, name)]

    def details(self) -> dict[str, Any]:
        """Settings, changes from the preset, newest metrics, and what there is to look at."""
        saved, table = self.json(SETTINGS), self.metrics()
        numbers = [name for name, values in table.items() if values.dtype.kind == "f"]
        columns = [name for name in numbers if name not in ("step", "seed")]
        seen = {name: table[name][np.isfinite(table[name])] for name in columns}
        return {
            "settings": {n: str(value) for n, value in entries(saved) if n != "env.layout"},
            "changes": _changes(saved),
            "columns": columns,
            "latest": {name: float(values[-1]) for name, values in seen.items() if len(values)},
            "seeds": sorted({int(seed) for seed in table.get("seed", [])}),
            "pictures": self.pictures(),
            "maps": list(snapshots.listed(self.path / MAPS)),
        }

    def snapshot(self, step: int) -> Snapshot | None:
        """The maps of a step; None if they are missing or damaged."""
        path = snapshots.listed(self.path / MAPS).get(step)
        if path is None or self.own(MAPS, path.name) is None:
            return None
        return _snapshot(path)

    def history(self) -> Iterator[Snapshot]:
        """All maps in order of steps."""
        for step in snapshots.listed(self.path / MAPS):
            found = self.snapshot(step)
            if found is not None:
                yield found

    def ranges(self, seed: int, plane: int) -> dict[str, list[float]]:
        """Smallest and largest value of every map over the whole run."""
        found: dict[str, list[float]] = {}
        for one in self.history():
            for name, values in drawn(one, seed, plane)[1].items():
                if name in one.names and np.isfinite(values).any():
                    low, high = found.get(name, [math.inf, -math.inf])
                    values = values[np.isfinite(values)]
                    found[name] = [min(low, float(values.min())), max(high, float(values.max()))]
        return found


@lru_cache(maxsize=512)  # a name is the digest of its content
def _snapshot(path: Path) -> Snapshot | None:
    try:
        return snapshots.read(path)
    except (UserError, OSError):
        return None


def drawn(one: Snapshot, seed: int, plane: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A snapshot of one seed in one plane: a header, and arrays over the plane's bins."""
    pictures = planes(one.grid)
    grid, place = pictures[plane].grid, pictures[plane].place
    arrays = one.shown(seed, pictures[plane]) | {"eligible": grid.eligible}
    if ARROWS in one.arrays:
        arrays[ARROWS] = one.arrays[ARROWS][seed].ravel()
    path = one.arrays[snapshots.PATH][seed]
    arrays[snapshots.PATH] = np.where(path >= 0, place[np.maximum(path, 0)], -1).T.ravel()
    arrays[FIRST] = one.arrays[FIRST][seed].T.ravel()
    about = {"step": one.step, "shape": grid.shape, "extent": grid.extent, "labels": grid.labels}
    about |= {"names": one.names, "planes": [p.grid.labels for p in pictures], "seeds": one.seeds}
    return about | {"ways": path.shape[1]}, arrays


def curves(
    runs: Sequence[WatchedRun], metric: str, over_seeds: bool, methods: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """One metric of several runs: a curve for each seed, or the paper's aggregation over seeds for
    each method: those given for each run, or else told apart by settings."""
    if over_seeds:
        labels = methods or _methods([run.json(SETTINGS) for run in runs])
    else:
        labels = [run.name for run in runs]
    found: dict[str, list[SeedCurve]] = {}
    for run, label in zip(runs, labels, strict=True):
        table = run.metrics()
        if metric not in table or table[metric].dtype.kind != "f" or not len(table["step"]):
            continue
        seeds = np.unique(table["seed"])
        for seed in seeds:
            mine = table["seed"] == seed
            name = f"{label} seed {int(seed)}" if len(seeds) > 1 and not over_seeds else label
            curve = SeedCurve(table["step"][mine], table[metric][mine])
            found.setdefault(name, []).append(curve)
    if not over_seeds:
        return [_line(name, *curve, None) for name, each in found.items() for curve in each]
    lines = []
    for label, each in found.items():  # each as far as its shortest seed
        budget = min(float(curve.steps[-1]) for curve in each)
        name = f"{label} ({len(each)} seed{'s' if len(each) > 1 else ''})"
        lines.append(_line(name, *aggregate({name: each}, budget)[name]))
    return lines


UNSHARED = ("seed", "seeds", "steps", "loop.map_interval")
"""Settings in which the runs of one method differ."""


def _methods(saved: Sequence[dict[str, Any]]) -> list[str]:
    """A name for each run, equal if only the seed differs: task, agent, and up to three settings in
    which it differs from other runs of that task and agent."""
    kept = [{n: v for n, v in entries(one) if n not in UNSHARED} for one in saved]
    names: list[str] = []
    for mine in kept:
        told = ("env_name", "agent_name")
        peers = [one for one in kept if all(one.get(n) == mine.get(n) for n in told)]
        differing = [n for n in mine if any(one.get(n) != mine[n] for one in peers)]
        words = [f"{n.rsplit('.', 1)[-1]}={mine[n]}" for n in differing[:3]]
        name = base = " ".join([*(str(mine.get(n)) for n in told), *words])
        others, number = dict(zip(names, kept, strict=False)), 1
        while others.get(name, mine) != mine:
            number += 1
            name = f"{base} #{number}"
        names.append(name)
    return names


def _line(label: str, steps: Any, values: Any, error: Any) -> dict[str, Any]:
    every = slice(None, None, -max(1, len(steps) // MOST_POINTS))  # from the end, which is newest
    told = {"steps": steps, "values": values, "error": error}
    plain = {n: None if x is None else plain_numbers(x[every][::-1]) for n, x in told.items()}
    return {"label": label} | plain


def plain_numbers(values: Any) -> list[float | None]:
    """A list for JSON, with null for what is not finite."""
    return [float(x) if math.isfinite(x) else None for x in np.asarray(values, float)]


def _changes(saved: dict[str, Any]) -> dict[str, list[Any]] | None:
    """Settings that differ from the preset's; None if this version does not know the preset."""
    from devote.presets import PRESETS
    from devote.saved import run_of

    try:
        run = run_of(saved)
        base = PRESETS[run.preset](run.env_name, run.agent_name)
    except (UserError, KeyError, TypeError, AttributeError):
        return None
    return {name: [str(x) for x in pair] for name, pair in run.difference(base).items()}


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return 0.0


class Watched:
    """All runs and studies below some folders."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = [folder.resolve() for folder in folders]
        self.runs: dict[str, WatchedRun] = {}
        self.studies: dict[str, WatchedRun] = {}
        self._summaries: list[dict[str, Any]] = []
        self._next = 0.0
        self._lock = threading.Lock()

    def summaries(self) -> list[dict[str, Any]]:
        """A summary of every run, at most half a second old, or older if reading takes long."""
        with self._lock:
            started = time.monotonic()
            if started >= self._next:
                self._find()
                locked = _locked()
                self._summaries = [run.summary(locked) for run in self.runs.values()]
                took = time.monotonic() - started
                self._next = time.monotonic() + max(0.5, 4 * took)
            return self._summaries

    def one(self, name: str) -> WatchedRun | None:
        """A run or study by its id; the disk is searched only for an unknown one."""
        if name not in self.runs | self.studies:
            self.summaries()
        return self.runs.get(name) or self.studies.get(name)

    def _find(self) -> None:
        found: dict[str, WatchedRun] = {}
        studies: dict[str, WatchedRun] = {}
        for folder in self.folders:
            for here, folders, files in os.walk(folder):
                path = Path(here)
                depth = len(path.relative_to(folder).parts)
                name = str(path.relative_to(folder)) if depth else path.name
                for file, known, into in (
                    (SETTINGS, self.runs, found),
                    (STUDY, self.studies, studies),
                ):
                    if file in files:
                        run = WatchedRun(path, name)
                        into[run.id] = known.get(run.id, run)
                leave = SETTINGS in files or depth >= DEEPEST
                folders[:] = [] if leave else sorted(f for f in folders if not f.startswith(HIDDEN))
        self.runs, self.studies = found, studies

    def study(self, one: WatchedRun) -> dict[str, Any]:
        """A study's cells with the state of their runs, found by the name of their directory."""
        states = {Path(run["name"]).name: run for run in self.summaries()}
        table, cells = one.json(STUDY), []
        for cell in table.get("cells", []):
            run = states.get(str(cell.get("run")))
            state = STUDY_STATES.get(run["state"], run["state"]) if run else "queued"
            told = {name: cell.get(name) for name in ("task", "method", "seed")}
            cells.append(told | {"state": state, "id": run and run["id"]})
        names = sorted(p.name for p in one.path.glob("*.png") if one.own(p.name))
        title = str(table.get("title", one.name))
        return {"title": title, "name": one.name, "cells": cells, "pictures": names}


INODE = re.compile(r"[0-9a-f]+:[0-9a-f]+:(\d+)")  # after the device
STUDY_STATES = {"finished": "done", "starting": "running", "diverged": "failed", "killed": "failed"}


def _locked() -> frozenset[int]:
    """Inodes of the files locked by processes of this machine."""
    try:
        return frozenset(map(int, INODE.findall(Path("/proc/locks").read_text())))
    except OSError:
        return frozenset()
