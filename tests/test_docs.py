"""Pages are in step with the code."""

import re
import runpy
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def test_settings_page_is_current() -> None:
    page = runpy.run_path(str(DOCS / "settings.py"))["page"]()
    assert (DOCS / "settings.md").read_text() == page, "run docs/settings.py"


def test_mutations_name_tests_that_exist() -> None:
    table = (DOCS / "mutations.md").read_text().split("| --- |")[-1]
    named = set(re.findall(r"`([\w/]+\.py)` (\w+) \(\d+\)", table))
    assert len(named) >= 40
    assert not [
        (file, test)
        for file, test in sorted(named)
        if f"def test_{test}(" not in (Path(__file__).parent / file).read_text()
    ]
