"""Small runs in forked processes, and what must hold for them afterwards.

The process that forks must not start JAX's backend, whose threads do not survive a fork.
"""

import contextlib
import functools
import hashlib
import io
import os
import random
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from hosts import counters
from scripted import Counter, Scripted

from devote.build import AGENTS, build_env, build_program
from devote.core.errors import DivergedError, EnvironmentFailedError, UserError
from devote.loops import checkpoint
from devote.loops.fused import FusedLoop, FusedProgram
from devote.loops.host import HostProgram
from devote.loops.loop import ONE_DEVICE, Clock, Program, RunState
from devote.loops.metrics_log import read
from devote.loops.progress import Reporter
from devote.loops.run_dir import DirectoryStore, RunDirectory
from devote.loops.schedule import LoopSettings
from devote.loops.train import Plan, Training, train
from devote.presets import smoke
from on_host import OnHost

CHUNK = 96
LOOP = LoopSettings(
    num_envs=8,
    updates_per_step=1 / 16,
    batch_size=16,
    replay_capacity=800,
    learning_starts=64,
    log_interval=CHUNK,
    reset_interval=2 * CHUNK,
    eval_interval=2 * CHUNK,
    eval_episodes=2,
    checkpoint_interval=2 * CHUNK,
)
STEPS = 64 + 8 * CHUNK
TOLD = (UserError, EnvironmentFailedError, DivergedError)


class Refreshing(Scripted):
    """Its soft reset leaves a mark."""

    def refresh(self, state: Any, key: jax.Array) -> Any:
        return state | {"weight": state["weight"] + jax.random.normal(key)}


class Ledger:
    """A program in NumPy: nothing to compile, and everything to lose."""

    seeds, spec, settings = (0,), replace(Counter.spec, grid=None), LOOP
    devices = ONE_DEVICE

    def rows(self, steps: int) -> int:
        return 1

    def init(self, rows: int | None = None) -> RunState:
        agent = {"weight": np.full(300, 0.5, np.float32)}
        return RunState(
            clock=Clock(np.zeros((), np.int32), np.zeros((), np.int32)),  # type: ignore[arg-type]
            key=np.zeros(2, np.uint32),  # type: ignore[arg-type]
            agent=agent,
            memory=(),
            worlds=(),
            episodes=(),  # type: ignore[arg-type]
            replay=np.zeros((100, 8), np.float32),  # type: ignore[arg-type]
            visits=np.zeros(0, np.int32),  # type: ignore[arg-type]
        )

    shape = init

    def metric_names(self, shape: RunState) -> tuple[str, ...]:
        return ("rollout/ep_rew_mean", "train/weight", "eval/mean_reward")

    def resume(self, state: RunState) -> tuple[RunState, str]:
        return state, "environments continue exactly"

    def snapshot(self, state: RunState) -> RunState:
        return state

    def compile(self, stage: str, state: RunState) -> None:
        pass

    def prefill(self, state: RunState) -> RunState:
        return self._moved(state, 8, 0.0)

    def _moved(self, state: RunState, steps: int, by: float) -> RunState:
        weight = np.sin(1.7 * state.agent["weight"] + by + np.arange(300), dtype=np.float32)
        row = int(state.clock.vector_steps) // 12 % 100
        replay = np.array(state.replay)
        replay[row] = weight[:8]
        clock = Clock(state.clock.vector_steps + np.int32(steps), state.clock.updates + np.int32(6))
        return state._replace(clock=clock, agent={"weight": weight}, replay=replay)  # type: ignore[arg-type]

    def chunk(self, state: RunState) -> tuple[RunState, Any]:
        time.sleep(0.002)
        state = self._moved(state, CHUNK // 8, 0.1)
        mean = state.agent["weight"].mean()
        return state, {"rollout/ep_rew_mean": mean, "train/weight": mean}

    def refresh(self, state: RunState) -> RunState:
        return state._replace(agent={"weight": state.agent["weight"] / 2}, key=state.key + 1)

    def evaluate(self, state: RunState) -> Any:
        return {"eval/mean_reward": state.agent["weight"].max()}

    def maps(self, state: RunState) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        pass


def counting(kind: str) -> Program:
    """An agent that only counts, in both loops or in none."""
    if kind == "ledger":
        return Ledger()  # type: ignore[return-value]
    if kind == "fused":
        return FusedProgram(FusedLoop(Refreshing(), Counter(), LOOP), (0,))
    return HostProgram(Refreshing(), (counters(8),), counters, LOOP, (0,))


@functools.cache
def learning(agent: str, task: str) -> Program:
    """A real agent: in a task in JAX, or (`host`) in one behind the face of the host."""
    run = smoke("spiral" if task == "host" else task, agent)
    run = replace(run, loop=LOOP)
    if task != "host":
        return build_program(run)
    env = build_env(run, 8)

    def make(number: int) -> OnHost:
        return OnHost(env, number)  # type: ignore[arg-type]

    built = AGENTS[agent].build(run.agent, make(1).spec)
    return HostProgram(built, (make(8),), make, LOOP, (0,))


def go(kind: str, folder: Path, steps: int = STEPS, silent: bool = True) -> str | None:
    """The whole run, or on with it."""
    program = learning("devote", "deep_sea") if kind == "devote" else counting(kind)
    return train(Plan(program, steps, folder, {"kind": kind}), silent).stopped_by


def forked(work: Callable[[], Any], log: Path) -> int:
    """A process that does the work; its exit code is 0, 2 where it said what was wrong, or 1."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        errors = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(errors, 2)
        os.environ["JAX_PLATFORMS"] = "cpu"
        warnings.simplefilter("ignore")
        work()
        code = 0
    except TOLD as error:
        os.write(2, f"told: {error}\n".encode())
        code = 2
    except OSError as error:
        code = 1 if error.filename is None else 2
        os.write(2, f"told: {error!r}\n".encode() if code == 2 else repr(error).encode())
    except SystemExit as error:
        code = int(error.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def ends(pid: int, within: float = 240.0) -> int:
    """The exit code; a process that does not end is a failure."""
    limit = time.monotonic() + within
    while time.monotonic() < limit:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.003)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError(f"no end within {within:g} s")


def finished(kind: str, folder: Path) -> None:
    """Go on with a run to its end, without a fault."""
    log = folder.with_name(folder.name + ".log")
    code = ends(forked(lambda: go(kind, folder), log))
    assert code == 0, log.read_text()[-2000:]


def outcome(folder: Path, evaluations: bool = True) -> tuple[str, dict[str, bytes]]:
    """Digest of the last state, and the metrics that no clock enters."""
    newest = max((folder / "checkpoints").glob("step_*"))
    state = hashlib.sha256((newest / "state.safetensors").read_bytes()).hexdigest()
    skipped = ("time/",) if evaluations else ("time/", "eval/")
    columns = read(folder / "metrics.csv").items()
    return state, {n: x.tobytes() for n, x in columns if not n.startswith(skipped)}


def made(folder: Path, build: Callable[[Path], Any]) -> Path:
    """A folder that is built once, whoever is killed or comes first meanwhile."""
    if not folder.is_dir():
        fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
        shutil.rmtree(fresh, ignore_errors=True)
        build(fresh)
        with contextlib.suppress(OSError):  # another process was faster
            fresh.rename(folder)
    return folder


def reference(kind: str, home: Path) -> tuple[Any, float]:
    """What the run comes to that nobody disturbs, and how many seconds it takes."""

    def build(folder: Path) -> None:
        begun = time.monotonic()
        finished(kind, folder)
        (folder / "seconds").write_text(str(time.monotonic() - begun))

    folder = made(home.parent / f"reference-{kind}", build)
    return outcome(folder), float((folder / "seconds").read_text())


def require_same(kind: str, folder: Path) -> None:
    """The run in the folder, gone on with, is the one that nobody disturbed."""
    finished(kind, folder)
    assert outcome(folder) == reference(kind, folder.parent)[0]


def kind_of(number: int) -> str:
    """Mostly runs that cost nothing; now and then one of each loop, and of a real agent."""
    if number % 10 < 9:
        return "ledger"
    return ("fused", "host", "fused", "host", "devote")[number // 10 % 5]


def patched_events(hurt: Callable[[], None], at: int, inside: Path) -> None:
    """Call `hurt` at the so-many-th change of the disk in a folder, of this process."""
    count, names = 0, {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate"}

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        if event not in names or not str(arguments[0]).startswith(str(inside)):
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & 3):
            return  # only read
        count += 1
        if count == at:
            hurt()

    sys.addaudithook(hook)


def begun(agent: str, task: str, folder: Path, chunks: int, save: bool) -> Training:
    """A training after so many chunks; without `save` the rest of it is lost, as in a kill."""
    with RunDirectory(folder):
        store = DirectoryStore(folder, {"agent": agent, "task": task})
        training = Training(learning(agent, task), Reporter(STEPS, silent=True), store)
        training.begin()
        for _ in range(chunks):
            training.advance()
        if save:
            training.end()
    return training


def quietly(call: Callable[[], Any]) -> Any:
    """The call, with nothing printed."""
    silence = io.StringIO()
    with contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
        return call()


def rng_of(name: str, number: int) -> random.Random:
    """Chance of one try of one class, always the same."""
    return random.Random(f"{name} {number}")


def weights(step: int) -> dict[str, np.ndarray]:
    """A small state that tells its step."""
    return {"w": np.full(2_000, step, np.float32), "at": np.array(step)}


def saved(folder: Path, *steps: int) -> Path:
    """Checkpoints of small states."""
    for step in steps:
        checkpoint.save(folder, step, weights(step), {})
    return folder


def newest(folder: Path, quiet: bool = True) -> int:
    """The step of the checkpoint that is used, whose content is right."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if quiet else "error")
        found = checkpoint.restore(folder, weights(0))
    assert found is not None
    assert set(found[1]["w"].tolist()) == {float(found[0])}
    assert int(found[1]["at"]) == found[0]
    return found[0]
