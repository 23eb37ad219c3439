"""One look for all figures."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = {
    "devote": "#0b5394",
    "sac": "#7f7f7f",
    "rnd": "#e69138",
    "thompson": "#6aa84f",
    "sombrl": "#a64d79",
}

plt.rcParams.update(
    {
        "figure.dpi": 130,
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.25,
        "legend.frameon": False,
    }
)

__all__ = ["COLOURS", "Axes", "Figure", "plt"]
