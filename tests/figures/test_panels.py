"""Panels of curves: readable however many methods there are, and however few runs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from devote.experiments.paper_figures import ABLATIONS
from devote.figures.learning_curves import Panel, save_dots, save_panels
from devote.measure.curves import Curve

LONG = [f"thompson num_members={n} prior_width=256" for n in range(15)]


def panel(methods: list[str], unfinished: list[str]) -> Panel:
    steps = np.linspace(0, 1000, 20)
    lines = {m: Curve(steps, steps / 1000 * (i + 1) / 20, steps * 0) for i, m in enumerate(methods)}
    return Panel(
        "Maze", "state coverage", lines, True, unfinished={name: "2/5" for name in unfinished}
    )


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Figures as they are saved."""
    found: list[Figure] = []
    save = Figure.savefig

    def noting(figure: Figure, path: Path, **how: Any) -> None:
        found.append(figure)
        save(figure, path, **how)

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
    texts = [legend.get_title(), *figure.texts]
    (note,) = [text for text in texts if text.get_text().startswith("scale desk")]
    assert ("runs so far" in note.get_text()) == (count > 1)  # once where it is so in all panels
    assert not any(box.overlaps(note.get_window_extent()) for box in boxes)
    if note is not legend.get_title():
        assert not legend.get_window_extent().overlaps(note.get_window_extent())


def test_few_evaluations_are_points_with_bars(drawn: list[Figure], tmp_path: Path) -> None:
    some = panel(["devote", "sac"], [])
    few = Curve(np.array([500.0, 1000.0]), np.array([0.2, 0.4]), np.array([0.1, 0.1]))
    save_panels(tmp_path / "x.png", "A title", "", [replace(some, points={"sac": few})])
    (axes,) = drawn[0].axes
    (bars,) = axes.containers
    np.testing.assert_allclose(bars[0].get_xdata(), [0.5, 1.0])  # in thousands
    assert len(axes.collections) == 2  # a band of DEVOTE, and bars


def test_axes_begin_at_0_and_titles_are_whole(drawn: list[Figure], tmp_path: Path) -> None:
    steps = np.linspace(0, 1000, 20)
    high = {"sac": Curve(steps, steps * 0 + 800, steps * 0)}
    shown = Panel("cheetah, rewards=true, updates_per_step=0.125", "return", high)
    save_panels(tmp_path / "x.png", "A title", "", [shown, shown])
    for axes in drawn[0].axes:
        assert axes.get_ylim()[0] == 0
        box = axes.title.get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= drawn[0].bbox.width


def test_dots_show_every_seed_of_every_method(drawn: list[Figure], tmp_path: Path) -> None:
    values = {"rnd": np.array([0.2, 0.3]), "rnd optimism=3": np.array([0.5])}
    tasks = {"Maze": values, "Sea": {"rnd": np.array([0.9])}}
    save_dots(tmp_path / "x.png", "A title", "note", "coverage", tasks)
    maze, sea = drawn[0].axes
    labels = [label.get_text() for label in maze.get_yticklabels()]
    assert labels == ["RND optimism=3", "RND"]  # the best first
    dots = [line.get_xdata() for line in maze.lines if line.get_marker() == "o"]
    assert [list(dot) for dot in dots] == [[0.5], [0.2, 0.3]]
    assert sum(len(line.get_xdata()) for line in sea.lines if line.get_marker() == "o") == 1


@pytest.mark.parametrize("without", [(), ("rnd",)], ids=["all defined", "one without a value"])
def test_small_print_is_between_title_and_panel(
    without: tuple[str, ...], drawn: list[Figure], tmp_path: Path
) -> None:
    names = [method.name for method in ABLATIONS]
    some = replace(panel(names, names), undefined=without)
    other = replace(some, unfinished=some.unfinished | {"sac": "1/5"})
    save_panels(tmp_path / "x.png", "A title", "scale desk", [some, some, other])
    for axes in drawn[0].axes:
        (text,) = axes.texts
        assert ("a run has no value: RND" in text.get_text()) == bool(without)
        box, room = text.get_window_extent(), axes.get_window_extent()
        assert room.y1 <= box.y0
        assert box.y1 <= axes.title.get_window_extent().y0
        assert room.x0 <= box.x0
        assert box.x1 <= room.x1
