"""Ray itself: two nodes, one of which is killed again and again."""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from fake_study import release

from conftest import STUDY, add_node, devote, numbers, runs_of, until

FAKE = Path(__file__).parent / "fake_study.py"
ALONE = ["unshare", "--mount", "sh", "-c"]
"""Runs a script that sees mounts of its own; the superuser may."""
NODE = """
import sys, time
from ray._private.node import Node
from ray._private.parameter import RayParams

given = dict.fromkeys(("min_worker_port", "max_worker_port", "node_manager_port"), 0)
given |= {"num_cpus": 1, "object_store_memory": 150 * 2**20, "include_log_monitor": False}
Node(RayParams(gcs_address=sys.argv[1], **given), head=False, shutdown_at_exit=True)
time.sleep(3600)
"""
"""A node as `Cluster.add_node` makes it, in a process of its own: `ray start` refuses loopback."""
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="no Ray: pip install devote[ray]")


def start(folder: Path, pause: float) -> subprocess.Popen[str]:
    words = [sys.executable, str(FAKE), "ray", str(folder), str(pause)]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(words, start_new_session=True, text=True, **pipes)


def another(cluster: Any, node: Any) -> Any:
    """Kill a node with all its processes, and let a new one in."""
    cluster.remove_node(node, allow_graceful=False)
    return add_node(cluster)


def test_no_cell_is_lost_or_made_twice_in_twenty_kills_of_a_node(
    ray_cluster: Any, tmp_path: Path
) -> None:
    node, study = ray_cluster.worker_nodes.copy().pop(), start(tmp_path, 3600.0)
    until(lambda: len(numbers(tmp_path / "starts")) > 1, "a cell on every node")
    for _ in range(20):
        before = len(numbers(tmp_path / "starts"))
        node = another(ray_cluster, node)
        until(lambda seen=before: len(numbers(tmp_path / "starts")) > seen, "another start")
    release(tmp_path)
    output, _ = study.communicate(timeout=600)
    assert study.returncode == 0, output
    assert Counter(numbers(tmp_path / "ends")) == Counter(range(12))
    assert "failures=[]" in output


def test_a_study_with_a_node_killed_is_the_local_one(
    ray_cluster: Any, local_study: list[dict[str, str]], tmp_path: Path
) -> None:
    runs, out = tmp_path / "runs", tmp_path / "out"
    words = [sys.executable, "-m", "devote", "compare", *STUDY, "--on", "ray"]
    words += ["--runs", str(runs), "--out", str(out)]
    study = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    until(lambda: list(runs.glob("cells/*/metrics.csv")), "a run that has begun")
    another(ray_cluster, ray_cluster.worker_nodes.copy().pop())
    output, _ = study.communicate(timeout=3600)
    assert study.returncode == 0, output
    assert runs_of(out) == local_study


def test_an_interrupt_cancels_and_the_same_command_goes_on(
    ray_cluster: Any, tmp_path: Path
) -> None:
    study = start(tmp_path, 60.0)
    until(lambda: len(numbers(tmp_path / "starts")) > 1, "two cells that have begun")
    os.kill(study.pid, signal.SIGINT)
    output, _ = study.communicate(timeout=60)
    assert "stopped_by='SIGINT'" in output
    assert "failures=[]" in output
    assert not numbers(tmp_path / "ends")
    again = start(tmp_path, 0.0)
    output, _ = again.communicate(timeout=120)
    assert again.returncode == 0, output
    assert sorted(numbers(tmp_path / "ends")) == list(range(12))


@needs_ray
def test_a_local_ray_listens_on_loopback_alone_and_asks_for_a_token(tmp_path: Path) -> None:
    study = start(tmp_path, 20.0)
    until(lambda: numbers(tmp_path / "starts"), "a cell that has begun")
    try:
        table = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True).stdout
        found = [
            (name, line.split()[3])
            for line in table.splitlines()
            for name, process in re.findall(r'"(gcs_server|raylet)",pid=(\d+)', line)
            if os.getsid(int(process)) == study.pid  # of all on this machine
        ]
        assert all("127.0.0.1" in address for _, address in found)
        assert {name for name, _ in found} == {"gcs_server", "raylet"}
        (server,) = {address for name, address in found if name == "gcs_server"}
        code = f"import ray; ray.init('127.0.0.1:{server.rpartition(':')[2]}')"
        wrong = os.environ | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "f" * 64}
        words = [sys.executable, "-c", code]
        try:
            stranger = subprocess.run(words, env=wrong, capture_output=True, timeout=60)
            assert stranger.returncode != 0
        except subprocess.TimeoutExpired:
            pass  # it is never let in
    finally:
        os.kill(study.pid, signal.SIGINT)
        study.communicate(timeout=60)


def test_bad_input_is_told_before_anything_is_started(ray_cluster: Any, tmp_path: Path) -> None:
    words = ["compare", *STUDY, "--on", "ray", "--runs", str(tmp_path / "runs")]
    words += ["--out", str(tmp_path / "out")]
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        refused = devote(*words, "--address", f"127.0.0.1:{port}")
    assert refused.returncode == 2
    assert f"expected a Ray cluster at 127.0.0.1:{port}; got " in refused.stderr
    refused = devote(*words, "--address", "somewhere")
    assert "expected the address of a Ray cluster, host:port; got 'somewhere'" in refused.stderr
    refused = devote(*words, "--gpus-per-run", "1")
    assert "expected a node with 1 CPUs and 1 GPUs; got at most 1 CPUs and 0 GPUs" in refused.stderr

    # a node whose devote cannot be imported, which is all that Ray needs to know
    (tmp_path / "strange" / "devote").mkdir(parents=True)
    (tmp_path / "strange" / "devote" / "__init__.py").write_text("raise ImportError('not here')\n")
    node = add_node(ray_cluster, env_vars={"PYTHONPATH": str(tmp_path / "strange")})
    refused = devote(*words)
    assert refused.returncode == 2
    assert "on every node; got on 127.0.0.1: " in refused.stderr
    assert not list((tmp_path / "runs").glob("cells/*"))
    ray_cluster.remove_node(node)


@pytest.mark.skipif(
    not shutil.which(ALONE[0]) or subprocess.run([*ALONE, "true"], capture_output=True).returncode,
    reason="mounts of a process of its own need the superuser",
)
def test_a_node_with_a_run_directory_of_its_own_is_told(ray_cluster: Any, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    words = [sys.executable, "-c", shlex.quote(NODE), ray_cluster.gcs_address]
    own = f"mount -t tmpfs own {runs} && exec {' '.join(words)}"
    node = subprocess.Popen([*ALONE, own], start_new_session=True)
    try:
        alive = ray_cluster.global_state.node_table
        until(lambda: sum(node["Alive"] for node in alive()) == 3, "a third node")
        words = ["--on", "ray", "--runs", str(runs), "--out", str(tmp_path / "out")]
        refused = devote("compare", *STUDY, *words)
    finally:
        os.killpg(node.pid, signal.SIGTERM)
        node.wait(60)
    assert refused.returncode == 2
    assert f"got on 127.0.0.1: another {runs / 'work'} than the one here" in refused.stderr
    assert not list(runs.glob("cells/*"))
