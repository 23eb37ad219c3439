"""From a finished run to its pictures."""

from pathlib import Path

from devote.core.arrays import write_npz
from devote.figures.maps import save_coverage, save_maps
from devote.loops.metrics_log import read
from devote.loops.train import METRICS, Result

FIGURES = "figures"


def draw_run(result: Result, directory: Path, title: str) -> list[Path]:
    """Coverage over steps and, for every seed, maps of visits and of what the agent thinks."""
    grid = result.program.spec.grid
    if grid is None:
        return []
    folder = directory / FIGURES
    folder.mkdir(exist_ok=True)
    written = [save_coverage(read(directory / METRICS), folder / "coverage.png", title)]
    program = result.program
    maps = program.per_seed(program.maps(result.state))
    visits = program.per_seed({"visits": result.state.visits})
    for seed, values, counts in zip(program.seeds, maps, visits, strict=True):
        arrays = {"visits": counts["visits"]} | values
        write_npz(folder / f"maps_seed_{seed}.npz", arrays)
        path = folder / f"maps_seed_{seed}.png"
        subtitle = f"{title}, seed {seed}, {result.step:,} steps"
        written.append(save_maps(grid, counts["visits"], values, path, subtitle))
    return written
