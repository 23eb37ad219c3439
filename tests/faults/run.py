"""The full fault suite: `python tests/faults/run.py`, or `make faults`.

It continues where it was stopped, prints tries and survivals of every class, and writes a table to
results/faults. `--few` runs the small seeded selection that every test run includes.
"""

import argparse
import json
import os
import shutil
import sys
import time
import traceback
from datetime import date
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / name) for name in ("", "loops", "envs", "experiments")]
FLAGS = "--xla_cpu_use_fusion_emitters=false --xla_llvm_disable_expensive_passes=true"
MINUTES = 57.0
LONG = ("soak",)
"""Classes that run beside the others."""


def settle(home: Path) -> None:
    """Compile quickly and cache compiled programs, in every process."""
    os.environ.setdefault("XLA_FLAGS", FLAGS)
    for name, value in {
        "JAX_COMPILATION_CACHE_DIR": str(home / "xla"),
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "true",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.05",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "XDG_CACHE_HOME": str(home / "cache"),
    }.items():
        os.environ.setdefault(name, value)


def played(log: Path) -> dict[tuple[str, int], str]:
    """Tracebacks of earlier tries, empty if survived."""
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return {(line["class"], line["number"]): line["words"] for line in lines}


def play(name: str, numbers: list[int], home: Path, log: Path, deadline: float) -> None:
    """Run tries of one class and log each at once."""
    from classes import FAULTS

    folder, known = home / name.replace(" ", "_"), played(log)
    for number in numbers:
        if (name, number) in known:  # by another process, meanwhile
            continue
        if time.monotonic() > deadline:
            return
        shutil.rmtree(folder / str(number), ignore_errors=True)  # of a process that was killed
        folder.mkdir(parents=True, exist_ok=True)
        begun, words = time.monotonic(), ""
        try:
            FAULTS[name].play(number, folder)
        except Exception:
            words = traceback.format_exc()
        line = {"class": name, "number": number, "words": words[-3_000:]}
        with open(log, "a") as file:
            file.write(json.dumps(line | {"seconds": round(time.monotonic() - begun, 2)}) + "\n")
        print(f"{name} {number}: {'lost' if words else 'survived'}", flush=True)
        for path in (folder / str(number), folder / f"cache{number}", folder / f"gone{number}"):
            if not words:
                shutil.rmtree(path, ignore_errors=True)


def apart(wanted: dict[str, list[int]], home: Path, log: Path, deadline: float) -> int:
    """Run classes in child processes: a process that forks must not use JAX."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        for name, numbers in wanted.items():
            if len(wanted) == 1:
                play(name, numbers, home, log, deadline)
            else:
                os.waitpid(apart({name: numbers}, home, log, deadline), 0)
        code = 0
    finally:
        os._exit(code)


def table(log: Path) -> str:
    """A row per class: tries, survivals, and the planned number of tries."""
    from classes import FAULTS

    found = played(log)
    rows = ["| class | what is done | tries | survived | planned |"]
    rows += ["| --- | --- | --- | --- | --- |"]
    for name, fault in FAULTS.items():
        mine = [words for (which, _), words in found.items() if which == name]
        what = " ".join((fault.play.__doc__ or "").split()).rstrip(".")
        survived = sum(not words for words in mine)
        rows.append(f"| {name} ({fault.ids}) | {what} | {len(mine)} | {survived} | {fault.tries} |")
    tries, survived = len(found), sum(not words for words in found.values())
    return "\n".join([*rows, "", f"{survived} of {tries} tries were survived."])


def report(log: Path, out: Path) -> None:
    """Write the table with date and machine."""
    from devote.core.durable import atomic_write_text
    from devote.experiments.cells import machine

    lost = [key for key, words in played(log).items() if words]
    minutes = sum(json.loads(line)["seconds"] for line in log.read_text().splitlines()) / 60
    losses = "".join(f"- {name}, try {number}\n" for name, number in lost)
    text = (
        "# Faults\n\n    make faults\n\nWhat was done to runs, files and environments, and how "
        "often everything held afterwards: no progress lost, no wrong result, no traceback, no "
        f"code executed, nothing written elsewhere.\n\n{table(log)}\n\n"
        f"{'Not survived:' + chr(10) + chr(10) + losses + chr(10) if lost else ''}"
        f"{date.today().isoformat()}, {machine()}; {minutes:.0f} minutes over all tries. "
        "Every try is seeded by its class and number. A class with fewer tries than planned ran "
        "out of time. Soak: both loops at once, 30 minutes or 40,000 rows of metrics each.\n"
    )
    out.mkdir(parents=True, exist_ok=True)
    atomic_write_text(out / "README.md", text)


def main() -> int:
    """Run what is missing, then print and write the table."""
    words = argparse.ArgumentParser()
    words.add_argument("--few", action="store_true")
    words.add_argument("--home", type=Path, default=Path("runs/faults"))
    words.add_argument("--out", type=Path, default=Path("results/faults"))
    words.add_argument("--only", nargs="*", default=[])
    words.add_argument("--most", type=int, default=10**9, help="tries of each class")
    asked = words.parse_args()
    home = asked.home.resolve()
    home.mkdir(parents=True, exist_ok=True)
    settle(home)
    os.chdir(home)  # so that stray files are noticed
    from classes import FAULTS, NO_FORKS

    log, begun = home / "tries.jsonl", time.monotonic()
    deadline = begun + 60 * MINUTES
    wanted = {
        name: list(range(min(asked.most, f.few if asked.few else f.tries)))
        for name, f in FAULTS.items()
        if not asked.only or name in asked.only
    }
    beside = [apart({n: [i]}, home, log, deadline) for n in LONG for i in wanted.pop(n, ())]
    learning = {name: wanted.pop(name) for name in NO_FORKS if name in wanted}
    beside += [apart(learning, home, log, deadline)]
    for name, numbers in wanted.items():
        play(name, numbers, home, log, deadline)
    for pid in beside:
        os.waitpid(pid, 0)
    os.chdir(Path(__file__).parents[2])
    print(table(log))
    if not asked.few and not asked.only:
        report(log, asked.out)
    return int(any(played(log).values()))


if __name__ == "__main__":
    sys.exit(main())
