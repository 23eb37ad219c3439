"""Writes docs/settings.md: what every setting means, and its value in the presets. Run it after
changing one."""

import ast
import inspect
import textwrap
from dataclasses import fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from devote.core.settings import flat
from devote.names import AGENTS, TASKS
from devote.presets import PRESETS
from devote.run import Run

SHOWN = ("paper", "authors", "desk")
HIDDEN = {"layout"}
ABOUT = Path(__file__).parent / "settings_notes.md"
Columns = list[dict[str, Any]]


def meanings(settings: Any) -> dict[str, str]:
    """What each field's docstring says, nested settings included."""
    found: dict[str, str] = {}
    for kind in type(settings).__mro__[:-1]:
        body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0].body  # type: ignore[attr-defined]
        for field, text in pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                found.setdefault(field.target.id, " ".join(ast.literal_eval(text.value).split()))  # type: ignore[union-attr]
    for field in fields(settings):
        if is_dataclass(inner := getattr(settings, field.name)):
            found |= meanings(inner)
    return found


def show(value: Any) -> str:
    """A value as a reader would write it."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def table(columns: Columns, meaning: dict[str, str], known: Columns | None = None) -> list[str]:
    """One line per setting that is new or has another value, presets side by side."""
    rows = []
    for name in columns[0]:
        values = [column[name] for column in columns]
        before = [column.get(name) for column in known] if known else None
        if name not in HIDDEN and values != before:
            text = "" if known and name in known[0] else meaning.get(name, "").replace("|", "\\|")
            rows.append(f"| `{name}` | {' | '.join(map(show, values))} | {text} |")
    head = [f"| setting | {' | '.join(SHOWN)} | |", "| --- |" + " --- |" * (len(SHOWN) + 1)]
    return [*head, *rows] if rows else ["As above."]


def page() -> str:
    """The whole page."""

    def runs(task: str, agent: str) -> list[Run]:
        return [PRESETS[name](task, agent) for name in SHOWN]

    def section(title: str, group: str, task: str, agent: str, known: Columns | None = None) -> str:
        made = runs(task, agent)
        columns = [flat(getattr(run, group)) for run in made]
        if group == "loop":
            columns = [{"steps": run.steps} | own for run, own in zip(made, columns, strict=True)]
        return "\n".join([title, "", *table(columns, meanings(made[0]), known)])

    def learner(task: str, agent: str) -> Columns:
        return [flat(run.agent) for run in runs(task, agent)]

    def rest(task: str) -> Columns:
        made = runs(task, "devote")
        return [{"steps": r.steps} | flat(r.agent) | flat(r.loop) for r in made]

    sac, devote = learner("spiral", "sac"), learner("spiral", "devote")
    parts = [
        ABOUT.read_text().rstrip(),
        section("## Schedule, in the spiral maze", "loop", "spiral", "devote"),
        section("## sac: the backbone of all agents, in the spiral maze", "agent", "spiral", "sac"),
        section("## devote: beside the backbone", "agent", "spiral", "devote", sac),
    ]
    variants = []
    for agent in AGENTS:
        if agent in ("sac", "devote"):
            continue
        columns = learner("spiral", agent)
        if columns[0].keys() <= devote[0].keys():
            rows = table(columns, {}, devote)[2:]
            variants += [f"| `{agent}` {row.removesuffix('  |')}" for row in rows]
        else:
            than, known = ("devote", devote) if "num_indices" in columns[0] else ("sac", sac)
            title = f"## {agent}: what differs from {than}"
            parts.append(section(title, "agent", "spiral", agent, known))
    head = [f"| agent | setting | {' | '.join(SHOWN)} |", "| --- |" + " --- |" * (len(SHOWN) + 1)]
    parts.append("\n".join(["## Variants of devote: what differs from it", "", *head, *variants]))
    for task in TASKS:
        parts.append(section(f"## Task: {task}", "env", task, "devote"))
        if task != "spiral":
            lines = table(rest(task), {}, rest("spiral"))
            parts.append(
                "\n".join(["Schedule and `devote`, where not as in the spiral:", "", *lines])
            )
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    (Path(__file__).parent / "settings.md").write_text(page())
