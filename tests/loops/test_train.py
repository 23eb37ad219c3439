"""The host's side of a run: what is done around chunks, and what is said of it."""

import os
import re
import signal
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest
from hosts import SETTINGS, program
from scripted import Counter, Scripted

from devote.core.errors import DivergedError, EnvironmentFailedError
from devote.loops import checkpoint
from devote.loops import train as train_module
from devote.loops.fused import FusedLoop, FusedProgram
from devote.loops.loop import Program, Stage
from devote.loops.metrics_log import read
from devote.loops.progress import Reporter
from devote.loops.run_dir import METRICS, Store
from devote.loops.signals import StopRequest
from devote.loops.train import Plan, Training, train

STAGES: tuple[Stage, ...] = ("prefill", "chunk", "refresh", "evaluate")
# what takes time to compile; the host loop has a few one-liners besides
HEAVY = {*STAGES, "_act", "_store_one", "_learn_one", "_summarise_one", "_decide"}
COMPILED: list[str] = []


def listen(event: str, seconds: float, **about: Any) -> None:
    if event.endswith("backend_compile_duration"):
        COMPILED.append(about["fun_name"].removeprefix("jit(").removesuffix(")"))


jax.monitoring.register_event_duration_secs_listener(listen)


def compiled_heavily() -> set[str]:
    found = HEAVY & set(COMPILED)
    COMPILED.clear()
    return found


def fused(seeds: tuple[int, ...] = (0,)) -> FusedProgram:
    return FusedProgram(FusedLoop(Scripted(), Counter(), SETTINGS), seeds)


@pytest.mark.parametrize("seeds", [(0,), (5, 0)])
@pytest.mark.parametrize("make", [fused, lambda seeds: program(seeds=seeds)], ids=["jax", "host"])
def test_a_stage_is_compiled_before_it_is_run(make: Any, seeds: tuple[int, ...]) -> None:
    run: Program = make(seeds)
    state = run.init()
    for stage in STAGES:
        compiled_heavily()
        run.compile(stage, state)
        assert compiled_heavily(), stage
        found = getattr(run, stage)(state)
        assert not compiled_heavily(), stage
        if stage != "evaluate":
            state = found[0] if stage == "chunk" else found
    run.compile("chunk", state)
    assert not compiled_heavily()


def test_compilation_is_said_before_the_chunk_and_is_in_no_rate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    late = 0.0  # seconds that compilation has taken

    def compile_slowly(stage: Stage, state: Any) -> None:
        nonlocal late
        late += 3600.0

    def chunk(state: Any) -> Any:
        print("the chunk is run")
        return run_chunk(state)

    clock = SimpleNamespace(perf_counter=lambda: time.perf_counter() + late)
    monkeypatch.setattr(train_module, "time", clock)
    run = fused()
    run_chunk, run.chunk, run.compile = run.chunk, chunk, compile_slowly  # type: ignore[method-assign]
    run.metric_names = lambda shape: ()  # type: ignore[method-assign]
    training = Training(run, Reporter(10_000), Store())
    training.begin()
    [row] = training.advance()
    said = capsys.readouterr().out
    assert said.index("compiled training in") < said.index("the chunk is run")
    assert row["time/fps"] > SETTINGS.log_interval / 1800


def test_a_signal_is_noticed_while_a_chunk_is_computed() -> None:
    """The handler is Python's own: it runs only if whoever waits for JAX lets it."""
    run, noticed = fused(), []

    def until_noticed(x: Any) -> np.ndarray:
        os.kill(os.getpid(), signal.SIGTERM)
        deadline = time.monotonic() + 20
        while not stop.requested and time.monotonic() < deadline:
            time.sleep(0.01)
        noticed.append(stop.requested)
        return np.float32(0)

    @jax.jit
    def slowly(x: Any) -> Any:
        return jax.pure_callback(until_noticed, jax.ShapeDtypeStruct((), jnp.float32), x)

    training = Training(run, Reporter(10_000, silent=True), Store())
    training.begin()
    training.advance()
    quickly = run.chunk

    def chunk(state: Any) -> Any:
        state, metrics = quickly(state)
        return state, metrics | {"late": slowly(state.clock.updates)}

    run.chunk = chunk
    with StopRequest() as stop:
        training.advance()
    assert noticed == [True]


@pytest.mark.parametrize("evaluation", ["sound", "failing"])
def test_the_row_in_which_a_run_diverged_is_kept_to_be_looked_at(
    tmp_path: Path, evaluation: str
) -> None:
    run = program(eval_interval=1)
    finitely = run.chunk

    def fail(state: Any) -> Any:
        raise EnvironmentFailedError("an action of nan")

    if evaluation == "failing":
        run.evaluate = fail  # type: ignore[method-assign]

    def chunk(state: Any) -> Any:
        state, metrics = finitely(state)
        return state, metrics | {"seen": jnp.inf}

    run.chunk = chunk  # type: ignore[method-assign]
    with pytest.raises(DivergedError, match=r"seen became inf .*metrics\.csv"):
        train(Plan(run, 10_000, tmp_path, {}), silent=True)
    assert read(tmp_path / METRICS)["seen"].tolist() == [np.inf]
    train(Plan(program(), 1, tmp_path, {}), silent=True)  # nothing of it is gone on with
    assert np.isfinite(read(tmp_path / METRICS)["seen"]).all()


def test_a_run_gone_on_with_under_other_versions_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    then = checkpoint.library_versions() | {"jax": "0.1.2", "safetensors": "0.0.1"}
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "library_versions", lambda: then)
        train(Plan(program(), 200, tmp_path, {}), silent=True)
    now = re.escape(jax.__version__)
    words = rf"\(jax 0\.1\.2 then and {now} now\): not continued bit for bit"
    with pytest.warns(UserWarning, match=words) as told:
        train(Plan(program(), 400, tmp_path, {}), silent=True)
    assert len(told) == 1
    with warnings.catch_warnings(action="error"):  # what was saved since is of these versions
        train(Plan(program(), 600, tmp_path, {}), silent=True)
