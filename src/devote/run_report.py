"""From a finished run to its pictures."""

from pathlib import Path

from devote.core.arrays import write_npz
from devote.figures.maps import save_coverage, save_maps
from devote.loops.loop import split_seeds
from devote.loops.metrics_log import read
from devote.loops.run_dir import FIGURES, METRICS
from devote.loops.train import Result


def draw_run(result: Result, directory: Path, title: str) -> list[Path]:
    """Coverage over steps and, for every seed, maps of visits and of what the agent thinks."""
    grid = result.program.spec.grid
    if grid is None:
        return []
    folder = directory / FIGURES
    folder.mkdir(exist_ok=True)
    written = [save_coverage(read(directory / METRICS), folder / "coverage.png", title)]
    program = result.program
    maps = split_seeds(program.maps(result.state), len(program.seeds))
    visits = split_seeds({"visits": result.state.visits}, len(program.seeds))
    for seed, values, counts in zip(program.seeds, maps, visits, strict=True):
        arrays = {"visits": counts["visits"]} | values
        write_npz(folder / f"maps_seed_{seed}.npz", arrays)
        path = folder / f"maps_seed_{seed}.png"
        subtitle = f"{title}, seed {seed}, {result.step:,} steps"
        written.append(save_maps(grid, counts["visits"], values, path, subtitle))
    return written
