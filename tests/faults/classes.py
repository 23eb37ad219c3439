"""The classes of faults: a function makes one try, and raises if it was not survived."""

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import hostile
import jax
import jax.numpy as jnp
import numpy as np
from fake import FakeCell
from scenes import (
    CHUNK,
    begun,
    ends,
    forked,
    go,
    kind_of,
    made,
    newest,
    outcome,
    patched_events,
    quietly,
    reference,
    require_same,
    rng_of,
    saved,
    weights,
)
from test_check import BROKEN

from corridor import TINY
from devote import Sac
from devote.cli import main, parse_train
from devote.core.errors import DivergedError, EnvironmentFailedError, UserError
from devote.core.worker import Worker
from devote.envs.check import check_env
from devote.envs.gymnasium import GymnasiumSettings, from_factory
from devote.loops import checkpoint
from devote.loops.host import SeedEnvs
from devote.loops.run_dir import RunDirectory, require_sealed
from devote.loops.train import _all_finite
from devote.names import AGENTS as EVERY_AGENT

AGENTS = ("devote", "sac", "rnd", "thompson", "sombrl")
TASKS = ("deep_sea", "spiral", "host")
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)
TOLERATED = {
    *("outside", "dtype", "one buffer", "one buffer at the start", "action changed", "never ends"),
    *("own dice in reset", "own dice in steps", "every reset alike", "raises in close"),
}
"""Flaws that training tolerates: it copies, casts, or cuts episodes."""


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_in_save(number: int, home: Path) -> None:
    """SIGKILL at a random disk operation, or instant, of writing a checkpoint."""
    folder, rng = saved(home / str(number), 1, 2), rng_of("save", number)

    def work() -> None:
        if number % 2:
            patched_events(kill, 1 + (number // 2) % 24, folder)
        for step in range(3, 3 + 400):
            checkpoint.save(folder, step, weights(step), {})

    pid = forked(work, home / "save.log")
    if number % 2 == 0:
        time.sleep(rng.uniform(0.0, 0.05))
        os.kill(pid, signal.SIGKILL)
    assert ends(pid) == -signal.SIGKILL
    step = newest(folder, quiet=False)
    assert newest(saved(folder, step + 1), quiet=False) == step + 1
    assert len(list(folder.iterdir())) <= 2


def kill_in_run(number: int, home: Path) -> None:
    """SIGKILL at a random disk operation of a run, which then continues to the same bytes."""
    kind, folder = kind_of(number), home / str(number)
    reference(kind, home)

    def work() -> None:
        patched_events(kill, 1 + rng_of("write", number).randrange(90), folder)
        go(kind, folder)

    assert ends(forked(work, home / "run.log")) in (-signal.SIGKILL, 0)
    require_same(kind, folder)


def kill_any_time(number: int, home: Path) -> None:
    """SIGKILL at a random instant of a run or its compilation; it continues to the same bytes."""
    kind, folder = kind_of(number), home / str(number)
    _, seconds = reference(kind, home)
    pid = forked(lambda: go(kind, folder), home / "any.log")
    time.sleep(rng_of("any", number).uniform(0, seconds))
    os.kill(pid, signal.SIGKILL)
    assert ends(pid) in (-signal.SIGKILL, 0)
    require_same(kind, folder)


def signalled(number: int, home: Path) -> None:
    """A signal at a random instant: the run saves and ends, and continues to the same bytes."""
    kind = "host" if number % 3 == 2 else kind_of(number)
    folder, sent = home / str(number), SIGNALS[number % 4]
    _, seconds = reference(kind, home)
    pid = forked(lambda: go(kind, folder), home / "signal.log")
    time.sleep(rng_of("signal", number).uniform(0, seconds))
    os.kill(pid, sent)
    # before the run listens, a signal does what it does to any program
    assert ends(pid, 60) in (0, -sent, 128 + sent, 1 if sent == signal.SIGINT else 0)
    require_same(kind, folder)


def exact_resume(number: int, home: Path) -> None:
    """Five agents, both loops, cut before the first update and around resets and evaluations: state
    and metrics equal those of an uninterrupted run."""
    agent, rest = AGENTS[number % 5], number // 5
    task, cut = TASKS[rest % 3], rest // 3
    whole = made(
        home / f"whole-{agent}-{task}", lambda path: begun(agent, task, path, 8, save=True)
    )
    folder = home / str(number)
    # saved after 2, 4 and 6 chunks, when a reset is due, too
    chunks, save = ((0, True), (3, False), (4, True), (5, True))[cut]
    begun(agent, task, folder, chunks, save)
    begun(agent, task, folder, {0: 8, 3: 6, 4: 4, 5: 3}[chunks], save=True)
    assert outcome(folder) == outcome(whole)


def disk_fault(number: int, home: Path) -> None:
    """The disk is full, read-only or broken at a random operation: a message, nothing lost."""
    kind, folder = kind_of(number), home / str(number)
    codes = (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO, errno.EDQUOT)
    code = codes[number % 5]

    def hurt() -> None:
        raise OSError(code, os.strerror(code), str(folder))

    def work() -> None:
        patched_events(hurt, 1 + rng_of("disk", number).randrange(90), folder)
        go(kind, folder)

    log = home / "disk.log"
    assert ends(forked(work, log)) in (0, 2), log.read_text()[-2000:]
    require_same(kind, folder)


def size_limit(number: int, home: Path) -> None:
    """The kernel limits the size of files: the checkpoint before stays."""
    folder = saved(home / str(number), 1, 2)

    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        limit = 500 + 900 * number
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        checkpoint.save(folder, 3, weights(3), {})

    assert ends(forked(work, home / "size.log")) == 2
    assert newest(folder, quiet=False) == 2
    assert newest(saved(folder, 3), quiet=False) == 3


def deleted(number: int, home: Path) -> None:
    """The run directory is moved away under the run: a message, and it can start again."""
    kind, folder = kind_of(number), home / str(number)
    _, seconds = reference(kind, home)

    def work() -> None:
        def remove() -> None:
            time.sleep(rng_of("deleted", number).uniform(0, seconds))
            with suppress(OSError):
                folder.rename(folder.with_name(f"gone{number}"))

        threading.Thread(target=remove, daemon=True).start()
        go(kind, folder)

    log = home / "deleted.log"
    assert ends(forked(work, log)) in (0, 2), log.read_text()[-2000:]
    shutil.rmtree(folder, ignore_errors=True)
    require_same(kind, folder)


def corrupted(number: int, home: Path) -> None:
    """A checkpoint with a flipped bit, cut, missing, swapped or empty: the one before is used."""
    folder, rng = home / str(number), rng_of("corrupt", number)
    shutil.copytree(made(home / "sound", lambda path: saved(path, 1, 2)), folder)
    file = folder / "step_000000002" / rng.choice(["state.safetensors", "manifest.json"])
    data = bytearray(file.read_bytes())
    if number < 1_000:
        bit = rng.randrange(8 * len(data))
        data[bit // 8] ^= 1 << bit % 8
        file.write_bytes(data)
    elif number < 1_100:
        file.write_bytes(data[: rng.randrange(len(data))])
    else:
        other = folder / "step_000000001" / file.name
        harm: list[Callable[[], Any]] = [
            file.unlink,
            lambda: file.write_bytes(b""),
            lambda: shutil.copy(other, file),
            lambda: file.write_bytes(b"\0" * len(data)),
            lambda: file.write_bytes(bytes(data) + b"\0"),
        ]
        harm[number % 5]()
    assert newest(folder) == 1


def metrics_changed(number: int, home: Path) -> None:
    """Metrics with a flipped bit, or with lines missing, doubled or reordered, are refused."""
    file, rng = home / f"{number}.csv", rng_of("metrics", number)
    rows = [f"{step},{rng.random()}" for step in range(10, 110, 10)]
    whole = ("step,value\n" + "".join(f"{row}\n" for row in rows)).encode()
    file.write_bytes(whole)
    from devote.loops.metrics_log import seal_of

    note, data = {"metrics": seal_of(file, 100)}, bytearray(whole)
    require_sealed(file, note, 100)
    if number % 4:
        bit = rng.randrange(8 * len(data))
        data[bit // 8] ^= 1 << bit % 8
    else:
        lines = whole.splitlines(keepends=True)
        line = rng.randrange(1, 11)
        moved = [lines[:line] + lines[line + 1 :], [*lines, lines[line]], [lines[0], *lines[:0:-1]]]
        data = bytearray(b"".join(rng.choice(moved)))
    file.write_bytes(data)
    try:
        require_sealed(file, note, 100)
    except UserError:
        return
    raise AssertionError(f"taken for sound: {bytes(data)!r}")


def raced(number: int, home: Path) -> None:
    """Four processes open one run directory: one gets it, the others are told which."""
    folder, (start, gate), (finish, done) = home / str(number), os.pipe(), os.pipe()

    def race() -> None:
        os.close(gate)
        os.close(done)
        os.read(start, 1)
        with RunDirectory(folder):
            os.read(finish, 1)

    pids = [forked(race, home / f"race{i}.log") for i in range(4)]
    os.close(gate)
    codes = []
    while len(codes) < 3:
        for pid in list(pids):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                pids.remove(pid)
                codes.append(os.waitstatus_to_exitcode(status))
        time.sleep(0.001)
    os.close(done)
    codes.append(ends(pids[0]))
    os.close(start)
    os.close(finish)
    assert sorted(codes) == [0, 2, 2, 2]


def bad_environment(number: int, home: Path) -> None:
    """Broken environments in check-env, training and the Python API: named, or harmless."""
    case = list(BROKEN)[number % len(BROKEN)]
    make, failure, words = BROKEN[case]
    door = number // len(BROKEN)
    if door == 0:
        report = check_env(make)
        assert report.failures == (failure,)
        assert words in str(report)
        return
    try:
        if door == 1:
            _trained(make)
        else:
            quietly(lambda: Sac(make, **TINY | {"num_envs": 2}).learn(240, progress_bar=False))
    except (UserError, EnvironmentFailedError):
        return
    assert case in TOLERATED, case


def _trained(make: Any) -> None:
    """Steps as in training: guarded, in a worker thread."""
    env = from_factory(make, GymnasiumSettings(time_limit=30), 2)
    worker = Worker(20.0)
    seeds = SeedEnvs((env,), ["seed 0"], worker)
    key, action = jax.random.key(0), np.zeros((2, env.spec.action.size), np.float32)

    def play() -> None:
        seeds.reset((key,))
        for t in range(40):
            step = seeds.step(0, action, key, t)
            assert np.isfinite(step.obs).all()
            assert step.obs.dtype == np.float32

    worker.run(play)
    worker.close()


def not_finite(number: int, home: Path) -> None:
    """A NaN or infinity anywhere in the state of any agent: noticed before it is saved."""
    agent = EVERY_AGENT[number % len(EVERY_AGENT)]
    folder, rng = home / str(number), rng_of("nan", number)
    start = made(home / f"start-{agent}", lambda path: begun(agent, "spiral", path, 2, save=True))
    shutil.copytree(start, folder)
    training = begun(agent, "spiral", folder, 0, save=False)
    leaves, structure = jax.tree.flatten(training.state.agent)
    numbers = [i for i, x in enumerate(leaves) if jnp.issubdtype(x.dtype, jnp.floating) and x.size]
    place = rng.choice(numbers)
    flat = np.asarray(leaves[place]).copy().reshape(-1)
    flat[rng.randrange(flat.size)] = rng.choice([np.nan, np.inf, -np.inf])
    leaves[place] = jnp.asarray(flat.reshape(leaves[place].shape))
    training.state = training.state._replace(agent=jax.tree.unflatten(structure, leaves))
    try:
        training.advance()
        training.end()
    except DivergedError:
        found = begun(agent, "spiral", folder, 0, save=False)
        assert bool(_all_finite(found.state.agent))
    else:  # overwritten before it was read, as a gradient or a target may be
        assert bool(_all_finite(training.state.agent))


def little_memory(number: int, home: Path) -> None:
    """Out of memory (RLIMIT_AS, or more than there is): a message."""
    words = ["devote", "train", "spiral", "--agent", "sac", "--preset", "smoke", "--steps"]
    sizes = [
        f"1000 --batch-size {10**7 * (number + 1)}",
        f"{10**9 + number} --replay-capacity 1000000000",
        f"500000000 --replay-capacity 400000000 --num-envs {10**6 - number} --eval-interval 0"
        " --reset-interval 0 --log-interval 4000000 --checkpoint-interval 4000000",
    ]
    log = home / "memory.log"

    def work() -> None:
        limit = 6 * 2**30
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        sys.argv = [*words, *sizes[number % 3].split(), "--out", str(home / str(number))]
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        main()

    code = ends(forked(work, log))
    assert "Traceback" not in log.read_text(), log.read_text()[-1500:]
    assert code == 2, (code, log.read_text()[-1500:])
    assert "memory" in log.read_text()


def unread(number: int, home: Path) -> None:
    """The output of a run is closed, or goes to a full disk: it trains on."""
    kind, folder, how = kind_of(number), home / str(number), number % 3

    def work() -> None:
        if how == 0:
            os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
        elif how == 1:
            reader, writer = os.pipe()
            os.close(reader)
            os.dup2(writer, 1)
        else:
            os.close(1)
        go(kind, folder, silent=False)

    log = home / "unread.log"
    assert ends(forked(work, log)) == 0, log.read_text()[-1500:]
    assert outcome(folder) == reference(kind, home)[0]


def clock_jumps(number: int, home: Path) -> None:
    """The clock jumps, or changes its time zone, during a run."""
    folder = home / str(number)

    def work() -> None:
        real, jump = time.time, (-1e6, 1e9, 0.0)[number % 3]
        time.time = lambda: real() + jump * (real() % 1 > 0.5)
        os.environ["TZ"] = "Pacific/Kiritimati"
        time.tzset()
        go("ledger", folder)

    assert ends(forked(work, home / "clock.log")) == 0
    assert outcome(folder) == reference("ledger", home)[0]


def study_killed(number: int, home: Path) -> None:
    """A study of 125 cells is killed 20 times: every cell runs to its end exactly once."""
    cells, kills = (125, 20) if number == 0 else (6, 2)
    folder = home / str(number)
    words = [sys.executable, str(Path(__file__).parents[1] / "experiments" / "fake.py")]
    command, rng = [*words, str(folder), str(cells), "0.02"], rng_of("study", number)
    for _ in range(kills):
        runner = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        time.sleep(rng.uniform(1.0, 8.0 if cells > 100 else 3.0))
        runner.kill()
        runner.wait()
    assert subprocess.run(command, stdout=subprocess.DEVNULL, timeout=900).returncode == 0
    made = [FakeCell(folder, i) for i in range(cells)]
    assert all(cell.finished() for cell in made)
    assert sorted((folder / "ends").read_text().split(), key=int) == [*map(str, range(cells))]


def fuzzed_words(number: int, home: Path) -> None:
    """Huge, odd or misspelt arguments of `devote train`: a clean error, nothing written."""
    rng = rng_of("words", number)
    known = ["--seed", "--steps", "--num-envs", "--learning-rate", "--batch-size", "--out"]
    known += ["--critic-depth", "--seeds", "--discount", "--updates-per-step", "--env-timeout"]
    known += ["--size", "--episode-length", "--replay-capacity", "--agent", "--preset", "--layout"]
    values = ["-1", "0", "1e999", "nan", "9" * 400, str(2**63), str(10**18), "", "☃", "\x00"]
    values += ["--", "-v", "../x", "None", "[]", "{}", "1,2", "true", str(2**32), "$(id)"]
    values += ["a" * 5_000]
    words = [rng.choice(["spiral", "deep_sea", "CartPole-v1", "spirall", "", "os:system", "☃"])]
    for _ in range(rng.randrange(1, 4)):
        flag = rng.choice(known)
        if rng.random() < 0.2:
            place = rng.randrange(2, len(flag))
            flag = flag[:place] + rng.choice("abcxyz-") + flag[place + 1 :]
        words += [flag, rng.choice(values)][: rng.randrange(1, 3)]
    before = sorted(Path.cwd().iterdir())
    try:
        run, _ = quietly(lambda: parse_train(words))
        run.check()
        run.check_steps()
    except UserError:
        pass
    except SystemExit as error:
        if error.code not in (0, 2):
            raise
    assert sorted(Path.cwd().iterdir()) == before


def secrets(number: int, home: Path) -> None:
    """No tokens of the environment, and no paths of the user, in the files of a run."""
    folder = home / str(number)
    token = f"hf_{number:032d}"

    def work() -> None:
        os.environ |= {"WANDB_API_KEY": token, "HF_TOKEN": token}
        go("devote", folder)

    assert ends(forked(work, home / "secret.log")) == 0
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert token.encode() not in data
            assert str(Path.home() / "").encode() not in data or str(Path.home()) == "/"
            assert str(home).encode() not in data


def damaged_cache(number: int, home: Path) -> None:
    """Cut files and flipped bits in the compilation cache: compiled again."""
    folder, cache = home / str(number), home / f"cache{number}"
    rng, whole = rng_of("cache", number), home / "cache"

    def work(place: Path, to: Path) -> None:
        jax.config.update("jax_compilation_cache_dir", str(place))
        go("fused", to)

    if not whole.is_dir():
        assert ends(forked(lambda: work(whole, home / f"warm{number}"), home / "cache.log")) == 0
    shutil.copytree(whole, cache)
    for path in sorted(cache.rglob("*")):
        if path.is_file() and (data := bytearray(path.read_bytes())):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            path.write_bytes(data if rng.random() < 0.5 else data[: rng.randrange(len(data))])
    log = home / "cache.log"
    assert ends(forked(lambda: work(cache, folder), log)) == 0, log.read_text()[-1500:]
    assert outcome(folder) == reference("fused", home)[0]


SOAK_SECONDS = 1_800.0


def soak(number: int, home: Path) -> None:
    """Half an hour of each loop: memory and open files stay constant."""
    kind, folder = ("fused", "host")[number], home / str(number)
    samples = home / f"soak{number}.jsonl"

    def work() -> None:
        from scenes import counting

        from devote.loops.progress import Reporter
        from devote.loops.run_dir import DirectoryStore
        from devote.loops.train import Training

        with RunDirectory(folder), open(samples, "w") as file:
            store = DirectoryStore(folder, {})
            training = Training(counting(kind), Reporter(2**31, silent=True), store)
            training.begin()
            start, last = time.monotonic(), 0.0
            while (now := time.monotonic() - start) < SOAK_SECONDS:
                training.advance()
                time.sleep(0.02)  # others want the cores, too
                if now - last > SOAK_SECONDS / 60:
                    last = now
                    pages = int(Path("/proc/self/statm").read_text().split()[1])
                    opened = len(os.listdir("/proc/self/fd"))
                    line = {"s": now, "rss": pages * 4096, "fds": opened, "step": training.step}
                    file.write(json.dumps(line) + "\n")
                    file.flush()
                    if training.step > 40_000 * CHUNK:  # the log is read whole at each save
                        break

    assert ends(forked(work, home / f"soak{number}.log"), SOAK_SECONDS + 600) == 0
    found = [json.loads(line) for line in samples.read_text().splitlines()]
    early, late = found[len(found) // 5], found[-1]
    assert late["fds"] == early["fds"], (early, late)
    assert late["rss"] - early["rss"] < 24 * 2**20, (early, late)


class Fault(NamedTuple):
    """A class of faults, with the tries of the full suite and those of every test run."""

    play: Callable[[int, Path], None]
    tries: int
    few: int
    ids: str
    """In the project's list of fault classes."""


FAULTS = {
    "kill inside a save": Fault(kill_in_save, 250, 26, "F1"),
    "kill inside a run's writes": Fault(kill_in_run, 60, 5, "F1"),
    "kill at any instant": Fault(kill_any_time, 200, 5, "F2"),
    "exact resume": Fault(exact_resume, 60, 1, "F3"),
    "signal": Fault(signalled, 152, 8, "F4"),
    "disk fault": Fault(disk_fault, 100, 5, "F5"),
    "file size limit": Fault(size_limit, 8, 1, "F5"),
    "directory deleted": Fault(deleted, 20, 1, "F5"),
    "corrupt checkpoint": Fault(corrupted, 1_150, 40, "F6"),
    "changed metrics": Fault(metrics_changed, 1_000, 60, "F6"),
    "two owners": Fault(raced, 50, 5, "F7"),
    "bad environment": Fault(bad_environment, 3 * len(BROKEN), 0, "F8, F9"),
    "not finite": Fault(not_finite, 120, 1, "F10"),
    "little memory": Fault(little_memory, 10, 0, "F11"),
    "nobody reads": Fault(unread, 30, 3, "F12"),
    "clock": Fault(clock_jumps, 3, 1, "F13"),
    "study killed": Fault(study_killed, 1, 0, "F14"),
    "soak": Fault(soak, 2, 0, "F18"),
    "command line": Fault(fuzzed_words, 1_000, 30, "F19"),
    "hostile file": Fault(hostile.read, 500, 20, "F20"),
    "hostile archive": Fault(hostile.unpack, 100, 10, "F20"),
    "hostile links": Fault(hostile.link, 40, 8, "F20"),
    "secrets": Fault(secrets, 1, 0, "F22"),
    "damaged cache": Fault(damaged_cache, 10, 0, "cache"),
}
NO_FORKS = {"exact resume", "bad environment", "not finite", "hostile file"}
"""Classes whose tries use JAX in the process itself."""
