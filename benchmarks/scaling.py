"""What a run needs, counted and not measured: memory of its state, FLOPs of an update and of all.

`python benchmarks/scaling.py [preset]` prints the table of docs/scaling.md. FLOPs are XLA's own
count of the unoptimised program; nothing is compiled or run.
"""

import os
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax

from devote.build import build_program
from devote.loops.memory import tree_bytes
from devote.presets import PRESETS

TASKS = ("spiral", "deep_sea", "cheetah", "ant_maze", "pick_and_place")
AGENTS = ("devote", "sac", "rnd", "thompson", "sombrl")


def counted(env: str, agent: str, preset: str) -> tuple[int, float, float, float, float]:
    """Steps; GB of state and replay; GFLOPs of an update; PFLOPs of all updates."""
    run = PRESETS[preset](env, agent)
    program = build_program(run)
    shape = program.shape()
    loop = program.loop.loop if hasattr(program.loop, "loop") else program.loop
    if env in ("spiral", "deep_sea"):
        state = shape
    else:  # environments on the host hold nothing on the device
        state = shape._replace(memory=(), worlds=shape.worlds._replace(obs=(), saved=(), exact=()))
    flops = jax.jit(loop.update).lower(state).cost_analysis()["flops"]
    program.close()
    updates = run.steps * run.loop.updates_per_step
    whole, replay = tree_bytes(shape) / 1e9, tree_bytes(shape.replay) / 1e9
    return run.steps, whole, replay, flops / 1e9, flops * updates / 1e15


if __name__ == "__main__":
    preset = sys.argv[1] if len(sys.argv) > 1 else "paper"
    print("| task | agent | steps | state, GB | of which replay | GFLOP an update | PFLOP a run |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for env in TASKS:
        for agent in AGENTS if env == "spiral" else ("devote",):
            steps, whole, replay, update, total = counted(env, agent, preset)
            row = f"{steps:,} | {whole:.2f} | {replay:.2f} | {update:.1f} | {total:.1f}"
            print(f"| {env} | {agent} | {row} |", flush=True)
