"""Small runs on several devices of one machine, in a process that has them; prints what differs."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + (
    " --xla_force_host_platform_device_count=8"
)
import jax
import numpy as np

from devote.build import plan
from devote.loops.metrics_log import read
from devote.loops.train import train
from devote.presets import PRESETS

RUN = PRESETS["smoke"]("deep_sea", "sac")
SMALL = replace(
    RUN.loop, num_envs=2, batch_size=16, learning_starts=32, log_interval=32, reset_interval=0
)
RUN = replace(RUN, loop=replace(SMALL, checkpoint_interval=32), steps=96)


def made(folder: Path, seeds: int, devices: int, steps: int = 96) -> dict[str, np.ndarray]:
    """The metrics of a run, and where its state was."""
    result = train(plan(replace(RUN, seeds=seeds, steps=steps), folder, devices), silent=True)
    leaves = jax.tree.leaves(result.state.agent)
    assert {len(leaf.sharding.device_set) for leaf in leaves} == {devices}
    if seeds > 1:  # a part of the seeds on each
        parts = {leaf.addressable_shards[0].data.shape[0] for leaf in leaves}
        assert parts == {seeds // devices}
    return read(folder / "metrics.csv")


def gap(mine: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> float:
    """The largest relative difference of what is learned."""
    names = [n for n in mine if n.startswith(("train/", "explore/"))]
    return max(float(np.max(np.abs(mine[n] - other[n]) / (1 + np.abs(other[n])))) for n in names)


if __name__ == "__main__":
    root = Path(sys.argv[1])
    one, eight = made(root / "one", 8, 1), made(root / "eight", 8, 8)
    made(root / "halted", 8, 8, 64)
    resumed = made(root / "halted", 8, 8)
    made(root / "moved", 8, 8, 64)
    moved = made(root / "moved", 8, 1)
    single, split = made(root / "single", 1, 1), made(root / "split", 1, 8)
    found = {"seeds": gap(eight, one), "resumed": gap(resumed, eight), "moved": gap(moved, one)}
    print(json.dumps(found | {"batch": gap(split, single), "rows": len(eight["step"])}))
