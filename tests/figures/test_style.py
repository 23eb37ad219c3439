"""Colours: an agent's own everywhere, and never two alike in a figure; a style that stays there."""

import subprocess
import sys
from itertools import combinations
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from devote.experiments.paper_figures import ABLATIONS, FIGURES, RIVALS
from devote.figures.maps import save_coverage
from devote.figures.style import COLOURS, SPARE, STYLE, looks_of, wrapped


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
    figure = Figure(figsize=(3.2, 3.3))
    text = figure.suptitle(wrapped(figure, title, 11), fontsize=11)
    box = text.get_window_extent(FigureCanvasAgg(figure).get_renderer())
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width


def test_drawing_leaves_backend_and_style_of_the_user_alone(tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    metrics = {name: np.arange(3.0) for name in ("step", "seed", "explore/coverage")}
    save_coverage(metrics, tmp_path / "coverage.png", "a title")
    assert dict(matplotlib.rcParams) == before
    with rc_context(STYLE):  # or this test says nothing
        assert dict(matplotlib.rcParams) != before


def test_importing_the_figures_chooses_no_backend() -> None:
    rooms = ("calibration_plots", "film", "learning_curves", "maps", "style")
    imports = "".join(f"import devote.figures.{room};" for room in rooms)
    code = (
        f"import matplotlib; matplotlib.use('template'); old = dict(matplotlib.rcParams); {imports}"
        "assert dict(matplotlib.rcParams) == old; assert matplotlib.get_backend() == 'template';"
        "import sys; assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
