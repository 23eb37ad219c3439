"""How much memory a run needs and how much is free, before any is allocated."""

import math
import re
from pathlib import Path, PurePosixPath
from typing import Any

import jax

from devote.core.errors import UserError

CGROUP_V1 = ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
CGROUP_V2 = ("", "memory.max", "memory.current", "inactive_file")
"""Folder, files of limit and usage, and the line of memory.stat with what is only cached."""


def tree_bytes(shapes: Any) -> int:
    """Bytes of a tree of arrays or shapes."""
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))


def available_bytes() -> int | None:
    """Free memory where the state will live, an accelerator or the host; None if unknown."""
    on_device = device_bytes()
    if on_device is not None:
        return on_device
    return min((n for n in (host_bytes(), group_bytes()) if n is not None), default=None)


def device_bytes() -> int | None:
    """Free memory of the first accelerator; None on a CPU."""
    stats = jax.devices()[0].memory_stats()
    if not stats or "bytes_limit" not in stats:
        return None
    return int(stats["bytes_limit"] - stats["bytes_in_use"])


def host_bytes() -> int | None:
    """Memory that the system can give to a new program; None if it does not say."""
    table = Path("/proc/meminfo")
    found = re.search(r"MemAvailable: *(\d+)", table.read_text()) if table.exists() else None
    return int(found[1]) * 1024 if found else None


def group_bytes(
    groups: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")
) -> int | None:
    """What the limits of a container leave to this process; None without a limit."""
    left = []
    for line in groups.read_text().splitlines() if groups.exists() else []:
        _, controllers, group = line.split(":", 2)
        if not controllers or "memory" in controllers.split(","):
            names = CGROUP_V1 if controllers else CGROUP_V2
            inner = PurePosixPath(group.lstrip("/"))
            left += [_left(mount / names[0] / part, *names[1:]) for part in (inner, *inner.parents)]
    return min((free for free in left if free is not None), default=None)


def _left(folder: Path, limit_file: str, usage_file: str, cache: str) -> int | None:
    """Limit minus usage of one control group."""
    try:
        limit = (folder / limit_file).read_text().strip()
        usage = int((folder / usage_file).read_text())
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except OSError:  # no such group in this container, or one without a limit
        return None
    return None if limit == "max" else int(limit) - usage + int(stat.get(cache, 0))


def require_memory(needed: int, replay: int) -> None:
    """Refuse a run whose state does not fit, before anything is allocated."""
    available = available_bytes()
    if available is not None and needed > available:
        raise UserError(
            f"a run that fits into the {available / 2**30:.1f} GiB of free memory",
            f"{needed / 2**30:.1f} GiB, of which replay takes {replay / 2**30:.1f} GiB; "
            "activations come on top",
            "lower replay_capacity, seeds or the network widths",
        )
