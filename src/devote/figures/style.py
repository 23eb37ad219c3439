"""One look for all figures, applied while a figure is drawn and to nothing else."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.legend import Legend

from devote.core.durable import replacing
from devote.core.errors import UserError


class Look(NamedTuple):
    """How a method is drawn."""

    colour: str
    dashes: str = "-"


AGENTS = {
    "devote": ("DEVOTE", Look("#0072b2")),
    "devote-plus": ("DEVOTE+", Look("#000000")),
    "true-counts": ("true counts", Look("#000000", ":")),
    "sac": ("SAC", Look("#666666")),
    "rnd": ("RND", Look("#e69f00")),
    "rnd-classic": ("RND (classic)", Look("#e69f00", "--")),
    "thompson": ("TS", Look("#009e73")),
    "sombrl": ("SOMBRL", Look("#cc79a7")),
    "devote-no-rfn": ("no RFN", Look("#d55e00")),
    "devote-no-resets": ("no resets", Look("#56b4e9")),
    "devote-no-tud": ("no TUD", Look("#882255")),
    "devote-no-tud-ucb": ("no TUD (std)", Look("#882255", "--")),
    "devote-no-tud-opt": ("no TUD-OPT", Look("#999933")),
    "devote-no-tud-opt-ucb": ("no TUD-OPT (std)", Look("#999933", "--")),
}
"""What the paper calls an agent, and its look in every figure. The colours, of Okabe and Ito and of
Paul Tol, are safe for the colour-blind; a variant has its agent's colour and other dashes."""
LOOKS = {agent: look for agent, (_, look) in AGENTS.items()}
SPARE = ("#332288", "#44aa99", "#aa4499", "#ddcc77", "#cc6677", "#117733", "#88ccee", "#661100")
"""For methods that are not agents of ours."""
DASHES = ("-", "--", ":", "-.")
BLUE, ORANGE = LOOKS["devote"].colour, LOOKS["devote-no-rfn"].colour
"""Inside and outside of the training data; exploitation and exploration."""
STYLE: Any = {
    "figure.dpi": 180,
    "savefig.dpi": "figure",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "image.cmap": "viridis",
}
styled = rc_context(STYLE)
"""Decorator of every function that draws: neither backend nor style of a notebook is touched."""


def name_of(method: str) -> str:
    """A method as figures call it: the agent's name in the paper, then the changed settings."""
    agent, *changes = method.split(" ")
    name = AGENTS[agent][0] if agent in AGENTS else agent
    return " ".join([name, *changes])


def looks_of(methods: Iterable[str]) -> dict[str, Look]:
    """The looks of all agents and of these methods, in the order of their names; a variant such as
    `rnd optimism=3` has its agent's colour while there are dashes left; `lambda 0.1`, `lambda 0.5`
    and the like go from dark to light."""
    methods = list(methods)
    looks = dict(LOOKS)
    found = [re.fullmatch(r"(\D+ )([\d.]+)", name) for name in methods]
    numbered = [match for match in found if match and match[1].split()[0] not in AGENTS]
    numbers = sorted({float(match[2]) for match in numbered})
    stems = list(dict.fromkeys(match[1] for match in numbered))
    for match in numbered if len(numbers) > 1 else ():
        place = numbers.index(float(match[2])) / (len(numbers) - 1)
        looks[match[0]] = Look(
            to_hex(colormaps["viridis"](0.9 * place)), DASHES[stems.index(match[1]) % len(DASHES)]
        )
    spare = [Look(colour, dashes) for dashes in DASHES for colour in SPARE]
    for name in sorted(set(methods) - looks.keys()):
        agent = name.split(" ")[0]
        variants = [Look(LOOKS[agent].colour, dashes) for dashes in DASHES if agent in LOOKS]
        free = (look for look in (*variants, *spare) if look not in looks.values())
        looks[name] = next(free, spare[len(looks) % len(spare)])
    return looks


def panel_grid(count: int, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """A figure of panels in rows, each so many inches wide and high; the last row may be short."""
    columns = min(columns, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    places = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in places[count:]:
        axes.axis("off")
    return figure, places[:count]


def legend_below(figure: Figure, columns: int = 4) -> None:
    """One legend for all panels, under them."""
    handles = {
        label: handle
        for axes in figure.axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=columns)


def wrapped(figure: Figure, text: str, points: int = 7) -> str:
    """Small print, or text of another size, in lines that fit the figure."""
    width = int(17 * figure.get_figwidth() * 7 / points)  # 17 characters of 7 points in an inch
    return "\n".join(fill(line, width) for line in text.splitlines())


def add_note(figure: Figure, text: str, below: Legend | None = None) -> None:
    """Scale, preset, budget and seeds, in small print under the panels; over the legend where that
    is below them, because a label would be drawn over it."""
    if below is None:
        figure.supxlabel(wrapped(figure, text), fontsize=7, color="0.4")
    else:
        below.set_title(wrapped(figure, text))
        below.get_title().set(size=7, color="0.4", multialignment="center")


def written(figure: Figure, path: Path) -> Path:
    """Write the picture, whole or not at all; DEVOTE_FIGURES=pdf,svg adds these formats."""
    more = [kind for kind in os.environ.get("DEVOTE_FIGURES", "").split(",") if kind]
    if wrong := set(more) - {"pdf", "svg"}:
        raise UserError("DEVOTE_FIGURES as pdf, svg or pdf,svg", sorted(wrong), "change it")
    for place in (path, *(path.with_suffix(f".{kind}") for kind in more)):
        with replacing(place) as temporary:
            figure.savefig(temporary, format=place.suffix[1:])
    return path
