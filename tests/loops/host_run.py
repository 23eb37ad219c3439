"""A run on the host in a process of its own: `host_run.py DIRECTORY exact|restart`."""

import sys
import time
from functools import partial
from pathlib import Path

import jax
import numpy as np

sys.path.append(str(Path(__file__).parents[1]))  # where `on_host` is

from hosts import Telling, counters, program

from devote.core.types import HostStep
from devote.loops.train import Plan, train
from on_host import OnHost

STEPS = 3_000


class Slow(OnHost):
    """Slow enough to be interrupted."""

    def step(self, action: np.ndarray, key: jax.Array) -> HostStep:
        time.sleep(0.002)
        return super().step(action, key)


def slow_counters(num_envs: int, saves: bool) -> OnHost:
    """Counter, slowly."""
    plain = counters(num_envs)
    assert plain.bins is not None
    return Slow(plain.env, num_envs, plain.bins, saves)


if __name__ == "__main__":
    directory, how = Path(sys.argv[1]), sys.argv[2]
    make = partial(slow_counters, saves=how == "exact")
    run = program(make, Telling(), overlap=True, checkpoint_interval=600, replay_capacity=6_000)
    result = train(Plan(run, STEPS, directory, {"how": how}))
    sys.exit(0 if result.stopped_by is None else 143)
