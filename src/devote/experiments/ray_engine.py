"""Cells as Ray tasks, on this machine or on a cluster whose nodes share the run directory."""

import logging
import os
import secrets
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from devote.core.errors import UserError, extra
from devote.experiments.cells import Cell
from devote.experiments.runner import POLL_SECONDS, LocalEngine, difference, shared_token

RETRIES = 20  # how often a cell is restarted after its node has died
CHECK_SECONDS = 60.0  # how long every node has to answer the check before anything is started
PASSED_ON = ("JAX_", "XLA_", "DEVOTE_")
"""Prefixes of environment variables that are passed on to cells."""


class RayEngine:
    """A task per cell, which starts a process on a node with free resources."""

    def __init__(self, folder: Path, cpus: int, gpus: float, address: str | None) -> None:
        self.ray = _connected(address)
        self.folder, self.cpus, self.gpus = folder, cpus, gpus
        self.refs: dict[str, Any] = {}
        require_room(self.ray.nodes(), cpus, gpus)
        require_alike(self.ray, folder)
        self.task = self.ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=RETRIES)(make_here)

    @property
    def slots(self) -> int:
        """As many as the nodes have resources for at the moment."""
        there = self.ray.cluster_resources()
        by_gpu = [int(there.get("GPU", 0) // self.gpus)] if self.gpus else []
        return max(1, min([int(there.get("CPU", 0) // self.cpus), *by_gpu]))

    def start(self, cell: Cell) -> None:
        """Submit the cell."""
        told = {name: v for name, v in os.environ.items() if name.startswith(PASSED_ON)}
        place = Path.cwd(), self.folder.absolute()
        self.refs[cell.identity] = self.task.remote(cell, *place, self.cpus, told)

    def ended(self, timeout: float) -> dict[str, int | str]:
        """Exit codes of finished tasks by identity."""
        refs = list(self.refs.values())
        ready = self.ray.wait(refs, timeout=timeout)[0] if refs else []
        gone: dict[str, int | str] = {}
        for identity in [i for i, ref in self.refs.items() if ref in ready]:
            try:
                gone[identity] = self.ray.get(self.refs.pop(identity))
            except self.ray.exceptions.RayError as error:
                gone[identity] = f"Ray says: {str(error).splitlines()[-1]}"
        return gone

    def stop(self, identities: Sequence[str]) -> None:
        """Cancel tasks, on which a training saves and stops, and wait."""
        refs = [self.refs[identity] for identity in identities if identity in self.refs]
        for ref in refs:
            self.ray.cancel(ref)
        if refs:
            self.ray.wait(refs, num_returns=len(refs))
        self.refs = {identity: ref for identity, ref in self.refs.items() if ref not in refs}


def make_here(cell: Cell, cwd: Path, folder: Path, cpus: int, variables: dict[str, str]) -> int:
    """Runs on a node: start a process for the cell, as `LocalEngine` does; its exit code."""
    os.chdir(cwd)
    os.environ.update(variables)
    # Ray's own program, which the process would import and can do without
    vars(sys.modules["__main__"]).pop("__file__", None)
    engine = LocalEngine(folder, 1, cpus)
    engine.start(cell)
    try:
        while not (gone := engine.ended(POLL_SECONDS)):
            pass
    finally:  # also where the task is cancelled
        engine.stop([cell.identity])
    return int(gone[cell.identity])


def _connected(address: str | None) -> Any:
    """Ray, connected to a cluster, or to one that is started here for this process."""
    local = address is None and not os.environ.get("RAY_ADDRESS")
    if local:  # before Ray is imported: nobody but this machine, and there only who has the token
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # makes the node's address loopback
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's 15 starves on a busy machine
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with extra("ray"):
        import ray
    if ray.is_initialized():
        return ray
    asked = "local" if local else address or os.environ["RAY_ADDRESS"]
    more: dict[str, Any] = {"include_dashboard": False} if local else {}
    if not local:
        _require_listener(asked)
    try:
        ray.init(asked, log_to_driver=False, logging_level=logging.WARNING, **more)
    except Exception as error:  # of every kind
        got, fix = str(error).splitlines()[0], "see docs/scaling.md; on a busy machine try again"
        raise UserError(f"a Ray cluster ({asked})", got, fix) from error
    return ray


def _require_listener(address: str) -> None:
    """Refuse an address where nobody listens; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    fix = "start one there (ray start --head), correct --address, or leave it out for a local one"
    if not host or not port.isdigit():
        raise UserError("the address of a Ray cluster, host:port", repr(address), fix)
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        raise UserError(f"a Ray cluster at {address}", error, fix) from error


def require_room(nodes: Sequence[dict[str, Any]], cpus: int, gpus: float) -> None:
    """Refuse cells that fit on no node; Ray would wait forever."""
    there = [
        (node["Resources"].get("CPU", 0), node["Resources"].get("GPU", 0))
        for node in nodes
        if node["Alive"]
    ]
    if not any(cpus <= cores and gpus <= cards for cores, cards in there):
        largest = f"{max(there, default=(0, 0))[0]:g} CPUs and {max(g for _, g in there):g} GPUs"
        expected = f"a node with {cpus} CPUs and {gpus:g} GPUs"
        raise UserError(
            expected, f"at most {largest}", "lower --cpus-per-run or --gpus-per-run, or add a node"
        )


def require_alike(ray: Any, folder: Path) -> None:
    """Refuse nodes without this package, with another version, or with other directories."""
    nodes = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    check = ray.remote(num_cpus=0, max_retries=0)(difference)
    on = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    with shared_token(folder) as (token, expected):
        asked = {
            check.options(scheduling_strategy=on(node, soft=False)).remote(
                expected, Path.cwd(), token
            ): address
            for node, address in nodes.items()
        }
        answered, silent = ray.wait(list(asked), num_returns=len(asked), timeout=CHECK_SECONDS)
        for ref in (*answered, *silent):
            try:
                found = ray.get(ref) if ref in answered else f"no answer in {CHECK_SECONDS:g} s"
            except ray.exceptions.RayError as error:
                found = str(error).strip().splitlines()[-1]
            if found:
                fix = "install the same version there, and run from a directory that all nodes have"
                got = f"on {asked[ref]}: {found}"
                raise UserError(f"devote {expected} and these directories on every node", got, fix)
