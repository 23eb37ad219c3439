"""What maps cost a training: CPU seconds of chunks with and without one after them, in turn.

taskset -c 0 python benchmarks/maps.py [--task spiral] [--pairs 8]
"""

import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import jax
import tyro

from devote.build import build_program
from devote.loops import snapshots
from devote.presets import desk


@dataclass(frozen=True)
class Cost:
    """Maps of DEVOTE on the desk preset."""

    task: str = "spiral"
    pairs: int = 8


def main(asked: Cost) -> None:
    program = build_program(desk(asked.task, "devote"))
    state = jax.block_until_ready(program.prefill(program.init()))
    begun = time.process_time()
    snapshots.take(program, state, 0)
    first = time.process_time() - begun
    seconds: dict[bool, list[float]] = {False: [], True: []}
    with TemporaryDirectory() as folder:
        for number in range(-1, asked.pairs):  # the first pair compiles
            for mapped in (False, True):
                begun = time.process_time()
                state, _ = jax.block_until_ready(program.chunk(state))
                if mapped:
                    taken = snapshots.take(program, state, number + 1)
                    snapshots.write(Path(folder), taken)
                if number >= 0:
                    seconds[mapped].append(time.process_time() - begun)
    program.close()
    without, mapped = median(seconds[False]), median(seconds[True])
    print(
        f"{asked.task}: a chunk takes {without:.3f} s, with a map {mapped:.3f} s "
        f"({mapped / without - 1:+.2%}); the first map, compilation included, {first:.1f} s"
    )


if __name__ == "__main__":
    main(tyro.cli(Cost))
