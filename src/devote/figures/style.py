"""One look for all figures, put on while one is drawn and on nothing else."""

from collections.abc import Iterable
from itertools import cycle
from textwrap import fill
from typing import Any, NamedTuple

from matplotlib import rc_context
from matplotlib.figure import Figure

COLOURS = {
    "devote": "#0b5394",
    "sac": "#7f7f7f",
    "rnd": "#e69138",
    "thompson": "#6aa84f",
    "sombrl": "#a64d79",
    "rnd-classic": "#f1c232",
    "devote-no-rfn": "#cc4125",
    "devote-no-resets": "#45818e",
    "devote-no-tud": "#674ea7",
    "devote-no-tud-opt": "#bf9000",
}
"""One colour per agent, the same in every figure."""
SPARE = [
    "#e6194b",
    "#42d4f4",
    "#911eb4",
    "#ff7f00",
    "#f032e6",
    "#9a6324",
    "#4363d8",
    "#808000",
    "#fabebe",
    "#000000",
    "#bfef45",
    "#800000",
    "#aaffc3",
    "#dcbeff",
    "#00ff7f",
    "#000075",
]
"""For methods that are no agents of ours, far from each other and from COLOURS."""
DASHES = ("-", "--", ":", "-.")
NAMES = {
    "devote": "DEVOTE",
    "sac": "SAC",
    "rnd": "RND",
    "rnd-classic": "RND (classic)",
    "thompson": "TS",
    "sombrl": "SOMBRL",
    "devote-no-rfn": "no RFN",
    "devote-no-resets": "no resets",
    "devote-no-tud": "no TUD",
    "devote-no-tud-opt": "no TUD-OPT",
}
"""As the paper calls them."""

STYLE: Any = {
    "figure.dpi": 130,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
}
styled = rc_context(STYLE)
"""Decorates every function that draws: neither backend nor style of a notebook is touched."""


class Look(NamedTuple):
    """How a method is drawn."""

    colour: str
    dashes: str = "-"


def looks_of(methods: Iterable[str]) -> dict[str, Look]:
    """The agents' own colours, and for methods without one others, in the order of their names;
    where there are more methods than colours, with dashes."""
    nameless = sorted(set(methods) - COLOURS.keys())
    spare = [Look(colour, dashes) for dashes in DASHES for colour in SPARE]
    own = {name: Look(colour) for name, colour in COLOURS.items()}
    return own | dict(zip(nameless, cycle(spare), strict=False))


def wrapped(figure: Figure, text: str, points: int = 7) -> str:
    """Small print, or text of another size, in lines that fit the figure."""
    width = int(17 * figure.get_figwidth() * 7 / points)  # 17 characters of 7 points in an inch
    return "\n".join(fill(line, width) for line in text.splitlines())


def add_note(figure: Figure, text: str) -> None:
    """Scale, preset, budget and seeds, in small print under a figure."""
    figure.supxlabel(wrapped(figure, text), fontsize=7, color="0.4")
