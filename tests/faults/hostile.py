"""Edited and forged files: refused with a message, quickly, and nothing is executed."""

import copy
import csv
import io
import json
import os
import random
import shutil
import signal
import sys
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from pretended import ASKED, pretend

from devote import Sac
from devote.build import build_program
from devote.core.arrays import read_npz, write_npz
from devote.core.durable import atomic_write, replacing
from devote.core.errors import UserError
from devote.core.settings import defaults
from devote.experiments.commands import study_of
from devote.experiments.durations import Durations
from devote.experiments.results import collect, write
from devote.loops import checkpoint
from devote.loops.run_dir import DirectoryStore, RunDirectory
from devote.loops.train import columns_of, train
from devote.presets import smoke
from devote.saved import saved_run, saved_task

PATIENCE = 60.0  # seconds that a file may take, on a machine that does other things
VALUES: list[Any] = [None, True, -1, 0, 10**9, 10**18, 2**63, 10**400, 1e308, float("nan")]
VALUES += [float("inf"), "", "x", "../../etc", "a" * 100_000, [], {}, [1] * 3, {"a": 1}, [[]]]
VALUES += ["\x00", "\ud800", "os:system", "evil:Env", "!!python/object:os.system"]
VALUES += [{"_target_": "os.system"}]
CELLS = ["", "x", "nan", "inf", "-1", "1e400", "9" * 5_000, "../evil", "/evil", "a\nb"]
CELLS += ["x" * 200_000, "=cmd()", "1e18", "runs", "table", "\x00"]
RAW = [b"", b"{", b"[" * 100_000, b"null", b"[]", b"\xff\xfe", b"{}", b'"x"', b"NaN", b"\x80\x04."]
EXECUTED: list[str] = []
WATCHED = {"os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "pickle.find_class"}
_GUARDED: list[Path] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if not _GUARDED:
        return
    if event in WATCHED or (event == "import" and arguments[0] == "evil"):
        EXECUTED.append(f"{event} {arguments!r:.200}")
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & 3
    allowed = (str(_GUARDED[0]), os.environ["JAX_COMPILATION_CACHE_DIR"], "/dev/", "/proc/")
    if writes and not str(arguments[0]).startswith(allowed):
        EXECUTED.append(f"writes {arguments[0]!r:.200}")


@contextmanager
def guarded(home: Path) -> Iterator[None]:
    """Fail if anything is executed, written elsewhere, or takes long."""

    def late(*_: Any) -> None:
        raise AssertionError(f"more than {PATIENCE:g} s")

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    _GUARDED.append(home)
    EXECUTED.clear()
    try:
        yield
    except UserError:
        pass
    except OSError as error:
        if error.filename is None:
            raise
    finally:
        _GUARDED.clear()
        signal.setitimer(signal.ITIMER_REAL, 0)
    assert not EXECUTED, EXECUTED


sys.addaudithook(_watch)


def paths(table: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places in a nested table that can be changed."""
    pairs = table.items() if isinstance(table, dict) else enumerate(table[:2])
    for key, value in pairs:
        yield (*at, key)
        if isinstance(value, dict | list):
            yield from paths(value, (*at, key))


def changed(table: Any, rng: random.Random) -> Any:
    """A copy with one value replaced or removed."""
    table = copy.deepcopy(table)
    at = rng.choice(list(paths(table)))
    inner = table
    for key in at[:-1]:
        inner = inner[key]
    if rng.random() < 0.1:
        del inner[at[-1]]
    else:
        inner[at[-1]] = rng.choice(VALUES)
    return table


def edit_json(path: Path, rng: random.Random) -> None:
    if rng.random() < 0.1:
        path.write_bytes(rng.choice(RAW))
    else:
        path.write_text(json.dumps(changed(json.loads(path.read_text()), rng)))


def edit_manifest(path: Path, rng: random.Random) -> None:
    """A forged manifest: changed, with a valid digest."""
    body = json.loads(path.read_text())
    body.pop("sha256")
    if rng.random() < 0.1:
        body["leaves"] = dict(rng.sample(sorted(body["leaves"].items()), 3))
    path.write_bytes(checkpoint._seal(changed(body, rng)))


def edit_csv(path: Path, rng: random.Random) -> None:
    rows = list(csv.reader(io.StringIO(path.read_text())))
    row = rng.randrange(min(3, len(rows)))
    rows[row][rng.randrange(len(rows[row]))] = rng.choice(CELLS)
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    path.write_bytes(rng.choice(RAW) if rng.random() < 0.05 else text.getvalue().encode())


@cache
def _sound(home: Path) -> dict[str, Any]:
    """A model, a run and a study to edit."""
    base = home / "sound"
    shutil.rmtree(base, ignore_errors=True)
    Sac("spiral", preset="smoke").save(base / "model")
    run = replace(smoke("spiral", "sac"), steps=900)
    from devote.build import plan

    train(plan(run, base / "run"), silent=True)
    study = study_of(replace(ASKED, runs=base / "study", seeds=2))
    for cell in study.runs().values():
        pretend(cell, [0.1, 0.3, 0.5])
    write(collect(study, base / "out"), base / "out")
    program = build_program(run)
    shape = program.shape()
    return {"run": run, "study": study, "shape": shape, "columns": columns_of(program, shape)}


def read(number: int, home: Path) -> None:
    """One changed value in a file of a model, run or study: refused with a message, or valid."""
    rng, sound = random.Random(f"hostile {number}"), _sound(home)
    folder = home / str(number)
    shutil.copytree(home / "sound", folder)
    run, study = sound["run"], replace(sound["study"], root=folder / "study")
    gone = replace(study, root=folder / "nowhere")
    directory, model = folder / "run", folder / "model"
    manifest = max((directory / "checkpoints").rglob("manifest.json"))
    record = next(iter(study.runs().values())).record

    def resume() -> None:
        store = DirectoryStore(directory, asdict(run), defaults(run))
        store.open(sound["shape"], sound["columns"])

    def rebuild() -> None:
        found = saved_run(directory)
        saved_task(directory)
        build_program(found).shape()

    def report() -> None:
        known = Durations.known(folder / "study")
        for cell in study.runs().values():
            known.seconds(cell)
        write(collect(study, folder / "new"), folder / "new")

    def recorded() -> None:
        write(collect(gone, folder / "out"), folder / "out")

    cases: list[tuple[Path, Callable[[Path, random.Random], None], Callable[[], Any]]] = [
        (next(model.rglob("manifest.json")), edit_model, lambda: Sac.load(model)),
        (directory / "settings.json", edit_json, resume),
        (directory / "settings.json", edit_json, rebuild),
        (directory / "progress.json", edit_json, resume),
        (directory / "metrics.csv", edit_csv, resume),
        (manifest, edit_manifest, resume),
        (record, edit_json, report),
        (record.with_name("metrics.csv"), edit_csv, report),
        (folder / "out" / "runs.csv", edit_csv, recorded),
        (folder / "out" / "spiral.csv", edit_csv, recorded),
    ]
    path, edit, use = cases[number % len(cases)]
    edit(path, rng)
    with warnings.catch_warnings(), guarded(home):
        warnings.simplefilter("ignore")
        use()


def edit_model(path: Path, rng: random.Random) -> None:
    sound = checkpoint.decode_manifest(path.read_bytes())
    note = {"model": changed(sound.note["model"], rng)}
    path.write_bytes(checkpoint.encode_manifest(replace(sound, note=note)))


def unpack(number: int, home: Path) -> None:
    """Archives of arrays with wrong headers, sizes of 10^12, objects, or cut: refused."""
    rng, path = random.Random(f"archive {number}"), home / f"{number}.npz"
    shape = (rng.choice([10**8, 10**12, 2**62]),)
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    buffer = io.BytesIO()
    kind = number % 5
    if kind == 0:
        np.lib.format.write_array_header_1_0(buffer, header)
    elif kind == 1:
        np.lib.format.write_array_header_1_0(buffer, header | {"descr": "|O", "shape": (1,)})
        buffer.write(b"\x80\x04cos\nsystem\n(S'touch evil'\ntR.")
    elif kind == 2:
        buffer.write(b"\0" * 1000)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        if kind < 3:
            archive.writestr("../evil.npy" if rng.random() < 0.5 else "a.npy", buffer.getvalue())
        elif kind == 3:
            archive.writestr("a.npy", bytes(2**20))
    if kind == 3:  # it claims to hold four gigabytes
        data = bytearray(path.read_bytes())
        place = data.rfind(b"PK\x01\x02") + 24
        data[place : place + 4] = (2**32 - 16).to_bytes(4, "little")
        path.write_bytes(data)
    if kind == 4:
        write_npz(path, {"a": np.arange(rng.randrange(1, 500))})
        data = path.read_bytes()
        path.write_bytes(data[: rng.randrange(len(data))])
    begun = time.monotonic()
    with guarded(home):
        read_npz(path)
        raise AssertionError("taken for sound")
    assert time.monotonic() - begun < PATIENCE
    path.unlink()


def link(number: int, home: Path) -> None:
    """Links in place of the files that we write: refused or replaced, never followed."""
    folder, outside = home / f"run{number}", home / f"outside{number}"
    outside.mkdir()
    kept = outside / "precious"
    kept.write_text("precious")
    folder.mkdir()
    names = (".lock", "settings.json", "metrics.csv", "progress.json", "checkpoints", "figures")
    kind = number % 8
    if kind < 6:
        target = outside if names[kind] in ("checkpoints", "figures") else kept
        (folder / names[kind]).symlink_to(target)
        try:
            with RunDirectory(folder):
                raise AssertionError("taken for its own")
        except UserError:
            pass
    elif kind == 6:
        (outside / "step_000000001").mkdir()
        (folder / "model").symlink_to(outside)
        try:
            checkpoint.save(folder / "model", 2, {"w": np.zeros(3)}, {})
            raise AssertionError("written through a link")
        except UserError:
            assert (outside / "step_000000001").is_dir()
    else:
        for name in ("map.png", f".tmp{os.getpid()}.map.png", f".tmp{os.getpid()}.table.csv"):
            (folder / name).symlink_to(kept)
        with replacing(folder / "map.png") as temporary:
            temporary.write_bytes(b"picture")
        atomic_write(folder / "table.csv", b"table")
        assert (folder / "map.png").read_bytes() == b"picture"
    assert kept.read_text() == "precious"
    assert {path.name for path in outside.iterdir()} <= {"precious", "step_000000001"}
