"""Colours: an agent's own everywhere, and never two alike in a figure."""

from devote.experiments.catalogue import FIGURES
from devote.experiments.coverage import ABLATIONS, RIVALS
from devote.figures.style import COLOURS, colours_of


def test_methods_of_a_figure_have_different_colours() -> None:
    lengths = [f"length {length}" for length in ("1", "2.5", "5", "7.5")]
    assert "fig:length_scales_devote" in FIGURES
    agents = [method.name for method in (*RIVALS, *ABLATIONS)]
    found = colours_of([*lengths, *agents])
    assert len({found[name] for name in [*lengths, *agents]}) == len({*lengths, *agents})
    assert all(found[name] == COLOURS[name] for name in agents)
    assert colours_of(reversed(lengths)) == colours_of(lengths)
    many = [f"method {i}" for i in range(15)]
    assert set(many) <= set(colours_of(many))
