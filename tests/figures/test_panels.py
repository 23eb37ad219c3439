"""Panels of curves: readable however many methods there are, and however few runs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from devote.experiments.paper_figures import ABLATIONS
from devote.figures.learning_curves import Panel, save_panels
from devote.measure.curves import Curve

LONG = [f"thompson num_members={n} prior_width=256" for n in range(15)]


def panel(methods: list[str], unfinished: list[str]) -> Panel:
    steps = np.linspace(0, 1000, 20)
    lines = {m: Curve(steps, steps / 1000 * (i + 1) / 20, steps * 0) for i, m in enumerate(methods)}
    return Panel("Maze", "state coverage", lines, True, {name: "2/5" for name in unfinished})


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Figures as they are saved."""
    found: list[Figure] = []
    save = Figure.savefig

    def noting(figure: Figure, path: Path) -> None:
        found.append(figure)
        save(figure, path)

    monkeypatch.setattr(Figure, "savefig", noting)
    return found


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("names", [[m.name for m in ABLATIONS], LONG], ids=["ablations", "trials"])
def test_unfinished_methods_and_long_names_leave_the_panels_room(
    names: list[str], count: int, drawn: list[Figure], tmp_path: Path
) -> None:
    save_panels(tmp_path / "x.png", "A title", "scale desk", [panel(names, names)] * count)
    (figure,) = drawn
    boxes = [axes.get_window_extent() for axes in figure.axes if axes.axison]
    assert len(boxes) == count
    assert min(box.width for box in boxes) > 1.5 * figure.dpi
    assert min(box.height for box in boxes) > 0.9 * figure.dpi
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width
    assert len(legend.get_texts()) == len(names)
    assert legend.get_title().get_text() == "scale desk"


@pytest.mark.parametrize("without", [(), ("rnd",)], ids=["all defined", "one without a value"])
def test_small_print_is_between_title_and_panel(
    without: tuple[str, ...], drawn: list[Figure], tmp_path: Path
) -> None:
    names = [method.name for method in ABLATIONS]
    some = replace(panel(names, names), undefined=without)
    save_panels(tmp_path / "x.png", "A title", "scale desk", [some] * 3)
    for axes in drawn[0].axes:
        (text,) = axes.texts
        assert ("a run has no value: RND" in text.get_text()) == bool(without)
        box, room = text.get_window_extent(), axes.get_window_extent()
        assert room.y1 <= box.y0
        assert box.y1 <= axes.title.get_window_extent().y0
        assert room.x0 <= box.x0
        assert box.x1 <= room.x1
