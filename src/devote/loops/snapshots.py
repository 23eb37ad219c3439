"""A run at one step in a small file: visits, the agent's maps and its latest trajectories.

`maps/step_000010000-0123456789abcdef.npz` holds a JSON header and arrays whose first axis is the
seed. The file name ends in the SHA-256 of the content, so that a damaged file is not used.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import jax
import numpy as np

from devote.core.arrays import read_npz, write_npz
from devote.core.durable import atomic_write
from devote.core.errors import UserError
from devote.core.types import Choice, Grid, Index
from devote.loops.loop import Program, RunState
from devote.measure.coverage import Plane

SCHEMA = 1
NAME = re.compile(r"step_(\d{9,})-([0-9a-f]{16})\.npz")
LARGEST = 64 * 2**20  # bytes of a file, and of its arrays
ABOUT = ("index", "discrete", "actions")
VISITS, WEIGHTS, ARROWS, PATH, FIRST = "visits", "weights", "arrows", "path", "first"
"""Visits of every bin; replayed states behind every value; mean actions; bins of the latest steps,
`(seeds, steps, envs)`, -1 if unknown; where in these steps episodes begin. All others are maps."""


@dataclass(frozen=True)
class Snapshot:
    """All maps at one step."""

    step: int
    seeds: tuple[int, ...]
    grid: Grid
    index: bool
    """Whether observations are one integer, so that bins have no neighbours."""
    discrete: bool
    actions: int
    """The number of discrete actions, or the dimension of continuous ones."""
    arrays: dict[str, np.ndarray]
    """By name, all with a seed axis; NaN where nothing is known."""

    @property
    def names(self) -> list[str]:
        """The maps: visits, and the agent's own quantities."""
        return [name for name in self.arrays if name not in (WEIGHTS, ARROWS, PATH, FIRST)]

    def shown(self, seed: int, plane: Plane) -> dict[str, np.ndarray]:
        """Every map of one seed in a plane: sums of visits, means of all others."""
        weights = self.arrays.get(WEIGHTS, np.ones((len(self.seeds), self.grid.size)))[seed]
        found = {VISITS: plane.sum(self.arrays[VISITS][seed])}
        for name in self.names[1:]:
            values = self.arrays[name][seed].astype(float)
            found[name] = plane.mean(values, np.where(np.isfinite(values), weights, 0))
        return found


def take(program: Program, state: RunState, step: int) -> Snapshot:
    """A snapshot of a run whose task counts coverage; the run stays as it was."""
    grid, seeds = program.spec.grid, program.seeds
    assert grid is not None
    host = jax.device_get((program.look(state), state.visits))
    look, visits = jax.tree.map(lambda x: x[None], host) if len(seeds) == 1 else host
    arrays = {VISITS: visits}
    if look.seen is None:
        arrays |= {n: np.where(grid.eligible, v, np.nan) for n, v in look.values.items()}
    else:
        bins = [program.bin_of(np.asarray(seen)) for seen in look.seen]
        weights = np.stack([_total(b, np.ones(len(b)), grid.size) for b in bins])
        for name, values in look.values.items():
            sums = [_total(b, v, grid.size) for b, v in zip(bins, values, strict=True)]
            mean = np.full(weights.shape, np.nan)
            arrays[name] = np.divide(np.stack(sums), weights, out=mean, where=weights > 0)
        arrays[WEIGHTS] = weights.astype(np.int32)
    if look.arrows is not None:
        arrays[ARROWS] = np.where(grid.eligible[:, None], look.arrows, np.nan)
    path = look.path.reshape(-1, *look.path.shape[3:])
    arrays[PATH] = np.where(look.known, program.bin_of(path).reshape(look.first.shape), -1)
    arrays[FIRST] = look.first
    index, act = isinstance(program.spec.observation, Index), program.spec.action
    return Snapshot(step, seeds, grid, index, isinstance(act, Choice), act.size, arrays)


def write(folder: Path, snapshot: Snapshot) -> Path:
    """Write a snapshot; floats in half precision unless they overflow, counts exactly."""
    grid, file = snapshot.grid, BytesIO()
    header = {"schema": SCHEMA, "step": snapshot.step, "seeds": snapshot.seeds}
    header |= {name: getattr(grid, name) for name in ("shape", "extent", "labels", "marks")}
    header |= {name: getattr(snapshot, name) for name in ABOUT}
    arrays = {"header": np.array(json.dumps(header))}
    arrays |= {"eligible": grid.eligible, "reachable": grid.reachable}
    arrays |= {f"map/{name}": _small(array) for name, array in snapshot.arrays.items()}
    write_npz(file, arrays)
    content = file.getvalue()
    path = folder / f"step_{snapshot.step:09d}-{_seal(content)}.npz"
    folder.mkdir(exist_ok=True)
    atomic_write(path, content, durable=False)  # a lost one is a picture less, no number
    return path


def listed(folder: Path) -> dict[int, Path]:
    """Files of snapshots by step."""
    found = [(NAME.fullmatch(path.name), path) for path in sorted(folder.glob("step_*.npz"))]
    return {int(match[1]): path for match, path in found if match is not None}


def read(path: Path) -> Snapshot:
    """Read a snapshot; a damaged file is refused."""
    match = NAME.fullmatch(path.name)
    try:
        if match is None:
            raise ValueError("not a snapshot")
        if path.stat().st_size > LARGEST or _seal(path.read_bytes()) != match[2]:
            raise ValueError("damaged")
        arrays = read_npz(path, largest=LARGEST)
        header = json.loads(str(arrays["header"]))
        if header["schema"] != SCHEMA:
            fix = "use the version of devote that wrote it"
            raise UserError(f"schema {SCHEMA} in {path}", f"{header['schema']!r:.40}", fix)
        if header["step"] != int(match[1]):
            raise ValueError(f"of step {header['step']!r:.40}")
        maps = {n.removeprefix("map/"): array for n, array in arrays.items() if "/" in n}
        extent = None if header["extent"] is None else tuple(header["extent"])
        marks = tuple((str(name), float(x), float(y)) for name, x, y in header.get("marks", ()))
        masks, labels = (arrays["eligible"], arrays["reachable"]), tuple(header["labels"])
        grid = Grid(tuple(header["shape"]), *masks, None, extent, labels, marks=marks)
        about = {name: header[name] for name in ABOUT}
        return Snapshot(header["step"], tuple(header["seeds"]), grid, arrays=maps, **about)
    except UserError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"maps in {path}", error, "delete it; the run works without it") from error


def read_all(folder: Path) -> Iterator[Snapshot]:
    """All snapshots that can be read, in the order of steps."""
    for path in listed(folder).values():
        with suppress(UserError, OSError):
            yield read(path)


def drop_after(folder: Path, step: int) -> None:
    """Delete the snapshots after a step, which the run takes again, and remains of a kill."""
    for path in [*folder.glob("step_*.npz"), *folder.glob(".step_*.tmp")]:
        match = NAME.fullmatch(path.name)
        if match is None or int(match[1]) > step:
            path.unlink()


def _seal(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _total(bins: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    inside = bins >= 0
    return np.bincount(bins[inside], values[inside], size)


def _small(array: np.ndarray) -> np.ndarray:
    if not np.issubdtype(array.dtype, np.floating):
        return array.astype(np.int32) if array.dtype == np.int64 else array
    with np.errstate(over="ignore"):
        half = array.astype(np.float16)
    whole = np.array_equal(np.isfinite(half), np.isfinite(array))
    return half if whole else array.astype(np.float32)
