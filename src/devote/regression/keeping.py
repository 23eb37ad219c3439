"""The state of a fit on disk, so that a cell that was killed goes on where it was."""

import time
import zipfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from devote.regression.store import read_arrays, write_arrays
from devote.regression.training import Progress

PAUSE = 60.0
"""Least seconds between two writings of a fit that is not at its end."""
NOT_WHOLE = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile)
"""What reading raises where there is no file, or an empty, cut or damaged one."""


class Keep:
    """What a cell has done: the state of its fits and when it was worked on."""

    def __init__(
        self, path: Path, digest: str, stages: tuple[str, ...], progress: Progress | None = None
    ) -> None:
        self.paths = {stage: kept_path(path, stage) for stage in stages}
        self.digest, self.progress = digest, progress
        known = [read_kept(file, digest) for file in self.paths.values()]
        newest = max((k for k in known if k), key=lambda kept: kept["sittings"].max(), default={})
        self._earlier = np.asarray(newest.get("sittings", np.zeros((0, 2))))
        self._earlier_cpu = float(newest.get("cpu", 0.0))
        self._started, self._cpu = time.time(), time.process_time()

    def stage(self, name: str) -> "Stage":
        """One fit of the cell."""
        return Stage(self, self.paths[name])

    def sittings(self) -> np.ndarray:
        """Beginning and end of every sitting in seconds since 1970, the present one included."""
        return np.concatenate([self._earlier, [[self._started, time.time()]]])

    def cpu_seconds(self) -> float:
        """Processor time of all sittings, as far as it was kept."""
        return self._earlier_cpu + time.process_time() - self._cpu

    def clear(self) -> None:
        """Forget the state: the cell is written."""
        for path in self.paths.values():
            path.unlink(missing_ok=True)


class Stage:
    """One fit: told after every chunk of epochs, asked before the first where it was."""

    def __init__(self, keep: Keep, path: Path) -> None:
        self.keep, self.path = keep, path
        self._written = time.monotonic()

    def restore(self, state: Any) -> tuple[Any, int]:
        """The state after some epochs and their number; the given state and 0 if none is kept."""
        kept = read_kept(self.path, self.keep.digest)
        if kept is None:
            return state, 0
        leaves, structure = jax.tree.flatten(state)
        found = [kept.get(f"leaf{number}") for number in range(len(leaves))]
        for leaf, old in zip(leaves, found, strict=True):
            if old is None or (old.shape, old.dtype) != (leaf.shape, leaf.dtype):
                return state, 0
        # copies: the compiled program overwrites what it is given
        return jax.tree.unflatten(structure, [jnp.array(old) for old in found]), int(kept["done"])

    def tell(self, state: Any, done: int, total: int) -> None:
        """Write the state if the last writing is long ago or the fit is at its end."""
        if self.keep.progress:
            self.keep.progress(done, total)
        if done < total and time.monotonic() - self._written < PAUSE:
            return
        leaves = {f"leaf{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
        facts = {
            "digest": np.array(self.keep.digest),
            "done": np.array(done),
            "total": np.array(total),
            "sittings": self.keep.sittings(),
            "cpu": np.array(self.keep.cpu_seconds()),
        }
        write_arrays(self.path, leaves | facts, compressed=False)
        self._written = time.monotonic()


def kept_path(path: Path, stage: str) -> Path:
    """The file of a fit, beside the result of its cell."""
    return path.with_suffix(f".{stage}.state.npz")


def read_kept(path: Path, digest: str) -> dict[str, np.ndarray] | None:
    """What is kept of a fit; None if nothing is, or of other settings, or not whole."""
    try:
        kept = read_arrays(path)
        return kept if str(kept["digest"]) == digest else None
    except NOT_WHOLE:
        return None


def share_done(path: Path, digest: str) -> float:
    """Share of a fit's epochs that are on disk; the networks are not read."""
    try:
        with np.load(path, allow_pickle=False) as kept:
            mine = str(kept["digest"]) == digest
            return float(kept["done"] / kept["total"]) if mine else 0.0
    except NOT_WHOLE:
        return 0.0
