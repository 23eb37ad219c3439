"""A few tries of every class of faults; all of them are made by `make faults`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parent / "run.py"
CLASSES = (
    *("kill inside a save", "kill inside a run's writes", "kill at any instant", "signal"),
    *("disk fault", "file size limit", "directory deleted", "corrupt checkpoint"),
    *("changed metrics", "two owners", "nobody reads", "clock", "command line"),
    *("hostile file", "hostile archive", "hostile links", "exact resume", "not finite"),
)


@pytest.fixture(scope="module")
def tries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What became of every try, by class."""
    home = tmp_path_factory.mktemp("faults")
    words = [sys.executable, str(RUN), "--few", "--home", str(home)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=900)
    assert (home / "tries.jsonl").is_file(), ended.stderr
    found: dict[str, list[str]] = {}
    for line in map(json.loads, (home / "tries.jsonl").read_text().splitlines()):
        found.setdefault(line["class"], []).append(line["words"])
    return found


@pytest.mark.parametrize("name", CLASSES)
def test_a_fault_is_survived(tries: dict[str, list[str]], name: str) -> None:
    assert tries[name], name
    lost = [words for words in tries[name] if words]
    assert not lost, lost[0]


def test_no_class_was_left_out(tries: dict[str, list[str]]) -> None:
    assert set(tries) == set(CLASSES)
