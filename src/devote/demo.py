"""DEVOTE and SAC in the spiral maze, without rewards, in one figure."""

from dataclasses import replace
from pathlib import Path

from devote.build import plan
from devote.core.arrays import read_npz
from devote.core.settings import identity
from devote.figures.maps import coverage_curves, save_comparison
from devote.loops.metrics_log import read
from devote.loops.run_dir import METRICS
from devote.loops.train import train
from devote.presets import desk
from devote.run_report import FIGURES, draw_run

NAMES = {"devote": "DEVOTE", "sac": "SAC (entropy alone)"}


def run_demo(directory: Path, seed: int, steps: int | None) -> tuple[Path | None, str | None]:
    """Train both agents, or continue; the path of the figure, or the signal that stopped it."""
    curves, maps = {}, {}
    for agent, name in NAMES.items():
        run = replace(desk("spiral", agent), seed=seed)
        run = run if steps is None else replace(run, steps=steps)
        # another version's preset gets folders of its own
        folder = directory / f"{agent}-{identity(run, without=('steps',))}"
        planned = plan(run, folder)
        print(f"{name} in the spiral maze, {run.whole_steps:,} steps, in {folder}")
        result = train(planned)
        if result.stopped_by is not None:
            return None, result.stopped_by
        draw_run(result, folder, f"spiral {agent} desk")
        curves[name] = coverage_curves(read(folder / METRICS))[f"seed {seed}"]
        maps[agent] = read_npz(folder / FIGURES / f"maps_seed_{seed}.npz")
    grid = result.program.spec.grid
    assert grid is not None
    path = directory / "demo.png"
    title = f"Spiral maze without rewards, preset desk, seed {seed}"
    save_comparison(path, title, curves, grid, maps["devote"], maps["sac"]["visits"])
    return path, None
