"""Run directories as trainings leave them, made in a moment; and a server of theirs."""

import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from devote.core.settings import with_values
from devote.core.types import Grid
from devote.live.server import guarded
from devote.live.watched import Watched
from devote.loops import snapshots
from devote.loops.metrics_log import MetricsLog
from devote.loops.snapshots import Snapshot
from devote.presets import desk

SIDE = 12
WALLED = np.zeros((SIDE, SIDE), bool)
WALLED[0] = WALLED[-1] = WALLED[:, 0] = WALLED[:, -1] = True
OPEN = ~WALLED.ravel()
GRID = Grid((SIDE, SIDE), OPEN, OPEN, None, (0.0, 12.0, 0.0, 12.0))
ROWS, CHUNK = 20, 16_000
STEPS = ROWS * CHUNK


def columns(rows: int = ROWS, **changes: Any) -> dict[str, np.ndarray]:
    """Metrics of a healthy run of DEVOTE; `changes` by name, / written as two underscores."""
    step = CHUNK * np.arange(1.0, rows + 1)
    table = {
        "step": step,
        "seed": np.zeros(rows),
        "explore/coverage": np.linspace(0.1, 0.7, rows),
        "explore/coverage_reachable": np.linspace(0.1, 0.7, rows),
        "explore/novelty": np.geomspace(0.1, 0.01, rows),
        "explore/entropy": np.full(rows, -0.5),
        "explore/ent_coef": np.full(rows, 0.01),
        "plasticity/dormant_frac": np.full(rows, 0.02),
        "rollout/ep_len_mean": np.full(rows, 250.0),
        "rollout/ep_rew_mean": np.zeros(rows),
        "train/entropy": np.full(rows, 1.3),
        "train/ent_coef": np.full(rows, 0.01),
        "train/target_mean": np.zeros(rows),
        "train/n_updates": step / 32,
        "time/fps": np.full(rows, 4_000.0),
    }
    told = {name.replace("__", "/"): np.asarray(value, float) for name, value in changes.items()}
    assert told.keys() <= table.keys(), told.keys() - table.keys()
    return table | {name: np.broadcast_to(value, rows) for name, value in told.items()}


def picture(step: int = 0, seen: int = 7, **maps: np.ndarray) -> Snapshot:
    """A healthy map: `seen` of ten columns visited, new beyond them, and worth going to."""
    column = np.arange(SIDE * SIDE) % SIDE
    visited = OPEN & (column <= seen)
    rng = np.random.default_rng(3)
    noise = rng.normal(size=(SIDE + 2, SIDE + 2))
    smooth = sum(noise[i : i + SIDE, j : j + SIDE] for i in range(3) for j in range(3)) / 3
    fresh = 0.6 + 0.2 * smooth.ravel().clip(-2, 2)
    arrays = {
        "visits": np.where(visited, 1 + step // 1000 + column, 0).astype(np.int32),
        "novelty |c + g|": np.where(visited & (step > 0), 0.02 + column / 500, fresh),
        "novelty value rb": 2.0 + column / 4.0,
        "task value": np.zeros(SIDE * SIDE),
    }
    path, first = np.full((1, 5, 1), 13, np.int32), np.zeros((1, 5, 1), bool)
    arrays = {name: array[None] for name, array in (arrays | maps).items()}
    arrays |= {"arrows": np.ones((1, SIDE * SIDE, 2)), "path": path, "first": first}
    return Snapshot(step, (0,), GRID, False, False, 2, arrays)


def history(last: Snapshot | None = None, first: Snapshot | None = None) -> list[Snapshot]:
    return [first or picture(0, 1), picture(STEPS // 2, 4), last or picture(STEPS)]


def settings(seed: int = 0, agent: str = "devote", **changes: Any) -> dict[str, Any]:
    run = replace(desk("spiral", agent), steps=STEPS, seed=seed)
    return asdict(with_values(run, changes))


def make(
    folder: Path,
    table: dict[str, np.ndarray] | None = None,
    maps: Sequence[Snapshot] = (),
    saved: int | None = STEPS,
    **changes: Any,
) -> Path:
    """A run directory; `saved` is the step of its last checkpoint."""
    table = columns() if table is None else table
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text(json.dumps(settings(**changes)))
    log = MetricsLog(folder / "metrics.csv", tuple(table))
    rows = [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
    log.append([{name: float(value) for name, value in row.items()} for row in rows])
    (folder / "progress.json").write_text(json.dumps({"saved_step": saved}))
    (folder / ".lock").write_text(f"pid 1 on host {socket.gethostname()}\n")
    for one in maps:
        snapshots.write(folder / "maps", one)
    return folder


@contextmanager
def served(*folders: Path, host: str = "127.0.0.1", token: str = "") -> Iterator[int]:
    """The port of a server that shows folders."""
    import uvicorn

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    app = guarded(Watched(folders), host, token)
    config = uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(10)


def asked(port: int, request: str | bytes) -> tuple[int, bytes, bytes]:
    """Code, head and body of the answer to a raw request; code 0 where the line is closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as line:
        answer = b""
        with suppress(ConnectionError):
            line.sendall(request if isinstance(request, bytes) else request.encode("latin1"))
            while piece := line.recv(65536):
                answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    return (int(head.split()[1]) if head else 0), head, body


def get(port: int, path: str, host: str | None = None, **headers: str) -> tuple[int, bytes, bytes]:
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    host = f"127.0.0.1:{port}" if host is None else host
    request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n"
    return asked(port, request)
