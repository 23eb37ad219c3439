"""Cells that cost nothing, and a runner of them that can be killed."""

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from errno import ENOSPC
from pathlib import Path
from typing import Any

from devote.core.errors import DivergedError, EnvironmentFailedError, UserError

RELEASE = "release"


@dataclass(frozen=True)
class FakeCell:
    """Pauses, or until there is a file `release`, then makes its result, which can be made once."""

    root: Path
    number: int
    pause: float = 0.0
    fails: str = ""
    after: tuple["FakeCell", ...] = ()

    @property
    def name(self) -> str:
        return f"cell {self.number}"

    @property
    def identity(self) -> str:
        return f"fake{self.number}"

    @property
    def record(self) -> Path:
        return self.root / "records" / f"{self.number}.json"

    @property
    def result(self) -> Path:
        return self.root / f"result{self.number}"

    @property
    def needs(self) -> tuple["FakeCell", ...]:
        return self.after

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("fake",)

    @property
    def size(self) -> float:
        return 1.0

    def finished(self) -> bool:
        return self.result.exists()

    def outdated(self) -> bool:
        return False

    def make(self) -> bool:
        _note(self.root / "starts", self.number)
        if self.fails == "error":
            raise RuntimeError("lost the thread")
        if self.fails == "user":
            raise UserError("a good cell", "a bad one", "make it good")
        if self.fails == "diverged":
            raise DivergedError("train/critic_loss is nan")
        if self.fails == "environment":
            words = "".join(f"  line {i}\n" for i in range(30)) + "RuntimeError: motor burnt\n"
            raise EnvironmentFailedError.of("environment 2", "step 7", [0.5], words)
        if self.fails == "stopped":
            return False
        if self.fails == "disk":
            raise OSError(ENOSPC, os.strerror(ENOSPC), "somewhere")
        if self.fails == "killed":
            os.kill(os.getpid(), 9)
        end = time.monotonic() + self.pause
        while time.monotonic() < end and not (self.root / RELEASE).exists():
            time.sleep(0.05)
        print(f"core {sorted(os.sched_getaffinity(0))}")
        # a second making of the same result is an error, not an overwriting
        os.close(os.open(self.result, os.O_CREAT | os.O_EXCL))
        _note(self.root / "ends", self.number)
        return True

    def progress(self) -> float:
        return 0.0

    def seconds(self) -> float | None:
        return None

    def describe(self) -> Mapping[str, Any]:
        return {"command": f"make {self.number}"}


def _note(path: Path, number: int) -> None:
    with open(path, "a") as file:
        file.write(f"{number}\n")


if __name__ == "__main__":
    from devote.experiments.runner import run_cells

    folder, count, pause = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    outcome = run_cells([FakeCell(folder, i, pause) for i in range(count)], folder, silent=True)
    print(outcome)
    sys.exit(1 if outcome.failures else 0)
