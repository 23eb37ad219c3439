"""The real things, on loopback, while the tests last: SLURM's daemons and a Ray cluster."""

import csv
import getpass
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

STUDY = ["--envs", "deep_sea,size=6", "spiral", "--agents", "devote", "sac", "rnd"]
STUDY += ["--seeds", "2", "--preset", "smoke", "--steps", "1200"]
"""Twelve runs: two tasks, three agents, two seeds."""
CELLS = 12
OF_THE_MACHINE = ("seconds", "finished", "machine")
HERE = Path(__file__).parents[1]
DAEMONS = {"slurmctld": ["-D"], "slurmd": ["-D", "-N", "localhost"]}
REQUEUE_SECONDS = 20
"""How long SLURM holds a requeued task, by default two minutes: the lifetime of a credential. To
lift the hold with `scontrol update StartTime=now` instead races with the end of the earlier run."""
CONF = """
ClusterName=devote
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire={requeue_seconds}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SchedulerParameters=bf_interval=1,sched_min_interval=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
KillWait=5
NodeName=localhost NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=60 State=UP
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.services)


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def until(done: Callable[[], Any], what: str, seconds: float = 600) -> Any:
    """Wait until `done` returns something true. A limit only bounds how late a failure is seen."""
    end = time.monotonic() + seconds
    while not (found := done()):
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}\n{slurm_state()}"
        time.sleep(0.1)
    return found


def slurm_state() -> str:
    """The queue and the last lines of the daemons' logs, for the message of a failed test."""
    if "SLURM_CONF" not in os.environ:
        return ""
    squeue = subprocess.run(["squeue", "--array", "--all"], capture_output=True, text=True)
    logs = [Path(os.environ["SLURM_CONF"]).with_name(f"{name}.log") for name in DAEMONS]
    tails = [line for log in logs for line in ("", log.name, *log.read_text().splitlines()[-40:])]
    return "\n".join([squeue.stdout + squeue.stderr, *tails])


def squeue(what: str, *words: str) -> list[str]:
    """A column of the queue, task by task."""
    asked = ["squeue", "--noheader", "--array", f"--format={what}", *words]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()


def numbers(path: Path) -> list[int]:
    """What cells have noted."""
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def devote(*words: str, timeout: float = 3600) -> subprocess.CompletedProcess[str]:
    """A command, its output kept."""
    command = [sys.executable, "-m", "devote", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


def runs_of(out: Path) -> list[dict[str, str]]:
    """A study's runs.csv but for times and machines."""
    with open(out / "runs.csv", newline="") as file:
        return [
            {n: v for n, v in r.items() if n not in OF_THE_MACHINE} for r in csv.DictReader(file)
        ]


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of others find what this one finds, and the cells that cost nothing."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*sys.path, str(HERE / "experiments")]))


@pytest.fixture(scope="session")
def local_study(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """The runs by the local runner."""
    folder = tmp_path_factory.mktemp("local")
    made = devote("compare", *STUDY, "--runs", str(folder / "runs"), "--out", str(folder / "out"))
    assert made.returncode == 0, made.stdout + made.stderr
    assert len(runs_of(folder / "out")) == CELLS
    return runs_of(folder / "out")


@pytest.fixture(scope="session")
def slurm_daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A controller and a daemon of this machine's cores; SLURM_CONF names them."""
    missing = [name for name in ("slurmctld", "slurmd", "sbatch") if not shutil.which(name)]
    if missing:
        pytest.skip(f"no {', '.join(missing)}: apt-get install slurmctld slurmd slurm-client")
    folder = tmp_path_factory.mktemp("slurm")
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    ports = {"controller": free_port(), "daemon": free_port()}
    given = {"folder": folder, "user": getpass.getuser(), "cores": os.cpu_count()}
    given["requeue_seconds"] = REQUEUE_SECONDS
    conf = folder / "slurm.conf"
    conf.write_text(CONF.format(**given, **ports))
    os.environ["SLURM_CONF"] = str(conf)
    daemons = []
    for name, options in DAEMONS.items():
        with open(folder / f"{name}.out", "w") as log:
            daemons.append(subprocess.Popen([name, *options], stdout=log, stderr=log))
    sinfo = ["sinfo", "--noheader", "--format=%T"]
    try:
        until(
            lambda: "idle" in subprocess.run(sinfo, capture_output=True, text=True).stdout,
            f"a SLURM with an idle node; see {folder}",
        )
        yield folder
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(30)
        del os.environ["SLURM_CONF"]


@pytest.fixture
def slurm(slurm_daemons: Path) -> Iterator[Path]:
    """SLURM with an empty queue, which a failed test leaves empty, too."""
    given = dict(os.environ)  # a test may change PATH and SLURM_CONF
    yield slurm_daemons

    def asked(*words: str) -> str:
        return subprocess.run(words, env=given, capture_output=True, text=True, check=True).stdout

    asked("scancel", "--me")
    until(lambda: not asked("squeue", "--noheader"), "an empty queue after scancel")


def add_node(cluster: Any, **given: Any) -> Any:
    """A node more; Ray gives it 30 s to start, however busy the machine is."""
    for _ in range(4):
        try:  # without the processes that nobody asks anything
            return cluster.add_node(num_cpus=1, no_monitor=True, include_log_monitor=False, **given)
        except Exception as error:  # of every kind
            print(error)
    raise AssertionError("no node starts here")


@pytest.fixture
def ray_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two nodes of one processor each, as processes; RAY_ADDRESS names them."""
    # before Ray is imported, which reads them then
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # loopback
    monkeypatch.setenv("RAY_worker_niceness", "0")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0123456789abcdef" * 4)
    pytest.importorskip("ray", reason="no Ray: pip install devote[ray]")
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    add_node(cluster, include_dashboard=False)  # the first is the head
    add_node(cluster)
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    yield cluster
    cluster.shutdown()
