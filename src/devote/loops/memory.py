"""How much memory a run will take, before it takes it."""

from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

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
    """What is free where the state will live, accelerator or main memory; None if nobody says."""
    on_device = device_bytes()
    if on_device is not None:
        return on_device
    told = [free for free in (host_bytes(), group_bytes()) if free is not None]
    return min(told, default=None)


def device_bytes() -> int | None:
    """What is free on the first accelerator; None on a CPU, which does not say."""
    said = jax.devices()[0].memory_stats()
    if not said or "bytes_limit" not in said:
        return None
    return int(said["bytes_limit"] - said["bytes_in_use"])


def host_bytes() -> int | None:
    """What the system says is free for a new program; None where it does not say."""
    table = Path("/proc/meminfo")
    if not table.exists():
        return None
    for line in table.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


class Names(NamedTuple):
    """What a version of control groups calls its files."""

    folder: str
    limit: str
    usage: str
    cache: str
    """Part of the usage that the system gives back on demand, a line of memory.stat."""


FIRST = Names(
    "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", cache="total_inactive_file"
)
SECOND = Names("", "memory.max", "memory.current", cache="inactive_file")


def group_bytes(
    groups: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")
) -> int | None:
    """What the limits of a container leave to this program; None where there is no limit."""
    if not groups.exists():
        return None
    left = []
    for line in groups.read_text().splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        names = FIRST if controllers else SECOND
        inner = PurePosixPath(group.lstrip("/"))
        left += [_left(mount / names.folder / part, names) for part in (inner, *inner.parents)]
    return min((free for free in left if free is not None), default=None)


def _left(folder: Path, names: Names) -> int | None:
    """Limit minus usage of one group."""
    try:
        limit, usage, stat = (
            (folder / name).read_text() for name in (names.limit, names.usage, "memory.stat")
        )
    except OSError:  # no such group in this container, or one without a limit
        return None
    if limit.strip() == "max":
        return None
    parts = dict(line.split() for line in stat.splitlines())
    return int(limit) - int(usage) + int(parts.get(names.cache, 0))


def require_memory(needed: int, replay: int, capacity: int, steps: int) -> None:
    """Refuse a run whose state cannot fit, before anything is allocated."""
    enough = f" (no run of {steps:,} steps fills more)" if capacity > steps else ""
    available = available_bytes()
    if available is not None and needed > available:
        raise UserError(
            f"a run that fits into the {available / 2**30:.1f} GiB of free memory",
            f"{needed / 2**30:.1f} GiB, of which replay takes {replay / 2**30:.1f} GiB; "
            "activations come on top",
            f"lower replay_capacity{enough}, seeds or the network widths",
        )
