"""How much memory a run will take, before it takes it."""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from devote.core.errors import UserError


def tree_bytes(shapes: Any) -> int:
    """Bytes of a tree of arrays or shapes; keys count as their two words."""

    def leaf_bytes(leaf: Any) -> int:
        itemsize = (
            8 if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else (leaf.dtype.itemsize)
        )
        return int(np.prod(leaf.shape)) * itemsize

    return sum(leaf_bytes(leaf) for leaf in jax.tree.leaves(shapes))


def available_bytes() -> int | None:
    """What the system says is free for a new program; None where it does not say."""
    table = Path("/proc/meminfo")
    if not table.exists():
        return None
    for line in table.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def require_memory(needed: int, replay: int) -> None:
    """Refuse a run that cannot fit, before anything is allocated."""
    available = available_bytes()
    if available is not None and needed > available:
        raise UserError(
            f"a run that fits into the {available / 2**30:.1f} GiB of free memory",
            f"{needed / 2**30:.1f} GiB, of which replay takes {replay / 2**30:.1f} GiB",
            "lower replay_capacity, seeds or the network widths",
        )
