"""Coverage of tasks that bring no grid of their own: bins over entries of the observation."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from devote.core.errors import UserError
from devote.core.types import Grid, Index, Vector


@dataclass(frozen=True, kw_only=True)
class CoverageSettings:
    """What is counted in tasks that come from elsewhere."""

    coverage_entries: tuple[int, ...] = ()
    """Entries of the observation over which coverage is counted; none: no coverage."""
    coverage_bins: int = 20
    """Bins along each of these entries."""
    coverage_low: tuple[float, ...] = ()
    """Lower bounds of the bins; the observation's own where empty."""
    coverage_high: tuple[float, ...] = ()
    """Upper bounds of the bins; the observation's own where empty."""


@dataclass(frozen=True)
class CoverageBins:
    """Equal bins along one or more entries of vector observations; of two, the second goes up."""

    entries: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    bins: int
    size: int
    """Entries of the whole observation."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.bins,) * len(self.entries)

    @cached_property
    def grid(self) -> Grid:
        """The grid, with maps where the binned entries are the whole observation."""
        every = np.ones(int(np.prod(self.shape)), bool)
        plane = len(self.entries) == 2
        return Grid(
            shape=self.shape,
            eligible=every,
            reachable=every,
            centers=self._centers() if plane and self.size == 2 else None,
            extent=(self.low[0], self.high[0], self.low[1], self.high[1]) if plane else None,
            labels=tuple(f"obs[{entry}]" for entry in self.entries),
        )

    def bin_of(self, obs: Any, xp: Any = np) -> Any:
        """The flat bin of each observation, in NumPy or JAX; -1 outside the bounds."""
        low, high = xp.asarray(self.low), xp.asarray(self.high)
        share = (obs[:, np.asarray(self.entries)] - low) / (high - low)
        inside = ((share >= 0) & (share <= 1)).all(axis=1)
        digits = xp.where(inside[:, None], xp.minimum(share * self.bins, self.bins - 1), 0)
        flat = 0
        for axis in self._axes(digits.astype(int)):
            flat = flat * self.bins + axis
        return xp.where(inside, flat, -1)

    def _axes(self, digits: Any) -> tuple[Any, ...]:
        """Row and column of a plane, top row first; the digits themselves otherwise."""
        if len(self.entries) != 2:
            return tuple(digits.T)
        return self.bins - 1 - digits[:, 1], digits[:, 0]

    def _centers(self) -> np.ndarray:
        row, column = np.divmod(np.arange(self.bins**2), self.bins)
        digits = np.stack([column, self.bins - 1 - row], axis=1)
        low, high = np.asarray(self.low), np.asarray(self.high)
        middle = low + (digits + 0.5) / self.bins * (high - low)
        return middle[:, np.argsort(self.entries)].astype(np.float32)


@dataclass(frozen=True)
class EveryIndex:
    """One bin for every value of an integer observation."""

    size: int

    @cached_property
    def grid(self) -> Grid:
        every = np.ones(self.size, bool)
        return Grid((self.size,), every, every, labels=("observation",))

    def bin_of(self, obs: np.ndarray) -> np.ndarray:
        """The observation itself."""
        return obs.astype(np.int64)


@dataclass(frozen=True)
class NoBins:
    """Coverage is not counted."""

    grid: None = None

    def bin_of(self, obs: np.ndarray) -> np.ndarray:
        """Nowhere."""
        return np.full(len(obs), -1)


Coverage = CoverageBins | EveryIndex | NoBins


def coverage_of(space: Vector | Index, settings: CoverageSettings) -> Coverage:
    """Bins over the chosen entries, within given bounds or else the space's own."""
    entries = settings.coverage_entries
    if isinstance(space, Index):
        return EveryIndex(space.size)
    if not entries:
        return NoBins()
    wrong = [entry for entry in entries if not 0 <= entry < space.size]
    if wrong or len(set(entries)) != len(entries):
        fix = "name each entry once"
        raise UserError(f"coverage_entries from 0 to {space.size - 1}", entries, fix)
    low = settings.coverage_low or tuple(space.low[entry] for entry in entries)
    high = settings.coverage_high or tuple(space.high[entry] for entry in entries)
    bounded = len(low) == len(high) == len(entries) and np.isfinite([*low, *high]).all()
    if not (bounded and (np.asarray(low) < np.asarray(high)).all()):
        raise UserError(
            f"finite coverage_low below coverage_high for each of the entries {entries}",
            f"{low} and {high}",
            "set coverage_low and coverage_high",
        )
    bins = settings.coverage_bins
    return CoverageBins(tuple(entries), tuple(low), tuple(high), bins, space.size)
