"""Writes docs/settings.md: every setting in every preset. Run it after changing one."""

from pathlib import Path
from typing import Any

from devote.core.settings import flat
from devote.presets import PRESETS
from devote.run import Run

GROUPS = ("env", "agent", "loop")
HIDDEN = {"layout"}
CASES = (
    ("spiral", "devote"),
    ("u_maze", "devote"),
    ("deep_sea", "devote"),
    ("cheetah", "devote"),
    ("cartpole_swingup", "devote"),
    ("ant_maze", "devote"),
    ("pick_and_place", "devote"),
    ("spiral", "rnd"),
    ("spiral", "rnd-classic"),
    ("spiral", "thompson"),
    ("spiral", "sombrl"),
    ("gymnasium", "devote"),
    ("brax", "devote"),
    ("playground", "devote"),
)
ABOUT = Path(__file__).parent / "settings_notes.md"


def show(value: Any) -> str:
    """A value as a reader would write it."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def rows(runs: dict[str, Run]) -> list[str]:
    """One line per setting, presets side by side."""
    lines = [f"| setting | {' | '.join(runs)} |", "| --- |" + " --- |" * len(runs)]
    columns = [{"steps": run.steps} for run in runs.values()]
    for column, run in zip(columns, runs.values(), strict=True):
        for group in GROUPS:
            column |= flat(getattr(run, group))
    for name in columns[0]:
        if name not in HIDDEN:
            lines.append(f"| `{name}` | {' | '.join(show(column[name]) for column in columns)} |")
    return lines


def page() -> str:
    """The whole page."""
    parts = [ABOUT.read_text().rstrip()]
    for env, agent in CASES:
        runs = {name: preset(env, agent) for name, preset in PRESETS.items()}
        parts.append("\n".join([f"## {agent} in {env}", "", *rows(runs)]))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    (Path(__file__).parent / "settings.md").write_text(page())
