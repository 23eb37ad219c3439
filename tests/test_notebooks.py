"""The notebooks in `examples` run from top to bottom."""

import json
import warnings
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SMALLER = {"steps = 100_000": "steps = 4_000", '"u_maze", seed=0': '"u_maze", 0, "smoke"'}


def cells(name: str) -> list[str]:
    notebook = json.loads((EXAMPLES / f"{name}.ipynb").read_text())
    return ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]


def run(name: str) -> dict[str, Any]:
    """What a notebook's cells leave behind."""
    matplotlib.use("Agg")
    code = "\n".join(cells(name))
    for long, short in SMALLER.items():
        code = code.replace(long, short)
    found: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        exec(compile(code, name, "exec"), found)  # noqa: S102  our own notebook
    return found


@pytest.fixture(autouse=True)
def closed_figures() -> Any:
    yield
    plt.close("all")


def test_a_maze_is_explored() -> None:
    found = run("explore_a_maze")
    assert len(plt.get_fignums()) == 2
    assert all(rows[-1]["explore/coverage"] > 0 for rows in found["rows"].values())
    assert found["maps"]["novelty value rb"].size == found["grid"].size


def test_priors_widen_the_intervals_of_a_critic() -> None:
    found = run("is_my_critic_calibrated")
    before, after = found["before"].numbers, found["after"].numbers
    assert min(before["auroc"], after["auroc"]) > 0.85
    assert after["outside_miscoverage"] < 0.7 * before["outside_miscoverage"]
