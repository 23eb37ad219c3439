"""Reward-free exploration on two cores: runs what is missing, then writes curves and figures.

    .venv/bin/python results/exploration.py [NAME ...]

Two runs at a time, each held to one core. Runs go to runs/exploration and resume when
interrupted; curves, figures and the summary go to results/exploration.
"""

import csv
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from queue import Queue

import numpy as np

from devote.figures.run import draw_coverage
from devote.figures.style import COLOURS, plt
from devote.loops.metrics_log import read

ROOT = Path(__file__).parent.parent
RUNS, OUT = ROOT / "runs" / "exploration", ROOT / "results" / "exploration"
SEEDS = range(5)  # seeds from 100 on were used for tuning


@dataclass(frozen=True)
class Study:
    """One task and the agents that are compared on it."""

    name: str
    words: tuple[str, ...]
    seeds: tuple[int, ...] = tuple(SEEDS)
    agents: tuple[str, ...] = ("devote", "sac")

    def command(self, agent: str, seed: int) -> list[str]:
        """What is typed for one run, without its directory."""
        return ["train", *self.words, "--agent", agent, "--preset", "desk", "--seed", str(seed)]

    def directory(self, agent: str, seed: int) -> Path:
        return RUNS / self.name / f"{agent}-{seed}"


STUDIES = [
    Study("spiral_step_2", ("spiral",)),
    Study("deep_sea_20", ("deep_sea", "--size", "20", "--steps", "60000")),
    Study("deep_sea_30", ("deep_sea", "--size", "30", "--steps", "120000")),
    Study("u_maze", ("u_maze",)),
    Study("spiral_step_1", ("spiral", "--step-size", "1.0", "--episode-length", "500"), (0, 1, 2)),
    Study("deep_sea_50", ("deep_sea",), (0, 1, 2)),
    Study(
        "spiral_step_025", ("spiral", "--step-size", "0.25", "--episode-length", "1000"), (0, 1, 2)
    ),
]


def run_all(studies: list[Study]) -> None:
    """Every run of every study, two at a time, one core each."""
    cores: Queue[int] = Queue()
    for core in sorted(os.sched_getaffinity(0))[:2]:
        cores.put(core)

    def run(job: tuple[Study, str, int]) -> None:
        study, agent, seed = job
        core = cores.get()
        try:
            directory = study.directory(agent, seed)
            words = [*study.command(agent, seed), "--out", str(directory)]
            subprocess.run(
                ["taskset", "-c", str(core), sys.executable, "-m", "devote", *words],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            print(f"done: {study.name} {agent} seed {seed}", flush=True)
        finally:
            cores.put(core)

    jobs = [(s, agent, seed) for s in studies for seed in s.seeds for agent in s.agents]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, jobs))


def curves(study: Study) -> list[dict[str, object]]:
    """Coverage of all runs of a study, row by row."""
    rows: list[dict[str, object]] = []
    for agent in study.agents:
        for seed in study.seeds:
            table = read(study.directory(agent, seed) / "metrics.csv")
            for i, step in enumerate(table["step"]):
                rows.append(
                    {
                        "agent": agent,
                        "seed": seed,
                        "step": int(step),
                        "updates": int(table["train/n_updates"][i]),
                        "coverage": round(float(table["explore/coverage"][i]), 5),
                        "coverage_reachable": round(
                            float(table["explore/coverage_reachable"][i]), 5
                        ),
                        "seconds": round(float(table["time/time_elapsed"][i]), 1),
                    }
                )
    return rows


def summary_lines(study: Study, rows: list[dict[str, object]]) -> list[str]:
    """Final coverage over seeds, one line per agent."""
    lines = []
    for agent in study.agents:
        last = {row["seed"]: row for row in rows if row["agent"] == agent}.values()
        final = np.array([float(str(row["coverage_reachable"])) for row in last])
        seconds = np.array([float(str(row["seconds"])) for row in last])
        error = final.std(ddof=1) / np.sqrt(len(final))
        command = "devote " + " ".join(study.command(agent, study.seeds[0])[:-1]) + " S"
        step = next(iter(last))["step"]
        lines.append(
            f"| {study.name} | {agent} | {final.mean():.3f} ± {error:.3f} | {final.min():.3f} | "
            f"{final.max():.3f} | {len(final)} | {step:,} | {np.median(seconds):.0f} s "
            f"| `{command}` |"
        )
    return lines


def draw(study: Study, rows: list[dict[str, object]]) -> None:
    """One panel with every seed."""
    figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
    for agent in study.agents:
        for seed in study.seeds:
            mine = [r for r in rows if r["agent"] == agent and r["seed"] == seed]
            steps = np.array([r["step"] for r in mine])
            values = np.array([r["coverage_reachable"] for r in mine])
            label = agent if seed == study.seeds[0] else None
            axes.plot(steps, values, color=COLOURS[agent], label=label, alpha=0.8)
    draw_coverage(axes, {})
    axes.set_title(f"{study.name}, preset desk, seeds {study.seeds[0]} to {study.seeds[-1]}")
    axes.legend()
    figure.savefig(OUT / f"{study.name}.png")
    plt.close(figure)


def processor() -> str:
    """The processor's own name."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))


def report(studies: list[Study]) -> None:
    """Curves, figures and the summary of every study whose runs are all there."""
    OUT.mkdir(parents=True, exist_ok=True)
    lines = [
        "# Reward-free exploration, preset desk",
        "",
        f"Written by `results/exploration.py` on {date.today()}; {processor()}, "
        "two cores, two runs at a time with one core each. Coverage is over reachable bins. "
        "Mean and standard error over seeds. Time is the median of the wall clock, compilation "
        "included; some runs shared their core with other programs.",
        "",
        "| study | agent | coverage | min | max | seeds | steps | time | command (seed S) |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for study in studies:
        if all(
            (study.directory(a, s) / "figures").exists() for a in study.agents for s in study.seeds
        ):
            rows = curves(study)
            with open(OUT / f"{study.name}.csv", "w", newline="") as file:
                writer = csv.DictWriter(file, rows[0])
                writer.writeheader()
                writer.writerows(rows)
            draw(study, rows)
            lines += summary_lines(study, rows)
    (OUT / "README.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    chosen = [study for study in STUDIES if study.name in sys.argv[1:] or len(sys.argv) == 1]
    run_all(chosen)
    report(STUDIES)
