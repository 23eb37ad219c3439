"""The first hour on every Python that is here, in an empty environment."""

import re
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "pythons"


def test_every_python_gets_from_pip_to_a_curve() -> None:
    done = subprocess.run([SCRIPT], capture_output=True, text=True, check=False)
    if not re.search("installed in|failed", done.stdout):
        pytest.skip("no Python 3.11, 3.12 or 3.13 here")
    assert done.returncode == 0, done.stdout + done.stderr
