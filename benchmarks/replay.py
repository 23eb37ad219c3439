"""Our ring against Flashbax's item buffer: add 32 and sample 256 transitions, in one run.

Needs the `bench` extra. The figure decided which of the two the library uses; see
docs/decisions.md.
"""

from collections.abc import Callable
from typing import Any

import flashbax
import jax
import jax.numpy as jnp
from speed import alternate, batch_for

from devote.envs import PointMaze, spiral
from devote.replay import Replay

NUM_ENVS, BATCH, REPEATS = 32, 256, 200


def in_a_scan(add: Callable[..., Any], sample: Callable[..., Any], storage: Any) -> Any:
    """`REPEATS` times add and sample, compiled and donated, as a training loop does it."""

    def body(carry: Any, key: Any) -> Any:
        storage, written, total = carry
        storage = add(storage, written)
        return (storage, written + 1, total + sample(storage, written + 1, key).obs.sum()), None

    def run(storage: Any, key: Any) -> Any:
        start = (storage, jnp.int32(0), jnp.zeros(()))
        (storage, _, total), _ = jax.lax.scan(body, start, jax.random.split(key, REPEATS))
        return storage, total

    compiled = jax.jit(run, donate_argnums=0)
    held = [storage]

    def once() -> None:
        held[0], total = compiled(held[0], jax.random.key(0))
        jax.block_until_ready(total)

    return once


def ring(capacity: int) -> Any:
    """Ours."""
    spec = PointMaze(spiral()).spec
    replay, step = Replay(spec, capacity, NUM_ENVS), batch_for(spec, NUM_ENVS)
    return in_a_scan(
        lambda storage, written: replay.add(storage, written, step),
        lambda storage, written, key: replay.sample(storage, written, BATCH, key),
        replay.init(),
    )


def item_buffer(capacity: int) -> Any:
    """Flashbax's."""
    spec = PointMaze(spiral()).spec
    step = batch_for(spec, NUM_ENVS)
    buffer = flashbax.make_item_buffer(
        max_length=capacity, min_length=1, sample_batch_size=BATCH, add_batches=True
    )
    return in_a_scan(
        lambda storage, _: buffer.add(storage, step),
        lambda storage, _, key: buffer.sample(storage, key).experience,
        buffer.init(jax.tree.map(lambda x: x[0], step)),
    )


if __name__ == "__main__":
    programs = {
        f"{name} {capacity:,}": build(capacity)
        for name, build in (("ring", ring), ("flashbax", item_buffer))
        for capacity in (10_000, 1_000_000)
    }
    for name, seconds in alternate(programs, 10).items():
        print(f"{name:>22}: {seconds / REPEATS * 1e6:8.1f} us per add and sample")
