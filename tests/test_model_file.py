"""Models on disk: what is written comes back as it was."""

import shutil
import warnings
from collections import OrderedDict
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from corridor import SHORT, Corridor
from devote import Sac
from devote.build import HOST_ENVS, JAX_ENVS
from devote.core.errors import UserError
from devote.envs.spaces import Observations, space_from_table, space_to_table
from devote.loops import checkpoint
from devote.loops.checkpoint import decode_manifest, encode_manifest
from devote.saved import write_model

NATIVE = [name for name in HOST_ENVS if name != "gymnasium"]
OURS = [name for name in JAX_ENVS if name not in ("brax", "playground")]


def line(low: float) -> spaces.Box:
    return spaces.Box(low, 1.0, (1,))


class Reach(gymnasium.Env):
    """Ends at once; what is seen has keys in an order of their own."""

    observation_space: spaces.Space = spaces.Dict(position=line(-1), goal=line(-1))
    action_space = spaces.Box(-1, 1, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 0.0, True, False, {}


class Sorted(Reach):
    observation_space = spaces.Dict({"position": line(-1), "goal": line(-1)})


def test_a_space_keeps_the_order_and_the_type_of_its_keys() -> None:
    parts: Any = OrderedDict({7: line(-3), "b": spaces.Dict(z=line(-2), a=line(-1))})
    space = spaces.Dict(parts)
    again = space_from_table(space_to_table(space), "a test")
    assert Observations(again).names == Observations(space).names
    assert Observations(again).spec.low == (-3.0, -2.0, -1.0)  # type: ignore[union-attr]
    odd: Any = {(1, 2): line(-1)}
    with pytest.raises(UserError, match="text or integers"):
        space_to_table(spaces.Dict(odd))


def test_a_loaded_model_reads_its_inputs_in_their_order(tmp_path: Path) -> None:
    agent = Sac(Reach, **SHORT)
    agent.save(tmp_path)
    rows = np.linspace(-1, 1, 9, dtype=np.float32)[:, None]
    obs = {"position": rows, "goal": -rows}
    np.testing.assert_array_equal(Sac.load(tmp_path, Reach).predict(obs), agent.predict(obs))
    with pytest.raises(UserError, match=r"entries .*got \(\"obs\['goal'\]"):
        Sac.load(tmp_path, Sorted)


@pytest.mark.parametrize("name", [*NATIVE, *OURS])
def test_a_model_of_a_task_of_ours_is_loaded_with_it(name: str, tmp_path: Path) -> None:
    agent = Sac(name, preset="smoke", num_envs=2)
    agent.save(tmp_path)
    loaded = Sac.load(tmp_path, env=name)
    assert loaded.task.spec.observation == agent.env.spec.observation
    assert loaded.env.spec == agent.env.spec


@cache
def untrained() -> Sac:
    return Sac(Corridor, seed=3, **SHORT)


def forge(path: Path, **changes: Any) -> None:
    """Change the table of a model and seal it again."""
    [file] = path.rglob("manifest.json")
    sound = decode_manifest(file.read_bytes())
    table: Any = sound.note["model"]
    file.write_bytes(encode_manifest(replace(sound, note={"model": table | changes})))


def test_a_model_that_was_tampered_with_is_refused(tmp_path: Path) -> None:
    untrained().save(tmp_path / "sound")
    [file] = (tmp_path / "sound").rglob("manifest.json")
    sound: Any = decode_manifest(file.read_bytes()).note["model"]

    def refused(message: str, **changes: Any) -> None:
        path = tmp_path / "forged"
        shutil.copytree(tmp_path / "sound", path)
        forge(path, **changes)
        with pytest.raises(UserError, match=message):
            Sac.load(path)
        shutil.rmtree(path)

    settings = sound["settings"]
    refused("schema 2", schema=1)
    refused("known agent", agent="os:system")
    refused("known recipe", recipe="nowhere")
    refused("settings", settings=settings | {"extra": 1})
    high = {"agent": settings["agent"] | {"discount": "high"}}
    refused("discount to be a number", settings=settings | high)
    refused("description of a space", task=sound["task"] | {"action": {"kind": "Code"}})
    file.write_text(file.read_text().replace("Corridor", "Corridoor"))
    with pytest.warns(UserWarning, match="SHA-256"), pytest.raises(UserError, match="a model in"):
        Sac.load(tmp_path / "sound")
    with pytest.raises(UserError, match="a model in"):
        Sac.load(tmp_path / "elsewhere")


@pytest.mark.parametrize("fault", ["_write_state", "_write_manifest", "_publish", "_discard"])
def test_a_model_is_the_old_or_the_new_one_wherever_its_saving_stops(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    untrained().save(tmp_path)
    before = Sac.load(tmp_path)
    other = Sac(Reach, **SHORT)

    def dies(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, fault, dies)
        with pytest.raises(KeyboardInterrupt):
            other.save(tmp_path)
    found = Sac.load(tmp_path)
    assert found.task.spec == (other if fault == "_discard" else before).task.spec
    other.save(tmp_path)
    assert Sac.load(tmp_path).task.spec == other.task.spec


def test_a_model_of_fewer_steps_takes_the_place_of_one_of_more(tmp_path: Path) -> None:
    write_model(tmp_path, replace(untrained().task, step=500), untrained().state)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        untrained().save(tmp_path)
    assert Sac.load(tmp_path).steps == 0
    assert len(list(tmp_path.rglob("*.safetensors"))) == 1
