"""Colours: an agent's own everywhere, and never two alike in a figure."""

from itertools import combinations

import numpy as np
from matplotlib.colors import to_rgb

from devote.experiments.catalogue import FIGURES
from devote.experiments.coverage import ABLATIONS, RIVALS
from devote.figures.style import COLOURS, SPARE, looks_of, plt, wrapped


def test_methods_of_a_figure_have_different_colours() -> None:
    lengths = [f"length {length}" for length in ("1", "2.5", "5", "7.5")]
    assert "fig:length_scales_devote" in FIGURES
    agents = [method.name for method in (*RIVALS, *ABLATIONS)]
    found = looks_of([*lengths, *agents])
    assert len({found[name] for name in [*lengths, *agents]}) == len({*lengths, *agents})
    assert all(found[name] == (COLOURS[name], "-") for name in agents)
    assert looks_of(reversed(lengths)) == looks_of(lengths)
    trials = [f"trial {i}" for i in range(3 * len(SPARE))]
    assert len({looks_of(trials)[name] for name in trials}) == len(trials)
    many = [f"method {i}" for i in range(15)]
    shown = [to_rgb(looks_of(many)[name].colour) for name in [*many, *COLOURS]]
    apart = [np.linalg.norm(np.subtract(a, b)) for a, b in combinations(shown, 2)]
    assert min(apart) > 0.15


def test_a_long_title_stays_within_a_narrow_figure() -> None:
    title = "Coverage without rewards: DEVOTE and its rivals"
    figure = plt.figure(figsize=(3.2, 3.3))
    text = figure.suptitle(wrapped(figure, title, 11), fontsize=11)
    box = text.get_window_extent(figure.canvas.get_renderer())
    plt.close(figure)
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width
