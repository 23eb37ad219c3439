"""Small runs of every kind as hashes, to be compared before and after the code is moved.

    python tests/golden/record.py --out FILE      run everything, write what came out
    python tests/golden/record.py --check FILE    run everything, list what differs; exit code 1

The last bits of a number depend on the processor, on JAX and on how programs are compiled, so a
file is for one machine and one environment, and how programs are compiled is fixed below. What
holds everywhere is in `test_runs.py`.
"""

import argparse
import csv
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # read when JAX first compiles; in tests `conftest.py` decides
    CACHE = Path(tempfile.gettempdir()) / "devote-golden-cache"
    os.environ["XDG_CACHE_HOME"] = str(CACHE)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(CACHE / "devote" / "xla")
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "true"
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.05"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    os.environ["XLA_FLAGS"] = (
        "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
        " --xla_llvm_disable_expensive_passes=true --xla_backend_optimization_level=1"
    )

import numpy as np
import project

AGENTS = ("devote", "devote-no-tud", "thompson", "sombrl")
TASKS = {
    "spiral": ("--episode-length", "20"),
    "deep_sea": ("--rewards",),
    "cheetah": ("--rewards", "--episode-length", "20"),
    "CartPole-v1": (),
}
"""Both loops, both kinds of actions, with episodes that end while it is looked at."""
OTHER_AGENTS = ("sac", "rnd", "rnd-classic", "devote-no-rfn", "devote-no-tud-opt-ucb")
OTHER_TASKS = ("u_maze", "cartpole_swingup", "ant_maze", "pick_and_place", "Pendulum-v1")
SCHEDULE = {
    "learning_starts": 64,
    "log_interval": 80,
    "replay_capacity": 320,  # it wraps around
    "checkpoint_interval": 160,
    "eval_interval": 160,
    "reset_interval": 230,
}
"""Rows at 144, 224, ... 544; evaluations and checkpoints at every second of them; soft resets at
304, before the checkpoint that a run is continued from, and at 464, after it."""
STEPS = 544


def cells() -> dict[str, list[str]]:
    """Every run by name, as the words after `devote train`."""
    found = {}
    for task, own in TASKS.items():
        for agent in AGENTS:
            for seeds in ("1", "2"):
                words = [task, "--agent", agent, *own, "--seeds", seeds]
                found[f"{task} {agent} {seeds}"] = words
    found |= {f"spiral {agent} 1": ["spiral", "--agent", agent] for agent in OTHER_AGENTS}
    found |= {f"{task} devote 1": [task, "--agent", "devote"] for task in OTHER_TASKS}
    return found


def words_of(words: list[str], steps: int = STEPS, **changes: int) -> list[str]:
    """A run of the smoke preset with a still shorter schedule."""
    settings = {"preset": "smoke", "steps": steps} | SCHEDULE | changes
    flags = [(f"--{name.replace('_', '-')}", str(value)) for name, value in settings.items()]
    return [*words, *(word for flag in flags for word in flag)]


def checkpoints(directory: Path) -> list[Path]:
    """The saved states of a run, the newest last."""
    return sorted((directory / "checkpoints").glob("step_*"))


def kill(directory: Path) -> None:
    """Leave a run as if it had been killed before its last state was saved."""
    shutil.rmtree(checkpoints(directory)[-1])


def rows_of(directory: Path) -> list[dict[str, str]]:
    """The metrics as they are written, without clocks."""
    with open(directory / "metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return [{n: v for n, v in row.items() if not n.startswith("time/")} for row in rows]


def outcome(directory: Path) -> dict[str, Any]:
    """What came out of a run, from its files alone: hashes of rows and arrays, and the last row."""
    rows, state = rows_of(directory), project.tensors(checkpoints(directory)[-1])
    return {
        "rows": {f"{row['step']} seed {row['seed']}": digest(json.dumps(row)) for row in rows},
        "leaves": {name: told(array) for name, array in state.items()},
        "last": rows[-1],
    }


def told(array: np.ndarray) -> str:
    """Kind, shape and bytes of an array."""
    return f"{array.dtype} {list(array.shape)} {digest(array.tobytes())}"


def digest(content: bytes | str) -> str:
    """A hash that is long enough to tell files apart."""
    data = content.encode() if isinstance(content, str) else content
    return hashlib.sha256(data).hexdigest()[:16]


def record(only: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every run whose name contains `only`; those of the table also killed and continued."""
    for name, words in cells().items():
        if only in name:
            with tempfile.TemporaryDirectory() as folder:
                yield from _of_run(name, words, Path(folder))
    for name, door in DOORS.items():
        if only in name:
            with tempfile.TemporaryDirectory() as folder:
                yield name, door(Path(folder))


def _of_run(name: str, words: list[str], folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    plan = project.plan(words_of(words), folder)
    project.train(plan)
    yield name, outcome(folder)
    if words[0] in TASKS and words[2] in AGENTS:
        kill(folder)
        project.train(plan if project.can_go_on(plan) else project.plan(words_of(words), folder))
        yield f"{name}, continued", outcome(folder)


def _typed(folder: Path) -> dict[str, Any]:
    """All of `devote train`, with the numbers behind its maps."""
    project.train_and_draw(words_of(cells()["spiral devote 1"]), folder)
    return _with_arrays(outcome(folder), folder / "figures")


def _from_python(folder: Path) -> dict[str, Any]:
    """The same run through the Python face."""
    project.learn("spiral", STEPS, folder, episode_length=20, **SCHEDULE)
    return outcome(folder)


def _fits(folder: Path) -> dict[str, Any]:
    """A study of calibration: its table and the answers of its models."""
    project.fit_all(folder)
    with open(folder / "table.csv", newline="") as file:
        table = list(csv.DictReader(file))
    rows = {" ".join([row["model"], row["score"]]): row["mean"] for row in table}
    return _with_arrays({"rows": rows, "leaves": {}, "last": table[-1]}, folder / "gp")


def _with_arrays(found: dict[str, Any], folder: Path) -> dict[str, Any]:
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as arrays:
            leaves = {f"{path.name} {name}": told(array) for name, array in arrays.items()}
        found["leaves"] |= leaves
    return found


DOORS = {"typed spiral": _typed, "python spiral": _from_python, "calibration": _fits}


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Everything that is not as it was, in words."""
    found = [f"{name}: not there any more" for name in before if name not in now]
    for name, mine in now.items():
        if name not in before:
            found.append(f"{name}: new")
            continue
        for part in ("rows", "leaves"):
            old, new = before[name][part], mine[part]
            wrong = [key for key in old | new if old.get(key) != new.get(key)]
            if wrong:
                first = f"{wrong[0]}: {old.get(wrong[0])} is now {new.get(wrong[0])}"
                found.append(f"{name}: {len(wrong)} of {len(old)} {part} differ, first {first}")
            elif list(old) != list(new):
                found.append(f"{name}: the same {part} in another order")
        last = before[name]["last"]
        for column in last | mine["last"]:
            old, new = last.get(column), mine["last"].get(column)
            found += [f"    {column}: {old} is now {new}"] * (old != new)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--out", type=Path)
    way.add_argument("--check", type=Path)
    parser.add_argument("--only", default="", help="part of the names of the runs to do")
    asked = parser.parse_args()
    now, start = {}, time.perf_counter()
    for name, found in record(asked.only):
        now[name] = found
        elapsed = time.perf_counter() - start
        print(f"{elapsed:6.1f} s {time.process_time():6.1f} cpu  {name}", flush=True)
    if asked.out:
        asked.out.write_text(json.dumps(now, indent=1) + "\n")
        return 0
    before = json.loads(asked.check.read_text())
    wrong = differences({n: v for n, v in before.items() if asked.only in n}, now)
    print("\n".join(wrong) or f"all {len(now)} runs are as they were")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
