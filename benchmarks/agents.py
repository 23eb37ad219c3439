"""Cost of an update of every agent, relative to SAC's, measured in turns in one run."""

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent))

from speed import alternate, batch_for, updater

from devote.build import AGENTS, JAX_ENVS
from devote.presets import desk


def cost(task: str, repeats: int, seconds: float) -> dict[str, float]:
    """Milliseconds per update of each agent at desk size, best of many."""
    env = JAX_ENVS[task](desk(task, "sac").env)
    programs = {}
    for name, entry in AGENTS.items():
        run = desk(task, name)
        agent = entry.build(run.agent, env.spec)
        programs[name] = updater(agent, batch_for(env.spec, run.loop.batch_size), repeats)
    best = alternate(programs, seconds)
    return {name: 1e3 * time / repeats for name, time in best.items()}


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="spiral", choices=list(JAX_ENVS))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--repeats", type=int, default=20, help="updates in one timed program")
    asked = parser.parse_args()
    console = Console()
    with console.status("measuring ..."):
        times = cost(asked.task, asked.repeats, asked.seconds)
    table = Table("agent", "ms per update", "over SAC")
    for name, time in sorted(times.items(), key=lambda pair: pair[1]):
        table.add_row(name, f"{time:.2f}", f"{time / times['sac']:.1f}")
    console.print(table)


if __name__ == "__main__":
    main()
