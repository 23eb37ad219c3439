"""TensorBoard and W&B are told what `metrics.csv` is told."""

import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from devote import Devote
from devote.core.errors import UserError
from devote.loggers import TensorBoard, Wandb
from devote.loops.metrics_log import read

ROWS = [
    {"step": 400, "seed": 3, "explore/coverage": 0.25, "rollout/ep_rew_mean": float("nan")},
    {"step": 800, "seed": 3, "explore/coverage": np.float32(0.5), "rollout/ep_rew_mean": 1.0},
]


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard's own reader finds."""
    reader: Any = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = reader.EventAccumulator(str(folder))
    found.Reload()
    return {
        name: [(event.step, event.value) for event in found.Scalars(name)]
        for name in found.Tags()["scalars"]
    }


@pytest.mark.services
def test_tensorboard_reads_back_what_was_written(tmp_path: Path) -> None:
    log = TensorBoard(tmp_path)
    for row in ROWS:
        log(row)
    log.on_end()
    assert scalars(tmp_path / "seed_3") == {
        "explore/coverage": [(400, 0.25), (800, 0.5)],
        "rollout/ep_rew_mean": [(800, 1.0)],
    }


@pytest.mark.services
def test_a_run_that_goes_on_replaces_what_it_does_again(tmp_path: Path) -> None:
    for rows in (ROWS, [ROWS[1] | {"explore/coverage": 0.75}]):
        log = TensorBoard(tmp_path)
        for row in rows:
            log(row)
        log.on_end()
    assert scalars(tmp_path / "seed_3")["explore/coverage"] == [(400, 0.25), (800, 0.75)]


@pytest.mark.services
def test_learn_takes_it_as_a_callback_and_names_are_those_of_the_metrics(tmp_path: Path) -> None:
    log = TensorBoard(tmp_path / "tb")
    agent = Devote("deep_sea", preset="smoke", directory=tmp_path / "run", size=4, eval_interval=0)
    agent.learn(500, progress_bar=False, callback=log)
    log.on_end()
    table, told = read(tmp_path / "run" / "metrics.csv"), scalars(tmp_path / "tb" / "seed_0")
    known = {name: x for name, x in table.items() if np.isfinite(x).any()}
    assert told.keys() == known.keys() - {"step", "seed"}
    for name, events in told.items():
        np.testing.assert_allclose([value for _, value in events], known[name], rtol=1e-6)


def test_w_and_b_gets_a_run_for_each_seed_and_any_library_with_its_calls_will_do() -> None:
    begun: list[dict[str, Any]] = []
    logged: list[tuple[Any, int]] = []

    def init(project: str, name: str, resume: str) -> Any:  # Trackio's
        begun.append({"project": project, "name": name, "resume": resume})
        return SimpleNamespace(
            log=lambda numbers, step: logged.append((numbers, step)), finish=lambda: None
        )

    log = Wandb(name="maze", library=SimpleNamespace(init=init))
    for row in (*ROWS, ROWS[1] | {"seed": 4}):
        log(row)
    log.on_end()
    assert [one["name"] for one in begun] == ["maze seed 3", "maze seed 4"]
    assert begun[0] == {"project": "devote", "name": "maze seed 3", "resume": "allow"}
    assert logged[0] == ({"explore/coverage": 0.25}, 400)
    assert logged[1] == ({"explore/coverage": 0.5, "rollout/ep_rew_mean": 1.0}, 800)


@pytest.mark.services
def test_w_and_b_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    log = Wandb(name="maze", directory=tmp_path)
    for row in ROWS:
        log(row)
    log.on_end()
    (written,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    deadline = time.monotonic() + 30  # a process of its own writes it
    while b"maze seed 3" not in written.read_bytes() and time.monotonic() < deadline:
        time.sleep(0.1)
    content = written.read_bytes()
    assert b"explore/coverage" in content
    assert b"maze seed 3" in content


@pytest.mark.parametrize(("module", "log"), [("tensorboardX", TensorBoard), ("wandb", Wandb)])
def test_what_is_not_installed_is_named(
    module: str, log: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match="expected the extra `"):
        log(directory=tmp_path)
