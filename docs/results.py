"""Writes the tables of results in README.md from the files in results/. Run it after a study."""

import csv
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
AGENTS = {"devote": "DEVOTE", "sac": "SAC", "rnd": "RND", "thompson": "TS", "sombrl": "SOMBRL"}
TASKS = {
    "spiral": "spiral maze",
    "u_maze": "U maze (0.986 can be reached)",
    "deep_sea_20": "DeepSea 20",
    "deep_sea_50": "DeepSea 50",
    "cheetah": "Cheetah velocities (many out of reach)",
    "all tasks": "mean of the five",
}
RETURNS = {
    "mountain_car": "MountainCarContinuous-v0",
    "devote_plus/cartpole_sparse": "cartpole swingup, sparse",
}


def scores(folder: str, digits: int) -> dict[tuple[str, str], str]:
    """Mean and standard error by task and method."""

    def rounded(number: str) -> str:
        return f"{round(float(number), digits) + 0.0:.{digits}f}"  # + 0.0: never -0.0

    with (ROOT / "results" / folder / "table.csv").open() as file:
        return {
            (
                row["task"],
                row["method"],
            ): f"{rounded(row['mean'])} ± {rounded(row['standard_error'])}"
            for row in csv.DictReader(file)
        }


def line(cells: list[str]) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |"


def coverage() -> str:
    """Coverage of every agent in every task; the highest mean in bold."""
    found = scores("main_coverage/desk", 3)
    rows = [line(["coverage", *AGENTS.values()]), line(["---"] * 6)]
    for task, title in TASKS.items():
        cells = [found[task, agent] for agent in AGENTS]
        best = max(cells)
        rows.append(
            line([title, *(f"**{cell}**" if cell[:5] == best[:5] else cell for cell in cells)])
        )
    return "\n".join(rows)


def returns() -> str:
    """Returns of the exploitation actor where rewards are sparse."""
    agents = {"devote-plus": "devote-plus", "devote": "DEVOTE", "sac": "SAC"}
    rows = [line(["return", *agents.values()]), line(["---"] * 4)]
    for folder, title in RETURNS.items():
        found = {method: score for (_, method), score in scores(folder, 1).items()}
        rows.append(
            line([f"[{title}](results/{folder}/README.md)", *(found.get(a, "-") for a in agents)])
        )
    return "\n".join(rows)


def page(text: str) -> str:
    """The README with its tables as they are in results/."""
    for name, table in (("coverage", coverage()), ("returns", returns())):
        text = re.sub(
            rf"(<!-- {name}: docs/results.py -->\n)[^!]*?(\n<!-- end -->)",
            lambda found, table=table: f"{found[1]}\n{table}\n{found[2]}",
            text,
            flags=re.S,
        )
    return text


if __name__ == "__main__":
    README.write_text(page(README.read_text()))
