"""Coverage over a box of some quantities, cut into equal bins."""

from dataclasses import dataclass

import numpy as np

from devote.core.types import Grid


@dataclass(frozen=True)
class BoxBins:
    """Equal bins over a box; what lies outside counts in the bin at the edge.

    In two dimensions rows go down from the highest second quantity, as pictures do.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    bins: tuple[int, ...]
    labels: tuple[str, ...]

    def grid(self) -> Grid:
        """The grid of all bins, none of them known to be out of reach."""
        shape = self.bins[::-1] if len(self.bins) == 2 else self.bins
        everywhere = np.ones(int(np.prod(shape)), bool)
        flat = len(self.bins) == 2
        extent = (self.low[0], self.high[0], self.low[1], self.high[1]) if flat else None
        return Grid(shape, everywhere, everywhere, extent=extent, labels=self.labels)

    def of(self, values: np.ndarray) -> np.ndarray:
        """Flat bins of quantities along the last axis."""
        low, high, bins = map(np.asarray, (self.low, self.high, self.bins))
        place = np.floor((values - low) / (high - low) * bins)
        place = np.clip(place, 0, bins - 1).astype(np.int64)
        if len(self.bins) == 2:
            column, up = place[..., 0], place[..., 1]
            return (bins[1] - 1 - up) * bins[0] + column
        return np.ravel_multi_index(tuple(np.moveaxis(place, -1, 0)), self.bins)
