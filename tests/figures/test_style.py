"""Colours: an agent's own everywhere, and never two alike in a figure; a style that stays there."""

import subprocess
import sys
from itertools import combinations
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from devote.core.errors import UserError
from devote.experiments.paper_figures import ABLATIONS, BESIDE, BY_DEVIATION, FIGURES, RIVALS
from devote.figures.maps import save_coverage
from devote.figures.style import LOOKS, SPARE, STYLE, looks_of, name_of, wrapped, written


def test_methods_of_a_figure_have_different_looks() -> None:
    lengths = [f"length {length}" for length in ("1", "2.5", "5", "7.5")]
    assert "fig:length_scales_devote" in FIGURES
    agents = [method.name for method in (*RIVALS, *BESIDE, *ABLATIONS, *BY_DEVIATION)]
    found = looks_of([*lengths, *agents])
    assert len({found[name] for name in [*lengths, *agents]}) == len({*lengths, *agents})
    assert all(found[name] == LOOKS[name] for name in agents)
    assert looks_of(reversed(lengths)) == looks_of(lengths)
    trials = [f"trial {i}" for i in range(3 * len(SPARE))]
    assert len({looks_of(trials)[name] for name in trials}) == len(trials)


def test_colours_are_far_apart_also_for_the_colour_blind() -> None:
    shown = {to_rgb(colour) for colour in (*SPARE, *(look.colour for look in LOOKS.values()))}
    assert len(shown) > 15
    assert min(np.linalg.norm(np.subtract(a, b)) for a, b in combinations(shown, 2)) > 0.15
    # of the rivals, which share every figure, also as deuteranopes see them (Vienot et al., 1999)
    seen = np.array([[0.625, 0.375, 0.0], [0.7, 0.3, 0.0], [0.0, 0.3, 0.7]])
    rivals = [seen @ to_rgb(LOOKS[method.name].colour) for method in RIVALS]
    assert min(np.linalg.norm(a - b) for a, b in combinations(rivals, 2)) > 0.12


def test_variants_of_an_agent_have_its_colour_and_name() -> None:
    found = looks_of(["rnd", "rnd optimism=3", "rnd optimism=10"])
    assert {found[name].colour for name in found if name.startswith("rnd")} == {found["rnd"].colour}
    assert len({found[name] for name in ("rnd", "rnd optimism=3", "rnd optimism=10")}) == 3
    assert name_of("rnd optimism=3") == "RND optimism=3"


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


def test_pdf_and_svg_are_written_beside_the_picture_where_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = Figure(figsize=(2, 2))
    written(figure, tmp_path / "one.png")
    assert [path.name for path in tmp_path.iterdir()] == ["one.png"]
    monkeypatch.setenv("DEVOTE_FIGURES", "pdf,svg")
    assert written(figure, tmp_path / "two.png") == tmp_path / "two.png"
    assert (tmp_path / "two.pdf").read_bytes().startswith(b"%PDF")
    assert "<svg" in (tmp_path / "two.svg").read_text()
    monkeypatch.setenv("DEVOTE_FIGURES", "eps")
    with pytest.raises(UserError, match="pdf, svg"):
        written(figure, tmp_path / "three.png")


def test_importing_the_figures_chooses_no_backend() -> None:
    rooms = ("calibration_plots", "film", "learning_curves", "maps", "style")
    imports = "".join(f"import devote.figures.{room};" for room in rooms)
    code = (
        f"import matplotlib; matplotlib.use('template'); old = dict(matplotlib.rcParams); {imports}"
        "assert dict(matplotlib.rcParams) == old; assert matplotlib.get_backend() == 'template';"
        "import sys; assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
