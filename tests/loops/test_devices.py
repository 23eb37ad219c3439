"""Seeds, or the batch of one, over eight devices: the numbers of one device."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from devote.build import devices_of
from devote.core.errors import UserError
from devote.presets import PRESETS

SCRIPT = Path(__file__).parent / "on_devices.py"
RUN = PRESETS["smoke"]("deep_sea", "sac")


@pytest.mark.services
def test_eight_devices_give_the_numbers_of_one_and_resume_exactly(tmp_path: Path) -> None:
    made = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    found = json.loads(made.stdout.splitlines()[-1])
    assert found["rows"] == 8 * 2
    assert found["seeds"] < 1e-4
    assert found["batch"] < 1e-4
    assert found["moved"] < 1e-4
    assert found["resumed"] == 0.0


def test_devices_that_are_not_there_or_do_not_fit_are_refused() -> None:
    with pytest.raises(UserError, match=r"expected 1 to 1 devices, as many as there are; got 2"):
        devices_of(RUN, 2)
    with pytest.raises(UserError, match="got 0"):
        devices_of(RUN, 0)
    assert devices_of(replace(RUN, seeds=4), None).count == 1
