"""`devote watch` shows what is in run directories, and nothing else to nobody else."""

import fcntl
import json
import os
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from runs_made import (
    CHUNK,
    OPEN,
    ROWS,
    STEPS,
    asked,
    columns,
    get,
    history,
    make,
    picture,
    served,
)

from devote.core.errors import UserError
from devote.core.types import Grid
from devote.live.server import Watch, watch
from devote.live.watched import Watched, WatchedRun, curves
from devote.loops import snapshots
from devote.measure.curves import SeedCurve, aggregate

SECRET = b"nobody may read this"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs, with links that lead out of them, beside something secret."""
    base = tmp_path_factory.mktemp("served")
    for name in ("secret.png", "secret.json"):
        (base / name).write_bytes(SECRET)
    runs = base / "runs"
    one = make(runs / "one", maps=history())
    make(runs / "two", seed=1)
    (one / "figures").mkdir()
    (one / "figures" / "plot.png").write_bytes(b"\x89PNG" + bytes(range(200)))
    (one / "figures" / "link.png").symlink_to(base / "secret.png")
    (one / "figures" / "page.html").write_bytes(SECRET)
    (one / "figures" / "folder.png").mkdir()
    linked = make(runs / "linked")
    (linked / "settings.json").unlink()
    (linked / "settings.json").symlink_to(base / "secret.json")
    (linked / "figures").symlink_to(base)
    (runs / "away").symlink_to(base)
    return runs


@pytest.fixture(scope="module")
def port(root: Path) -> Iterator[int]:
    with served(root) as number:
        yield number


@pytest.fixture(scope="module")
def ids(port: int) -> dict[str, str]:
    found = json.loads(get(port, "/api/runs")[2])["runs"]
    return {run["name"]: run["id"] for run in found}


def test_the_page_is_small_offline_and_under_a_strict_policy(port: int) -> None:
    total = 0
    for path in ("/", "/app.js", "/style.css", "/uPlot.js", "/uPlot.css", "/icon.svg"):
        code, head, body = get(port, path)
        assert code == 200
        total += len(body)
        assert b"default-src 'none'; script-src 'self'" in head
        assert b"x-content-type-options: nosniff" in head
        assert b"unsafe" not in head
        if path in ("/", "/app.js", "/style.css"):
            assert b"http://" not in body
            assert b"https://" not in body
    assert total < 300_000


def test_all_runs_are_listed_and_links_are_no_way_to_more(ids: dict[str, str]) -> None:
    assert sorted(ids) == ["linked", "one", "two"]


def test_a_map_is_served_as_it_was_taken(port: int, ids: dict[str, str], root: Path) -> None:
    code, _, body = get(port, f"/api/map/{ids['one']}/{STEPS}")
    assert code == 200
    (length,) = struct.unpack("<I", body[:4])
    head = json.loads(body[4 : 4 + length])
    numbers = np.frombuffer(body[4 + length :], "<f4")
    assert head["step"] == STEPS
    assert head["names"] == ["visits", "novelty |c + g|", "novelty value rb", "task value"]
    arrays, at = {}, 0
    for name, size in head["sizes"].items():
        arrays[name], at = numbers[at : at + size], at + size
    saved = snapshots.read(snapshots.listed(root / "one" / "maps")[STEPS])
    for name in head["names"]:
        np.testing.assert_array_equal(arrays[name], saved.arrays[name][0].astype("f4"))
    np.testing.assert_array_equal(arrays["eligible"] > 0, OPEN)
    assert arrays["arrows"].size == 2 * OPEN.size


def test_one_scale_spans_the_whole_run(port: int, ids: dict[str, str], root: Path) -> None:
    ranges = json.loads(get(port, f"/api/ranges/{ids['one']}")[2])
    every = list(snapshots.read_all(root / "one" / "maps"))
    low = min(one.arrays["novelty |c + g|"].min() for one in every)
    assert ranges["novelty |c + g|"][0] == low
    assert ranges["visits"] == [0, max(one.arrays["visits"].max() for one in every)]


def test_a_grid_of_three_dimensions_is_shown_plane_by_plane(tmp_path: Path) -> None:
    every, flat = np.ones(24, bool), picture(0)
    grid = Grid((2, 3, 4), every, every, labels=("x", "y", "z"))
    visits = np.arange(24, dtype=np.int32)[None]
    value = np.where(visits % 5 != 0, visits, np.nan)
    arrays = {"visits": visits, "value": value, "weights": np.isfinite(value).astype(np.int32)}
    arrays |= {"path": np.full((1, 2, 1), 23, np.int32), "first": np.zeros((1, 2, 1), bool)}
    make(tmp_path / "run", maps=[replace(flat, grid=grid, arrays=arrays)])
    with served(tmp_path) as port:
        name = json.loads(get(port, "/api/runs")[2])["runs"][0]["id"]
        for plane, axes in enumerate(((2,), (1,), (0,))):
            body = get(port, f"/api/map/{name}/0?plane={plane}")[2]
            (length,) = struct.unpack("<I", body[:4])
            head = json.loads(body[4 : 4 + length])
            numbers = np.frombuffer(body[4 + length :], "<f4")
            cube = visits[0].reshape(2, 3, 4)
            known = cube.sum(axis=axes).T[::-1].ravel()
            np.testing.assert_array_equal(numbers[: known.size], known)
            means = np.nanmean(np.where(cube % 5 != 0, cube, np.nan), axis=axes).T[::-1].ravel()
            np.testing.assert_allclose(numbers[known.size : 2 * known.size], means, rtol=1e-3)
            assert head["planes"][plane] == head["labels"]
            ranges = json.loads(get(port, f"/api/ranges/{name}?plane={plane}")[2])
            assert ranges["visits"] == [known.min(), known.max()]


def test_settings_and_their_difference_from_the_preset(port: int, ids: dict[str, str]) -> None:
    details = json.loads(get(port, f"/api/run/{ids['two']}")[2])
    assert details["settings"]["agent.optimism"] == "1.0"
    assert details["latest"]["explore/coverage"] == 0.7
    assert details["changes"] == {"steps": [str(STEPS), "960000"], "seed": ["1", "0"]}
    assert "explore/coverage" in details["columns"]


def test_curves_of_several_runs_and_the_papers_aggregation(
    port: int, ids: dict[str, str], root: Path
) -> None:
    chosen = f"run={ids['one']}&run={ids['two']}"
    lines = json.loads(get(port, f"/api/curves?metric=explore/coverage&{chosen}")[2])
    assert [line["label"] for line in lines] == ["one", "two"]
    assert lines[0]["steps"] == [CHUNK * (i + 1) for i in range(ROWS)]
    np.testing.assert_allclose(lines[0]["values"], np.linspace(0.1, 0.7, ROWS))
    (mean,) = json.loads(get(port, f"/api/curves?metric=explore/coverage&over=seeds&{chosen}")[2])
    seed = SeedCurve(columns()["step"], columns()["explore/coverage"])
    known = aggregate({"x": [seed, seed]}, STEPS)["x"]
    assert mean["label"] == "spiral devote (2 seeds)"
    np.testing.assert_allclose([np.nan if x is None else x for x in mean["values"]], known.mean)


def test_other_settings_are_another_curve_named_by_them(tmp_path: Path) -> None:
    make(tmp_path / "a")
    make(tmp_path / "b", seed=1, optimism=2.0)
    make(tmp_path / "c", seed=2, optimism=2.0, steps=7)
    found = Watched([tmp_path])
    found.summaries()
    lines = curves(list(found.runs.values()), "explore/coverage", over_seeds=True)
    assert [line["label"] for line in lines] == [
        "spiral devote optimism=1.0 (1 seed)",
        "spiral devote optimism=2.0 (2 seeds)",
    ]


def test_a_run_that_ended_early_does_not_cut_the_curves_of_others(tmp_path: Path) -> None:
    make(tmp_path / "a")
    make(tmp_path / "b", columns(4), seed=1, optimism=2.0)
    found = Watched([tmp_path])
    found.summaries()
    lines = curves(list(found.runs.values()), "explore/coverage", over_seeds=True)
    assert [line["steps"][-1] for line in lines] == [STEPS, 4 * CHUNK]


def test_long_curves_are_thinned_and_keep_their_end(tmp_path: Path) -> None:
    make(tmp_path / "a", columns(9001))
    found = Watched([tmp_path])
    found.summaries()
    (line,) = curves(list(found.runs.values()), "explore/coverage", over_seeds=False)
    assert 2000 <= len(line["steps"]) <= 2500
    assert (line["steps"][-1], line["values"][-1]) == (9001 * CHUNK, 0.7)


def test_pictures_in_whole_and_in_part(port: int, ids: dict[str, str]) -> None:
    path = f"/picture/{ids['one']}/plot.png"
    code, head, body = get(port, path)
    assert (code, body[:4], len(body)) == (200, b"\x89PNG", 204)
    assert b"image/png" in head
    code, head, body = get(port, path, Range="bytes=1-3")
    assert (code, body) == (206, b"PNG")
    assert b"bytes 1-3/204" in head


HOSTILE = {
    "traversal": [
        "/../secret.png",
        "/../../etc/passwd",
        "/%2e%2e/secret.png",
        "/..%2fsecret.png",
        "/picture/{one}/../../../secret.png",
        "/picture/{one}/..%2f..%2f..%2fsecret.png",
        "/picture/{one}/%2e%2e%2f%2e%2e%2fsecret.png",
        "/picture/{one}/..%5c..%5csecret.png",
        "/picture/{one}/....//secret.png",
        "/picture/{one}/%00secret.png",
        "/picture/{one}/plot.png%00.html",
        "/picture/{one}//etc/passwd",
        "/picture/{one}/%2fetc%2fpasswd",
        "/picture/..%2fone/plot.png",
        "/picture/../one/plot.png",
        "/study/{one}/settings.json",
        "/study/{one}/metrics.csv",
        "/api/run/..%2f..",
        "/api/run/{one}/../../secret",
        "/api/map/{one}/..%2f..%2fsettings.json",
        "/api/map/{one}/-1",
        "/api/map/{one}/1e9",
        "/api/map/{one}/99999999999999999999",
        "/page/app.js",
        "/static/../app.js",
        "//etc/passwd",
    ],
    "files that are no pictures, and links": [
        "/picture/{one}/page.html",
        "/picture/{one}/link.png",
        "/picture/{one}/folder.png",
        "/picture/{one}/settings.json",
        "/picture/{linked}/secret.png",
        "/picture/{linked}/secret.json",
        "/picture/000000000000/plot.png",
        "/api/run/000000000000",
        "/api/doctor/%7Bone%7D",
    ],
}


def test_fifty_hostile_requests_are_refused(port: int, ids: dict[str, str]) -> None:
    refused = 0

    def check(what: str, answer: tuple[int, bytes, bytes]) -> None:
        nonlocal refused
        code, head, body = answer
        assert code in (0, 400, 403, 404, 405, 413, 414, 416, 421, 431), (what, code)
        assert SECRET not in head + body, what
        assert b"root:" not in body, what
        refused += 1

    here = f"127.0.0.1:{port}"
    for path in [path for paths in HOSTILE.values() for path in paths]:
        check(path, get(port, path.format(**ids)))
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "0.0.0.0", ""):
        check(host, get(port, "/api/runs", host=host))
    twice = f"GET / HTTP/1.1\r\nHost: {here}\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    check("two hosts", asked(port, twice))
    check("no host", asked(port, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n"))
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"):
        line = f"{method} /api/runs HTTP/1.1\r\nHost: {here}\r\nConnection: close\r\n\r\n"
        check(method, asked(port, line))
    picture = f"/picture/{ids['one']}/plot.png"
    for part in (
        "bytes=0-99999999999999999999",
        "bytes=0-999999999",
        "bytes=" + ",".join("0-1" for _ in range(1000)),
        "bytes=5-1",
        "lines=0-1",
    ):
        check(part[:20], get(port, picture, Range=part))
    check("a body", get(port, "/", Content_Length="3"))
    check("long", get(port, "/api/curves?metric=" + "x" * 20_000))
    check("long header", get(port, "/", X_Long="x" * 200_000))
    check("from another page", get(port, "/api/runs", Sec_Fetch_Site="cross-site"))
    check("no HTTP", asked(port, b"\x16\x03\x01" + bytes(200)))
    assert refused >= 50
    assert get(port, "/api/runs")[0] == 200  # and it lives


def test_another_host_needs_the_token_in_the_address(root: Path) -> None:
    with served(root, host="192.0.2.7", token="right") as port:
        for path in ("/", "/api/runs", "/wrong/", "/rightx/", "/right"):
            assert get(port, path)[0] in (403, 404)
        assert get(port, "/right/", host="192.0.2.7")[0] == 200
        assert get(port, "/right/api/runs", host=f"192.0.2.7:{port}")[0] == 200
        assert get(port, "/right/", host="evil.example")[0] == 421


def test_nothing_is_written(root: Path, port: int, ids: dict[str, str]) -> None:
    def seen() -> dict[str, int]:
        return {str(path): path.lstat().st_mtime_ns for path in root.rglob("*")}

    before = seen()
    for path in ("/api/runs", f"/api/run/{ids['one']}", f"/api/doctor/{ids['one']}"):
        assert get(port, path)[0] == 200
    assert seen() == before


def test_events_tell_what_changes(tmp_path: Path) -> None:
    make(tmp_path / "one", saved=CHUNK)
    with served(tmp_path) as port, socket.create_connection(("127.0.0.1", port), 10) as line:
        line.sendall(f"GET /api/events HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode())
        file = line.makefile("rb")

        def told() -> dict[str, Any]:
            while not (text := file.readline()).startswith(b"data: "):
                assert text
            return json.loads(text[6:])

        assert [run["state"] for run in told()["runs"]] == ["killed"]
        (tmp_path / "one" / "progress.json").write_text(json.dumps({"saved_step": STEPS}))
        assert [run["state"] for run in told()["runs"]] == ["finished"]


def test_states(tmp_path: Path) -> None:
    make(tmp_path / "finished")
    make(tmp_path / "killed", columns(10), saved=5 * CHUNK)
    make(tmp_path / "stopped", columns(10), saved=10 * CHUNK)
    bad = columns(10, explore__novelty=[*[0.1] * 9, np.nan], rollout__ep_rew_mean=np.nan)
    make(tmp_path / "diverged", bad, saved=5 * CHUNK)
    fine = columns(10, rollout__ep_rew_mean=np.nan)
    make(tmp_path / "no episode ended", fine, saved=10 * CHUNK)
    running = make(tmp_path / "running", columns(10), saved=5 * CHUNK)
    far = make(tmp_path / "elsewhere", columns(10), saved=5 * CHUNK)
    (far / ".lock").write_text("pid 7 on host another\n")
    with open(running / ".lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = {run["name"]: run for run in Watched([tmp_path]).summaries()}
    states = {name: run["state"] for name, run in found.items()}
    assert states == {name: name for name in states} | {
        "no episode ended": "stopped",
        "elsewhere": "running",
    }
    assert found["running"]["left"] == (STEPS - 10 * CHUNK) / 4_000
    assert found["killed"]["left"] is None


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"steps": "many"}', "x" * 2_000_000])
def test_a_damaged_directory_is_shown_all_the_same(tmp_path: Path, content: str) -> None:
    folder = make(tmp_path / "run")
    for name in ("settings.json", "progress.json", "metrics.csv", ".lock"):
        (folder / name).write_text(content)
    (run,) = Watched([tmp_path]).summaries()
    assert run["name"] == "run"
    WatchedRun(folder, "run").details()


def test_a_study_tells_what_is_queued_running_done_and_failed(tmp_path: Path) -> None:
    make(tmp_path / "runs" / "a")
    make(tmp_path / "runs" / "b", columns(10), saved=5 * CHUNK)
    cells = [
        {"task": "spiral", "method": "devote", "seed": i, "run": name}
        for i, name in enumerate(("a", "b", "c"))
    ]
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "study.json").write_text(json.dumps({"title": "It", "cells": cells}))
    (tmp_path / "study" / "figure.png").write_bytes(b"\x89PNG")
    with served(tmp_path) as port:
        ((name, study),) = json.loads(get(port, "/api/runs")[2])["studies"].items()
        assert [cell["state"] for cell in study["cells"]] == ["done", "failed", "queued"]
        assert (study["title"], study["pictures"]) == ("It", ["figure.png"])
        assert get(port, f"/study/{name}/figure.png")[0] == 200
        path = f"/api/curves?metric=explore/coverage&over=seeds&study={name}&task="
        (line,) = json.loads(get(port, path + "spiral")[2])
        assert line["label"] == "devote (2 seeds)"  # as the study calls it
        assert json.loads(get(port, path + "another")[2]) == []


def test_a_thousand_runs_are_listed_within_two_seconds(tmp_path: Path) -> None:
    one = make(tmp_path / "0")
    names = os.listdir(one)
    for number in range(1, 1000):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name in names:
            os.link(one / name, folder / name)
    watched, started = Watched([tmp_path]), time.process_time()
    assert len(watched.summaries()) == 1000
    assert time.process_time() - started < 2


def test_bad_words_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a run directory or a folder of runs"):
        watch(Watch((tmp_path / "none",)))
    with pytest.raises(UserError, match="a --port"):
        watch(Watch((tmp_path,), port=70_000))
    with pytest.raises(UserError, match="an address of this machine"):
        watch(Watch((tmp_path,), host="192.0.2.1", port=0, browser=False))
