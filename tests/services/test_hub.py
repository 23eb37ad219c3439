"""Models on the Hub, against a stand-in of its HTTP API on loopback."""

import base64
import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corridor import SHORT, Corridor, observations, stacked
from devote import Sac
from devote.core.errors import UserError

pytestmark = pytest.mark.services
COMMIT = "c" * 40
REPO = "someone/corridor"


class Hub(BaseHTTPRequestHandler):
    """One repository that keeps every file it is given, and what was asked of it."""

    files: dict[str, bytes]
    asked: list[str]

    def log_message(self, *_: Any) -> None:
        pass

    def here(self) -> str:
        return f"http://{self.headers['Host']}"

    def answer(self, body: Any = b"", status: int = 200, **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(data))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.asked.append(f"POST {self.path}")
        if self.path == "/api/repos/create":
            self.answer({"url": f"{self.here()}/{REPO}"})
        elif self.path == "/api/validate-yaml":
            self.answer({"errors": [], "warnings": []})
        elif "/preupload/" in self.path:
            paths = [file["path"] for file in json.loads(text)["files"]]
            found = [{"path": p, "uploadMode": "regular", "shouldIgnore": False} for p in paths]
            self.answer({"files": found})
        else:
            for line in map(json.loads, text.splitlines()):
                if line["key"] == "file":
                    self.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
                elif line["key"] == "deletedFile":
                    del self.files[line["value"]["path"]]
            url = f"{self.here()}/{REPO}/commit/{COMMIT}"
            self.answer({"commitUrl": url, "commitOid": COMMIT, "success": True})

    def do_GET(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        path = self.path.split("?")[0]
        if REPO not in path:
            self.answer({"error": "Repository not found"}, 404, X_Error_Code="RepoNotFound")
        elif "/resolve/" in path:
            data = self.files.get(path.split(f"/{COMMIT}/")[-1])
            if data is None:
                return self.answer(b"", 404, X_Error_Code="EntryNotFound")
            self.answer(data, ETag=f'"{_oid(data)}"', X_Repo_Commit=COMMIT)
        elif "/tree/" in path:
            rows = [
                {"type": "file", "path": p, "size": len(d), "oid": _oid(d)}
                for p, d in self.files.items()
            ]
            self.answer(rows)
        else:
            names = [{"rfilename": name} for name in self.files]
            self.answer({"id": REPO, "sha": COMMIT, "siblings": names, "tags": []})

    do_HEAD = do_GET  # noqa: N815


def _oid(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


@pytest.fixture
def hub(monkeypatch: Any, tmp_path: Path) -> Iterator[type[Hub]]:
    constants = pytest.importorskip("huggingface_hub.constants")
    kind = type("TheHub", (Hub,), {"files": {}, "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", address)
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    yield kind
    server.shutdown()


def test_a_model_goes_to_the_hub_and_comes_back(hub: type[Hub]) -> None:
    agent = Sac(Corridor, seed=3, **SHORT).learn(160, progress_bar=False)
    url = agent.push_to_hub(REPO, episodes=2, token="hf_none")
    assert url.endswith(COMMIT)
    card = hub.files["README.md"].decode()
    assert "library_name: devote" in card
    assert "type: mean_reward" in card
    assert f'agent_class("sac").from_hub("{REPO}", env=...)' in card
    before = set(hub.files)
    agent.learn(160, progress_bar=False)
    agent.push_to_hub(REPO, episodes=0, token="hf_none")
    assert len(hub.files) == len(before), "files of the model before are still there"
    hub.files["model/evil.py"] = b"raise SystemExit('code of a repository ran')"
    hub.files["setup.py"] = hub.files["model/evil.py"]
    again = Sac.from_hub(REPO, Corridor)
    batch = stacked(observations(9))
    np.testing.assert_array_equal(agent.predict(batch), again.predict(batch))
    assert again.steps == agent.steps
    assert not [path for path in hub.asked if "resolve" in path and "setup.py" in path]


def test_what_is_on_no_hub_or_was_changed_is_refused(hub: type[Hub]) -> None:
    with pytest.raises(UserError, match="a repository on the Hub; got someone/else"):
        Sac.from_hub("someone/else", token="hf_none")
    Sac(Corridor, seed=3, **SHORT).push_to_hub(REPO, episodes=0, token="hf_none")
    (weights,) = [name for name in hub.files if name.endswith(".safetensors")]
    hub.files[weights] = hub.files[weights][:-4] + b"\0\0\0\1"
    with pytest.raises(UserError, match=r"a model in .* none that verifies"):
        Sac.from_hub(REPO, Corridor, token="hf_none")


def test_without_the_client_the_extra_is_named() -> None:
    code = "import sys; sys.modules['huggingface_hub'] = None"
    code += "\nfrom devote.hub import pull\npull('a/b', '.', None, None)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'devote[hub]'" in done.stderr
