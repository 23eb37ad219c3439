"""State coverage: the share of bins visited at least once."""

import numpy as np

from devote.core.types import Grid


def coverage(visits: np.ndarray, grid: Grid) -> dict[str, float]:
    """Over all eligible bins, as in the paper, and over those that can be reached at all."""
    seen = np.asarray(visits) > 0
    return {
        "explore/coverage": float(seen[grid.eligible].mean()),
        "explore/coverage_reachable": float(seen[grid.eligible & grid.reachable].mean()),
    }
