"""The server of `devote watch`: the page and its API. It is read-only and for this machine alone;
with another --host, for those who have the token in the address."""

import asyncio
import hmac
import ipaddress
import json
import math
import os
import re
import secrets
import socket
import struct
import sys
import webbrowser
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from devote.core.errors import UserError, extra
from devote.doctor import examine, scope
from devote.live.watched import PICTURES, Watched, WatchedRun, curves, drawn
from devote.loops.run_dir import FIGURES, SETTINGS
from devote.loops.snapshots import Snapshot

PAGE = {"": "index.html", "uPlot.js": "uPlot.iife.min.js", "uPlot.css": "uPlot.min.css"}
PAGE |= {name: name for name in ("app.js", "style.css", "icon.svg")}
KINDS = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    b"content-security-policy": POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}
LONGEST = 8192  # characters of an address
MOST_RUNS = 64  # in one chart
MOST_STREAMS = 16  # open pages
RANGE = re.compile(r"bytes=(\d{1,12})-(\d{0,12})")


@dataclass(frozen=True)
class Watch:
    """Show runs in the browser, while they train and after."""

    folders: Annotated[tuple[Path, ...], tyro.conf.Positional] = (Path("."),)
    """Run directories, or folders that hold runs and studies."""
    host: str = "127.0.0.1"
    """An address other than loopback shows the page to others, who need the token in its URL."""
    port: int = 7842
    """If it is 0 or taken: any free port."""
    browser: bool = True
    """Open the page in a browser, if this machine has a screen."""


def watch(asked: Watch) -> int:
    """Serve until Ctrl-C."""
    with extra("live"):
        import uvicorn
    for folder in asked.folders:
        if not folder.is_dir():
            raise UserError("a run directory or a folder of runs", folder, "name another one")
    if not 0 <= asked.port < 2**16:
        raise UserError("a --port from 0 to 65535", asked.port, "change --port")
    listener = _listen(asked.host, asked.port)
    token = "" if _is_loopback(asked.host) else secrets.token_urlsafe(24)
    app = guarded(Watched(asked.folders), asked.host, token)
    shown = f"[{asked.host}]" if ":" in asked.host else asked.host
    address = f"http://{shown}:{listener.getsockname()[1]}/" + (f"{token}/" if token else "")
    print(f"watch at {address} (Ctrl-C stops the page, never a training)", flush=True)
    if asked.browser and _has_screen():
        webbrowser.open(address)
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        limit_concurrency=128,
        timeout_graceful_shutdown=1,
    )
    uvicorn.Server(config).run(sockets=[listener])
    return 0


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for wanted in (port, 0):
        listener = socket.socket(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, wanted))
            return listener
        except (OSError, OverflowError) as error:
            listener.close()
            reason = error
    raise UserError("an address of this machine after --host", f"{host} ({reason})", "change it")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _has_screen() -> bool:
    return sys.platform != "linux" or any(os.environ.get(x) for x in ("DISPLAY", "WAYLAND_DISPLAY"))


def guarded(watched: Watched, host: str, token: str = "") -> Any:
    """The application behind a guard that refuses bad requests and seals every answer."""
    app = _routes(watched)
    named = {"localhost", "127.0.0.1", "[::1]", host.lower(), f"[{host.lower()}]"}
    if token:
        named |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    async def guard(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return

        async def sealed(message: Any) -> None:
            if message["type"] == "http.response.start":
                kept = [pair for pair in message["headers"] if pair[0] not in HEADERS]
                message = message | {"headers": [*kept, *HEADERS.items()]}
            await send(message)

        code = _refusal(scope, named)
        path = scope["path"]
        if code is None and token:
            first, slash, rest = path.removeprefix("/").partition("/")
            if not (hmac.compare_digest(first.encode(), token.encode()) and slash):
                code = 403
            scope = scope | {"path": f"/{rest}", "root_path": ""}
        if code is not None:
            from starlette.responses import PlainTextResponse

            await PlainTextResponse("refused", code)(scope, receive, sealed)
            return
        await app(scope, receive, sealed)

    return guard


def _refusal(scope: Any, named: set[str]) -> int | None:
    """The HTTP code to refuse a request with, or None."""
    headers = [(name.decode("latin1"), value.decode("latin1")) for name, value in scope["headers"]]
    told = dict(headers)
    hosts = [value.lower() for name, value in headers if name == "host"]
    if scope["method"] not in ("GET", "HEAD"):
        return 405
    server = scope.get("server") or ("", 0)
    here = named | {str(server[0]), f"[{server[0]}]"}
    if len(hosts) != 1 or re.sub(r":\d+$", "", hosts[0]) not in here:
        return 421
    if len(scope["path"]) + len(scope["query_string"]) > LONGEST:
        return 414
    if not scope["path"].isprintable():
        return 400
    if told.get("content-length", "0") != "0" or "transfer-encoding" in told:
        return 413
    elsewhere = told.get("sec-fetch-site", "none") not in ("none", "same-origin")
    return 403 if elsewhere and told.get("sec-fetch-mode") != "navigate" else None


def _routes(watched: Watched) -> Any:
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route

    files = resources.files("devote.live") / "page"
    page = {f"/{name}": (files / file).read_bytes() for name, file in PAGE.items()}
    streams = 0

    def answer(found: Any) -> Response:
        if found is None:
            return Response("not there", 404, media_type="text/plain")
        return Response(json.dumps(found, allow_nan=False), media_type="application/json")

    def of_run(make: Callable[[WatchedRun, Request], Any]) -> Callable[[Request], Response]:
        def respond(request: Request) -> Response:
            run = watched.one(request.path_params["run"])
            found = None if run is None else make(run, request)
            return found if isinstance(found, Response) else answer(found)

        return respond

    def chosen(one: Snapshot, request: Request) -> tuple[int, int]:
        """The seed's place and the plane of the grid that are asked for; 0 for nonsense."""
        found = [request.query_params.get(name, "0") for name in ("seed", "plane")]
        seed, plane = (int(text) if re.fullmatch(r"\d{1,9}", text) else 0 for text in found)
        pairs = math.comb(len(one.grid.shape), 2)
        return min(seed, len(one.seeds) - 1), min(plane, max(0, pairs - 1))

    def static(request: Request) -> Response:
        kind = KINDS[PAGE[request.url.path[1:]].rsplit(".")[-1]]
        return Response(page[request.url.path], media_type=kind)

    def everything() -> dict[str, Any]:
        found = watched.summaries()
        studies = {name: watched.study(one) for name, one in watched.studies.items()}
        return {"runs": found, "studies": studies}

    def doctor(run: WatchedRun, request: Request) -> Any:
        table, maps = run.metrics(), [*run.history()]
        found = examine(run.json(SETTINGS), table, maps) if table else []
        return {"findings": [one._asdict() for one in found], "scope": scope(maps)}

    def lines(request: Request) -> Response:
        """Curves of the named runs, or of a study's runs in one task."""
        query = request.query_params
        asked = [(name, "") for name in query.getlist("run")[:MOST_RUNS]]
        study = watched.one(query["study"]) if "study" in query else None
        if study is not None:
            cells = [x for x in watched.study(study)["cells"] if x["task"] == query.get("task")]
            asked = [(cell["id"], str(cell["method"])) for cell in cells if cell["id"]]
        found = [(run, method) for name, method in asked if (run := watched.runs.get(name))]
        runs, methods = [run for run, _ in found], [method for _, method in found]
        over_seeds = query.get("over") == "seeds"
        return answer(curves(runs, query.get("metric", ""), over_seeds, methods if study else ()))

    def maps(run: WatchedRun, request: Request) -> Any:
        """A snapshot: length of a JSON header, the header, and its arrays as float32."""
        text = request.path_params["step"]
        one = run.snapshot(int(text)) if re.fullmatch(r"\d{1,15}", text) else None
        if one is None:
            return None
        about, arrays = drawn(one, *chosen(one, request))
        sizes = {name: int(np.size(values)) for name, values in arrays.items()}
        header = json.dumps(about | {"sizes": sizes}, allow_nan=False).encode()
        header += b" " * (-len(header) % 4)
        body = [np.asarray(values, "<f4").tobytes() for values in arrays.values()]
        content = struct.pack("<I", len(header)) + header + b"".join(body)
        return Response(content, media_type="application/octet-stream")

    def ranges(run: WatchedRun, request: Request) -> Any:
        first = next(run.history(), None)
        return first and run.ranges(*chosen(first, request))

    def picture(request: Request, inside: tuple[str, ...]) -> Response:
        owner = watched.one(request.path_params["run"])
        name = request.path_params["name"]
        kind = PICTURES.get(Path(name).suffix)
        path = owner.own(*inside, name) if owner and kind and Path(name).name == name else None
        if path is None:
            return answer(None)
        content, asked = path.read_bytes(), request.headers.get("range")
        if asked is None:
            return Response(content, media_type=kind)
        match = RANGE.fullmatch(asked)
        start, end = (int(match[1]), int(match[2] or len(content) - 1)) if match else (1, 0)
        if not start <= end < len(content):
            return Response("", 416, {"content-range": f"bytes */{len(content)}"})
        told = {"content-range": f"bytes {start}-{end}/{len(content)}", "accept-ranges": "bytes"}
        return Response(content[start : end + 1], 206, told, media_type=kind)

    async def changes() -> AsyncIterator[str]:
        nonlocal streams
        known: dict[str, Any] = {}
        studies: dict[str, Any] | None = None
        streams += 1
        try:
            while True:
                found = await run_in_threadpool(everything)
                now = {run["id"]: run for run in found["runs"]}
                told: dict[str, Any] = {
                    "runs": [run for name, run in now.items() if known.get(name) != run],
                    "gone": [name for name in known if name not in now],
                }
                if studies != found["studies"]:
                    told["studies"] = found["studies"]
                changed = any(told.values()) or studies is None
                yield f"data: {json.dumps(told)}\n\n" if changed else ": nothing new\n\n"
                known, studies = now, found["studies"]
                await asyncio.sleep(1)
        finally:
            streams -= 1

    async def events(request: Request) -> Response:
        if streams >= MOST_STREAMS:
            return Response("too many pages", 503, media_type="text/plain")
        return StreamingResponse(changes(), media_type="text/event-stream")

    routes = [Route(f"/{name}", static, methods=["GET"]) for name in PAGE]
    answers: dict[str, Callable[..., Any]] = {
        "/api/runs": lambda request: answer(everything()),
        "/api/curves": lines,
        "/api/events": events,
        "/api/run/{run}": of_run(lambda run, _: run.details()),
        "/api/doctor/{run}": of_run(doctor),
        "/api/ranges/{run}": of_run(ranges),
        "/api/map/{run}/{step}": of_run(maps),
        "/picture/{run}/{name}": partial(picture, inside=(FIGURES,)),
        "/study/{run}/{name}": partial(picture, inside=()),
    }
    routes += [Route(path, function, methods=["GET"]) for path, function in answers.items()]
    return Starlette(routes=routes)
