"""Figures and summary of a finished run."""

from pathlib import Path

import numpy as np

from devote.core.arrays import write_npz
from devote.core.durable import replacing
from devote.figures.maps import save_coverage, save_maps, save_returns
from devote.loops.metrics_log import read
from devote.loops.run_dir import FIGURES, METRICS
from devote.loops.snapshots import VISITS, take
from devote.loops.train import RETURNS, Result


def closing_words(directory: Path, episodes: int) -> list[str]:
    """The results of a run in words, and how to look at it."""
    metrics, words = read(directory / METRICS), []
    for seed in np.unique(metrics["seed"]):
        mine = {name: values[metrics["seed"] == seed] for name, values in metrics.items()}
        who = f"seed {seed:.0f}: " if len(np.unique(metrics["seed"])) > 1 else ""
        evaluated = np.flatnonzero(np.isfinite(mine.get("eval/mean_reward", np.array([]))))
        if len(evaluated):
            last = {name: values[evaluated[-1]] for name, values in mine.items()}
            words.append(
                f"{who}exploitation actor: return {last['eval/mean_reward']:.4g} ± "
                f"{last['eval/std_reward']:.3g} over {episodes} episodes, "
                f"after {last['step']:,.0f} steps"
            )
            if "eval/success_rate" in last:
                words[-1] += f"; {last['eval/success_rate']:.0%} of them solved"
        if "explore/coverage" in mine:
            words.append(f"{who}coverage: {mine['explore/coverage'][-1]:.3f}")
    return [*words, f"see it act: devote render {directory}"]


def draw_run(result: Result, directory: Path, title: str) -> list[Path]:
    """Draw returns and coverage over steps and, for every seed, maps of visits and of the agent's
    quantities."""
    grid, metrics = result.program.spec.grid, read(directory / METRICS)
    folder, written = directory / FIGURES, []
    folder.mkdir(exist_ok=True)
    rewards = [metrics.get(name, np.zeros(1)) for name in RETURNS]
    if any(np.nan_to_num(values).any() for values in rewards):
        written.append(save_returns(metrics, folder / "returns.png", title))
    if grid is None:
        return written
    written.append(save_coverage(metrics, folder / "coverage.png", title))
    program = result.program
    snapshot = take(program, result.state, result.step)
    for place, seed in enumerate(program.seeds):
        values = {name: snapshot.arrays[name][place] for name in snapshot.names}
        with replacing(folder / f"maps_seed_{seed}.npz") as temporary:
            write_npz(temporary, values)
        path = folder / f"maps_seed_{seed}.png"
        subtitle = f"{title}, seed {seed}, {result.step:,} steps"
        written.append(save_maps(grid, values.pop(VISITS), values, path, subtitle))
    return written
