"""Pages that are written by code are in step with it."""

import runpy
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def test_settings_page_is_current() -> None:
    page = runpy.run_path(str(DOCS / "settings.py"))["page"]()
    assert (DOCS / "settings.md").read_text() == page, "run docs/settings.py"
