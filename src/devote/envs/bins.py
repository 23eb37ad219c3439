"""The bins in which coverage is counted: equal ones over a box, or one for every integer."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from devote.core.errors import UserError
from devote.core.settings import Count
from devote.core.types import Grid, Index, Vector

MOST_BINS = 10_000_000
MOST_VALUES = 100
"""An integer with up to this many values gets a bin for each."""


@dataclass(frozen=True, kw_only=True)
class CoverageSettings:
    """Coverage of tasks that bring no bins of their own."""

    coverage_entries: tuple[int, ...] = ()
    """Entries of the observation over which coverage is counted; none: no coverage."""
    coverage_bins: Count = 20
    """Bins along each of these entries; an integer gets one for each value."""
    coverage_low: tuple[float, ...] = ()
    """Lower bounds of the bins; the observation's own where empty."""
    coverage_high: tuple[float, ...] = ()
    """Upper bounds of the bins; the observation's own where empty."""


@dataclass(frozen=True)
class BoxBins:
    """Equal bins over a box of quantities; in two dimensions, row 0 is the top of the second."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    bins: tuple[int, ...]
    labels: tuple[str, ...]

    def grid(self, centers: np.ndarray | None = None) -> Grid:
        """The grid of all bins, all of them eligible."""
        plane = len(self.bins) == 2
        shape = self.bins[::-1] if plane else self.bins
        extent = (self.low[0], self.high[0], self.low[1], self.high[1]) if plane else None
        every = np.ones(int(np.prod(shape)), bool)
        return Grid(shape, every, every, centers, extent, self.labels)

    def share(self, values: Any, xp: Any = np) -> Any:
        """Where quantities lie in the box: 0 at the low end, 1 at the high one."""
        low, high = xp.asarray(self.low), xp.asarray(self.high)
        return (values - low) / (high - low)

    def of(self, values: Any, xp: Any = np) -> Any:
        """Flat bins of quantities along the last axis, in NumPy or JAX; the nearest if outside."""
        bins = xp.asarray(self.bins)
        digits = xp.clip(xp.floor(self.share(values, xp) * bins), 0, bins - 1).astype(int)
        if len(self.bins) == 2:
            return (bins[1] - 1 - digits[..., 1]) * bins[0] + digits[..., 0]
        flat = 0
        for axis, number in enumerate(self.bins):
            flat = flat * number + digits[..., axis]
        return flat


@dataclass(frozen=True)
class EntryBins:
    """Bins along some entries of vector observations."""

    entries: tuple[int, ...]
    box: BoxBins
    size: int
    """Entries of the whole observation."""
    hot: tuple[range, ...] = ()
    """Of each, the entries that one-hot encode it; only one for a number. Empty: all numbers."""

    @cached_property
    def grid(self) -> Grid:
        """The grid, with maps where the binned entries are the whole observation."""
        whole = len(self.entries) == self.size == 2
        return replace(self.box.grid(self._centers() if whole else None), bin_of=self.bin_of)

    def bin_of(self, obs: Any, xp: Any = np) -> Any:
        """The flat bin of each observation, in NumPy or JAX; -1 outside the bounds."""
        values = obs[:, np.asarray(self.entries)]
        if self.hot:
            hot = [obs[:, entries.start : entries.stop] for entries in self.hot]
            columns = [x[:, 0] if x.shape[1] == 1 else xp.argmax(x, axis=1) for x in hot]
            values = xp.stack(columns, axis=1)
        share = self.box.share(values, xp)
        inside = ((share >= 0) & (share <= 1)).all(axis=1)
        return xp.where(inside, self.box.of(values, xp), -1)

    def _centers(self) -> np.ndarray:
        columns, rows = self.box.bins
        row, column = np.divmod(np.arange(rows * columns), columns)
        digits = np.stack([column, rows - 1 - row], axis=1)
        low, high = np.asarray(self.box.low), np.asarray(self.box.high)
        middle = low + (digits + 0.5) / np.asarray(self.box.bins) * (high - low)
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


Coverage = EntryBins | EveryIndex | None
"""None: no coverage."""


def coverage_of(
    space: Vector | Index, settings: CoverageSettings, integers: Mapping[int, range] | None = None
) -> Coverage:
    """Bins over the chosen entries, between the given bounds or the space's own.

    `integers` are the entries that hold one, or one-hot encode one, each with all that do so.
    """
    if isinstance(space, Index):
        return EveryIndex(space.size)
    entries = settings.coverage_entries
    if not entries:
        return None
    integers = integers or {}
    hot = tuple(integers.get(entry, range(entry, entry + 1)) for entry in entries)
    if not all(0 <= entry < space.size for entry in entries) or len(set(hot)) != len(entries):
        fix = "name each entry once"
        raise UserError(f"coverage_entries from 0 to {space.size - 1}", entries, fix)
    low = settings.coverage_low or tuple(space.low[entry] for entry in entries)
    high = settings.coverage_high or tuple(space.high[x.start] * max(len(x) - 1, 1) for x in hot)
    bounded = len(low) == len(high) == len(entries) and np.isfinite([*low, *high]).all()
    if not (bounded and (np.asarray(low) < np.asarray(high)).all()):
        raise UserError(
            f"finite coverage_low below coverage_high for each of the entries {entries}",
            f"{low} and {high}",
            "set coverage_low and coverage_high",
        )
    axes = [
        _axis(first, last, settings.coverage_bins, entry in integers)
        for entry, first, last in zip(entries, low, high, strict=True)
    ]
    lows, highs, bins = zip(*axes, strict=True)
    if math.prod(bins) > MOST_BINS:
        fix = "lower coverage_bins, or name fewer coverage_entries"
        raise UserError(f"up to {MOST_BINS:,} bins of coverage", f"{math.prod(bins):,}", fix)
    labels = tuple(f"obs[{entry}]" for entry in entries)
    hot = hot if any(len(x) > 1 for x in hot) else ()
    return EntryBins(tuple(entries), BoxBins(lows, highs, bins, labels), space.size, hot)


def _axis(low: float, high: float, bins: int, integer: bool) -> tuple[float, float, int]:
    """Ends and number of the bins along an entry; a bin for every integer if there are few."""
    first, last = int(np.ceil(low)), int(np.floor(high))
    if integer and 1 <= last - first + 1 <= MOST_VALUES:
        return first - 0.5, last + 0.5, last - first + 1
    return low, high, bins
