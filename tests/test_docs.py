"""Pages are in step with the code."""

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from devote.cli import CheckEnv, Demo, parse_train, typed
from devote.doctor import Doctor
from devote.experiments.commands import Compare, Listing, Make, Tune, study_of
from devote.experiments.paper_figures import FIGURES
from devote.live.server import Watch
from devote.render import Render

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def test_settings_page_is_current() -> None:
    page = runpy.run_path(str(DOCS / "settings.py"))["page"]()
    assert (DOCS / "settings.md").read_text() == page, "run docs/settings.py"


def test_results_in_the_readme_are_current() -> None:
    text = (ROOT / "README.md").read_text()
    page = runpy.run_path(str(DOCS / "results.py"))["page"]
    assert page(text) == text, "run docs/results.py"
    assert page(text.replace("0.971", "0.999")) == text, "the table is not written anew"
    assert len(text.splitlines()) <= 120


def test_files_that_the_pages_name_exist() -> None:
    for page in ("glossary", "agents", "decisions", "architecture", "mutations"):
        text = (DOCS / f"{page}.md").read_text()
        for name in re.findall(
            r"`((?:agents|nets|core|epistemic|loops|replay|envs)/[\w/]+\.py)`", text
        ):
            assert any((ROOT / place / name).exists() for place in ("src/devote", "tests")), name


def test_pages_of_studies_are_current() -> None:
    pages = dict(runpy.run_path(str(DOCS / "studies.py"))["pages"]())
    assert set(pages) == {DOCS / "paper.md", *(DOCS / "studies").glob("*.md")}
    for path, text in pages.items():
        assert path.read_text() == text, f"{path.name}: run docs/studies.py"
    assert pages[DOCS / "paper.md"].count("\n| ") == 1 + 1 + 16  # head, rule and claims


def test_mutations_name_tests_that_exist() -> None:
    table = (DOCS / "mutations.md").read_text().split("| --- |")[-1]
    named = set(re.findall(r"`([\w/]+\.py)` (\w+) \(\d+\)", table))
    assert len(named) >= 40
    assert not [
        (file, test)
        for file, test in sorted(named)
        if f"def test_{test}(" not in (Path(__file__).parent / file).read_text()
    ]


def test_features_name_tests_that_exist() -> None:
    rows = (DOCS / "features.md").read_text().splitlines()
    named = re.findall(r"\]\((\S+\.py)\) `(\w+)`", "\n".join(rows))
    for file, test in named:
        assert f"def test_{test}(" in (DOCS / file).read_text(), (file, test)
    asked = [row for row in rows if re.match(r"\| \d+ ", row)]
    assert [int(row.split()[1]) for row in asked] == list(range(1, 36))
    silent = [row for row in asked if "](../tests/" not in row]
    assert all("**not built**" in row for row in silent), "what has no test says so"
    assert [sum(f"| {kind}" in row for row in asked) for kind in ("should", "could")] == [7, 3]


def test_every_link_leads_somewhere() -> None:
    pages = [ROOT / "README.md", *DOCS.rglob("*.md"), *(ROOT / "results").rglob("*.md")]
    found = 0
    for page in pages:
        for link in re.findall(r"\]\(([^)#:]+)[)#]", page.read_text()):
            found += 1
            assert (page.parent / link).exists(), f"{page.relative_to(ROOT)}: {link}"
    assert found > 90


def test_every_page_is_in_the_navigation() -> None:
    named = re.findall(r": (docs/\w+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    pages = {f"docs/{page.name}" for page in DOCS.glob("*.md")} - {"docs/settings_notes.md"}
    assert sorted(named) == sorted(pages)


def snippets(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / f"{page}.md").read_text(), re.S)


@pytest.mark.parametrize("page", ["README", "docs/callbacks", "docs/from_sb3", "docs/gymnasium"])
def test_the_snippets_of_a_page_run(page: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for snippet in snippets(page):
        if "loggers" not in snippet:  # tests/live has these
            small = snippet.replace("import Devote", "import Sac as Devote")  # compiles sooner
            small = small.replace("60_000", "800, progress_bar=False")
            small = re.sub(r'(-v\d", seed=0)', r'\1, preset="smoke"', small)
            small = small.replace('"CartPole-v1")', '"CartPole-v1", preset="smoke")')
            small = small.replace("episodes=10", "episodes=1")
            assert small.count("smoke") == small.count("800") == 1
            exec(small, {"obs": np.zeros(2, np.float32)})  # noqa: S102  our own page


def test_the_snippets_about_calibration_and_studies_run(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    ensemble = pytest.importorskip("sklearn.ensemble")
    search = pytest.importorskip("sklearn.model_selection")
    x = np.random.default_rng(0).uniform(size=(90, 4))
    y = x.sum(axis=1)
    forest = ensemble.RandomForestRegressor(5, random_state=0).fit(x, y)
    given = {"np": np, "X": x, "y": y, "X_new": x[:3], "forest": forest}
    given |= {"X_held_out": x[:40], "y_held_out": y[:40], "X_far": x + 2, "y_far": y + 8}
    given["GridSearchCV"] = search.GridSearchCV
    regressor, gaps, report, predict = snippets("docs/calibration")
    regressor = regressor.replace("random_state=0", "random_state=0, epochs=5")
    for snippet in (regressor, gaps, predict, report, *snippets("docs/studies")):
        exec(snippet, given)  # noqa: S102  our own page
    assert (tmp_path / "report.png").exists()
    assert given["functions"].shape == (3, 5)
    assert len(given["folds"]) == 4


def test_commands_in_the_pages_are_understood() -> None:
    kinds: dict[str, Any] = {"compare": Compare, "figure": Make, "figures": Listing, "tune": Tune}
    kinds |= {"render": Render, "watch": Watch, "doctor": Doctor, "demo": Demo}
    kinds |= {"check-env": CheckEnv}
    found = set()
    for page in [ROOT / "README.md", *DOCS.glob("*.md")]:
        text = page.read_text().replace("\\\n", " ")
        for line in re.findall(r"^(?:    )?devote ([^`\n]+)$", text, re.M):
            name, *words = shlex.split(line, comments=True)
            found.add(name)
            if name == "train":
                parse_train(words)
            elif name in kinds:
                asked = typed(kinds[name], words, name)
                if name == "compare":
                    study_of(asked)
                assert name != "figure" or asked.label in FIGURES, line
            else:
                assert name == "evaluate-critic", line
    assert len(found) >= 8


@pytest.mark.services
def test_a_task_of_gymnax_is_learned() -> None:
    pytest.importorskip("gymnax")
    (snippet,) = snippets("docs/environments")
    small = snippet.replace('"))', '"), preset="smoke")').replace("60_000", "800")
    assert small.count("smoke") == small.count("800") == 1
    exec(small, {})  # noqa: S102  our own page


@pytest.mark.services
def test_the_site_builds_without_a_warning() -> None:
    pytest.importorskip("zensical")
    words = [ROOT / ".ci" / "docs", Path(sys.executable).parent]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stderr
    api = (ROOT / "build" / "site" / "docs" / "api" / "index.html").read_text()
    assert all(name in api for name in ("make_agent", "predict", "soft_reset", "on_evaluation"))
