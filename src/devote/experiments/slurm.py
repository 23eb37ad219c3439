"""Cells as tasks of SLURM array jobs. The command returns at once; run again, it draws."""

import secrets
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devote.core.durable import atomic_write_text
from devote.core.errors import UserError
from devote.experiments.cells import Cell
from devote.experiments.runner import RETRY_SECONDS, is_busy, shared_token, work

LARGEST = 1000  # tasks of an array; SLURM's default limit is 1001
WARNING_SECONDS = 120
"""How long before its time limit a task is asked to save; less where the limit is short."""
PROBE_SECONDS = 10  # how long to wait for a free node on which to check for this package
BUSY_SECONDS = 180
"""How long a task waits for the lock of its cell, which a dead node may hold for a while."""
SCRIPT = """#!/bin/sh
# one cell: saved and queued again before its time is over, saved alone where it is cancelled
set -- {identities}
shift "$SLURM_ARRAY_TASK_ID"
trap 'stop=1; again=1; [ -z "$child" ] || kill -TERM "$child"' USR1
trap 'stop=1; [ -z "$child" ] || kill -TERM "$child"' TERM
{command} --cell "$1" &
child=$!
[ -z "$stop" ] || kill -TERM "$child" # a signal that came before the child
wait "$child"
code=$?
while kill -0 "$child" 2>/dev/null; do wait "$child"; code=$?; done
if [ -n "$again" ] && [ "$code" -ne 0 ]; then
    echo "stopped before its time was over; asking SLURM to queue it again"
    for _ in 1 2 3 4 5 6; do # a busy controller refuses for a while
        scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID" && break
        sleep 5
    done
fi
exit "$code"
"""


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What runs may take, and where they are kept; options of every study."""

    runs: Path = Path("runs")
    """Directory of the runs, which all comparisons and figures share."""
    cores: int | None = None
    """Runs at a time: on this machine on one core each, every core where not given; on SLURM as
    many as it has room for where not given."""
    cpus_per_run: int = 1
    """Processors of a run, on Ray and SLURM."""
    gpus_per_run: float = 0
    """GPUs of a run, on Ray and SLURM; several runs of Ray may share one, as with 0.25."""
    partition: str | None = None
    """Partition of SLURM; its default where not given."""
    account: str | None = None
    """Account of SLURM; its default where not given."""
    time_limit: int | None = None
    """Minutes of a task of SLURM, which saves and goes on in another; the partition's otherwise."""

    @property
    def options(self) -> list[str]:
        """Options for `sbatch` and `srun`."""
        given = {
            "cpus-per-task": self.cpus_per_run,
            "ntasks": 1,
            "gpus-per-task": f"{self.gpus_per_run:g}" if self.gpus_per_run else None,
            "partition": self.partition,
            "account": self.account,
            "time": self.time_limit,
        }
        return [f"--{name}={value}" for name, value in given.items() if value]


def submit(cells: Sequence[Cell], command: Sequence[str], asked: Resources) -> int:
    """Queue the cells that are neither running nor queued, each after those it needs; returns how
    many. `command --cell IDENTITY` runs one."""
    work_folder, queued = asked.runs / "work", queue(asked.runs)
    rest = [c for c in cells if c.identity not in queued and not is_busy(work_folder, c)]
    total, before = len(rest), ""
    if rest:
        check(asked)
    while rest:
        waiting = {cell.identity for cell in rest}
        ready = [c for c in rest if not any(need.identity in waiting for need in c.needs)]
        parts = [ready[i : i + LARGEST] for i in range(0, len(ready), LARGEST)]
        before = ":".join(_array(part, command, asked, before) for part in parts)
        rest = [cell for cell in rest if cell not in ready]
    return total


def check(asked: Resources) -> None:
    """Refuse what SLURM would not take, and, if a node is free to be checked, nodes with another
    devote or other directories."""
    if asked.gpus_per_run != int(asked.gpus_per_run):
        raise UserError("whole GPUs for SLURM", asked.gpus_per_run, "change --gpus-per-run")
    partitions = ", ".join(_ask("sinfo", "--noheader", "--format=%R").split())
    fix = f"correct --partition ({partitions}), --account or what each run asks for"
    _ask("sbatch", "--test-only", *asked.options, given="#!/bin/sh\n", fix=fix)
    with shared_token(asked.runs / "work") as (token, expected):
        code = (
            "import sys; from pathlib import Path; from devote.experiments.runner import "
            "difference; sys.exit(difference(sys.argv[1], *map(Path, sys.argv[2:])) or None)"
        )
        words = ["srun", f"--immediate={PROBE_SECONDS}", "--quiet", *asked.options]
        words += [sys.executable, "-c", code, expected, str(Path.cwd()), str(token)]
        probe = subprocess.run(words, capture_output=True, text=True)
    said = probe.stderr.strip().splitlines()
    if probe.returncode and any("Unable to allocate" in line for line in said):
        print("no node is free to be looked at; each has to have this devote and directory")
    elif probe.returncode:
        got = next((x for x in reversed(said) if not x.startswith("srun")), said[-1])
        fix = "install the same version there, and run from a directory that all nodes have"
        raise UserError(f"devote {expected} and these directories on the nodes", got, fix)


def _array(cells: Sequence[Cell], command: Sequence[str], asked: Resources, after: str) -> str:
    """Submit an array job; its number."""
    token, folder = secrets.token_hex(4), jobs_folder(asked.runs)
    identities = [cell.identity for cell in cells]
    folder.mkdir(parents=True, exist_ok=True)
    # before it is queued: whoever is killed in between has nothing queued that is not known
    atomic_write_text(folder / token, "\n".join(identities) + "\n")
    limit = f"%{asked.cores}" if asked.cores else ""
    warned = min(WARNING_SECONDS, 15 * (asked.time_limit or WARNING_SECONDS))
    words = ["sbatch", "--parsable", f"--job-name=devote-{token}", "--requeue", *asked.options]
    words += [f"--array=0-{len(cells) - 1}{limit}", f"--signal=B:USR1@{warned}"]
    words += ["--open-mode=append", f"--output={folder.absolute() / token}-%a.log"]
    words += [f"--dependency=afterany:{after}"] if after else []
    script = SCRIPT.format(identities=" ".join(identities), command=shlex.join(command))
    return _ask(*words, given=script).strip().split(";")[0]


def jobs_folder(root: Path) -> Path:
    """The folder with a file per array job: the identities of its tasks, in order."""
    return root / "work" / "slurm"


def queue(root: Path) -> dict[str, str]:
    """SLURM's state of queued and running cells, by identity."""
    if not jobs_folder(root).is_dir():
        return {}
    found = {}
    for line in _ask("squeue", "--me", "--noheader", "--array", "--format=%j %K %T").splitlines():
        name, task, state = line.split()
        path = jobs_folder(root) / name.removeprefix("devote-")
        if name.startswith("devote-") and path.is_file():
            found[path.read_text().split()[int(task)]] = state
    return found


def submitted(root: Path) -> dict[str, Path]:
    """Log of the last task of every cell that was submitted, by identity."""
    arrays = [path for path in jobs_folder(root).glob("*") if not path.suffix]
    return {
        identity: path.with_name(f"{path.name}-{task}.log")
        for path in sorted(arrays, key=lambda path: path.stat().st_mtime)
        for task, identity in enumerate(path.read_text().split())
    }


def make_cell(cell: Cell, root: Path, cpus: int) -> None:
    """Body of a task: run the cell as soon as its lock is free; ends by `sys.exit`."""
    end = time.monotonic() + BUSY_SECONDS
    while is_busy(root / "work", cell) and time.monotonic() < end:
        time.sleep(min(RETRY_SECONDS, BUSY_SECONDS))
    work(cell, root / "work", cpus)


def _ask(*words: str, given: str | None = None, fix: str = "see: sinfo") -> str:
    """The output of a SLURM command."""
    try:
        asked = subprocess.run(words, input=given, capture_output=True, text=True)
    except FileNotFoundError as error:
        fix = "log in to a node of the cluster, or run without --on slurm"
        raise UserError(f"SLURM's {words[0]} on this machine", "none", fix) from error
    if asked.returncode:
        got = " ".join(asked.stderr.split()) or f"code {asked.returncode}"
        raise UserError(f"a request that SLURM's {words[0]} takes", got, fix)
    return asked.stdout
