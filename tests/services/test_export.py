"""Exported policies act as `predict` does, in programs that know nothing of devote."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from corridor import SHORT, Corridor, observations, stacked
from devote import Devote, Sac
from devote.core.errors import UserError
from devote.envs.spaces import Observations

pytestmark = pytest.mark.services
PROGRAM = """
import sys, numpy as np
kind, path, rows, out = sys.argv[1:]
obs = np.load(rows)
if kind == "onnx":
    import onnxruntime
    found = onnxruntime.InferenceSession(path).run(None, {"obs": obs})[0]
else:
    import jax.export
    found = jax.export.deserialize(bytearray(open(path, "rb").read())).call(obs)
assert "devote" not in sys.modules
np.save(out, found)
"""


def elsewhere(kind: str, path: Path, obs: np.ndarray) -> np.ndarray:
    """What the exported policy does in a process of its own."""
    rows, out = path.with_name("rows.npy"), path.with_name("out.npy")
    np.save(rows, obs)
    subprocess.run([sys.executable, "-c", PROGRAM, kind, path, rows, out], check=True)
    return np.load(out)


@pytest.fixture(params=["onnx", "stablehlo"])
def kind(request: pytest.FixtureRequest) -> str:
    pytest.importorskip("flatbuffers")
    if request.param == "onnx":
        pytest.importorskip("jax2onnx")
    return str(request.param)


def test_continuous_actions(kind: str, tmp_path: Path) -> None:
    model = Devote("Pendulum-v1", preset="smoke", seed=3).learn(1_600, progress_bar=False)
    model.export(tmp_path / f"policy.{kind}")
    obs = np.random.default_rng(0).uniform(-1, 1, (37, 3)).astype(np.float32)
    expected = model.predict(obs)
    assert np.ptp(expected) > 0.01, "a policy that always does the same shows nothing"
    found = elsewhere(kind, tmp_path / f"policy.{kind}", obs)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_choices_from_a_dict(kind: str, tmp_path: Path) -> None:
    model = Sac(Corridor, seed=3, **SHORT).learn(160, progress_bar=False)
    model.export(tmp_path / f"policy.{kind}")
    rows = stacked(observations(9))
    flat = Observations(model.task.observation).flatten(rows, 9).astype(np.float32)
    found = elsewhere(kind, tmp_path / f"policy.{kind}", flat)
    np.testing.assert_array_equal(found, model.predict(rows))


def test_integers(kind: str, tmp_path: Path) -> None:
    model = Sac("CliffWalking-v1", preset="smoke", seed=3)
    model.export(tmp_path / f"policy.{kind}")
    obs = np.arange(48, dtype=np.int32)
    np.testing.assert_array_equal(
        elsewhere(kind, tmp_path / f"policy.{kind}", obs), model.predict(obs)
    )


def test_a_policy_that_differs_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("flatbuffers")
    model = Sac("Pendulum-v1", preset="smoke", seed=3)
    honest = type(model.agent).exploit
    calls: list[int] = []

    def drifts(self: object, state: object, obs: object, key: object = None) -> object:
        calls.append(1)
        return honest(self, state, obs, key) + 1e-4 * len(calls)  # type: ignore[arg-type,operator]

    monkeypatch.setattr(type(model.agent), "exploit", drifts)
    with pytest.raises(UserError, match="within 1e-5 of predict"):
        model.export(tmp_path / "policy.stablehlo")
    assert not list(tmp_path.iterdir())
