"""Films of trained agents, from a run directory to a file that a viewer opens."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from PIL import Image

from corridor import QUIET, Corridor
from devote.build import plan
from devote.cli import dispatch, parse_train
from devote.core.errors import UserError
from devote.figures.film import HERE
from devote.loops.train import train
from devote.presets import smoke
from devote.render import Render, one_env, render

DRAWN = f"""{QUIET}
import importlib
import numpy as np

PAINTER = "numpy"

class Drawn(Quiet):
    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def render(self):
        importlib.import_module(PAINTER)
        if self.render_mode == "rgb_array":
            return np.full((16, 32, 3), 20 * self.count, np.uint8)

class Other(Drawn):
    pass
"""


@pytest.fixture(scope="module")
def sea(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two seeds in a small DeepSea."""
    directory = tmp_path_factory.mktemp("run") / "sea"
    run = replace(smoke("deep_sea", "devote"), steps=400, seeds=2)
    run = replace(run, loop=replace(run.loop, map_interval=400))
    train(plan(run, directory), silent=True)
    return directory


def depths(path: Path, size: int) -> list[int]:
    """The row of the agent in every frame."""
    rows = []
    with Image.open(path) as film:
        for number in range(film.n_frames):
            film.seek(number)
            frame = np.asarray(film.convert("RGB"))
            here = np.argwhere((frame == HERE).all(axis=-1))
            rows.append(int(here[:, 0].mean()) * size // frame.shape[0] if len(here) else -1)
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("explore", [False, True])
def test_a_film_follows_the_agent_down_the_sea(sea: Path, explore: bool) -> None:
    path = render(Render(sea, explore=explore, seed=1))
    assert path == sea / "figures" / ("explore_0.gif" if explore else "exploit_0.gif")
    assert render(Render(sea, explore=explore, seed=1, map=True)) != path
    seen = depths(path, 8)
    assert seen[:8] == list(range(8))


@pytest.mark.slow
def test_a_gymnasium_task_draws_itself(tmp_path: Path) -> None:
    pytest.importorskip("pygame")
    base = smoke("gymnasium", "sac")
    env = replace(base.env, id="MountainCarContinuous-v0", time_limit=20)
    directory = tmp_path / "car"
    train(plan(replace(base, env=env, steps=400), directory), silent=True)
    with Image.open(render(Render(directory, rate=25))) as film:
        assert film.size == (600, 400)
        shown = []
        for number in range(film.n_frames):  # frames that are alike are one, shown longer
            film.seek(number)
            shown.append(film.info["duration"])
        assert sum(shown) == 20 * 40


def test_an_environment_of_ones_own_is_named_and_draws_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "drawn_here.py").write_text(DRAWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    directory = tmp_path / "run"
    run, _ = parse_train(
        ["drawn_here:Drawn", "--preset", "smoke", "--agent", "sac", "--steps", "200"]
    )
    train(plan(run, directory), silent=True)
    with pytest.raises(UserError, match="name it: --env drawn_here:Drawn"):
        render(Render(directory))
    with pytest.raises(UserError, match="change --env"):
        render(Render(directory, env="drawn_here:Other"))
    assert dispatch(["render", str(directory), "--env", "drawn_here:Drawn"]) == 0
    with Image.open(directory / "figures" / "exploit_0.gif") as film:
        assert film.size == (32, 16)
    settings = directory / "settings.json"  # as Python writes it, where a class was given
    saved = json.loads(settings.read_text())
    saved["env"]["id"] = ""
    settings.write_text(json.dumps(saved | {"task": "Drawn"}))
    with pytest.raises(UserError, match="of the run, Drawn; got nothing"):
        render(Render(directory))
    with pytest.raises(UserError, match="own environment, Drawn; got Other"):
        render(Render(directory, env="drawn_here:Other"))
    assert render(Render(directory, env="drawn_here:Drawn")).is_file()
    monkeypatch.setattr(sys.modules["drawn_here"], "PAINTER", "no_such_painter")
    with pytest.raises(UserError, match="No module named 'no_such_painter'; install"):
        render(Render(directory, env="drawn_here:Drawn"))


def test_for_bins_an_environment_is_not_asked_to_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "tests/Corridor-v0"
    monkeypatch.setitem(gymnasium.registry, name, EnvSpec(name, Corridor, max_episode_steps=20))
    base = smoke("gymnasium", "sac")
    run = replace(base, env=replace(base.env, id=name))
    with pytest.raises(UserError, match="to take a render_mode"):
        one_env(run)
    assert one_env(run, pictures=False).spec.name == name


def test_what_cannot_be_filmed_is_refused(sea: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no settings\.json"):
        render(Render(tmp_path))
    with pytest.raises(UserError, match="a seed of the run, 0 to 1"):
        render(Render(sea, seed=7))
    with pytest.raises(UserError, match="leave out --env"):
        render(Render(sea, env="CartPole-v1"))
    with pytest.raises(UserError, match=r"\.gif"):
        render(Render(sea, out=tmp_path / "film.avi"))
    for rate in (0.0, -3.0, float("nan")):
        with pytest.raises(UserError, match="a --rate from 0"):
            render(Render(sea, rate=rate))
    with pytest.raises(UserError, match="an --episode from 0 to 4,294,967,295; got -1"):
        render(Render(sea, episode=-1))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", r"JSON in .*settings\.json; got a damaged file"),
        ('{"preset": "desk", "env_name": "moon"}', "a known env_name in .*; got 'moon'"),
        ("{}", "a known preset in .*; got None"),
    ],
)
def test_settings_that_cannot_be_read_are_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "settings.json").write_text(text)
    with pytest.raises(UserError, match=words):
        render(Render(tmp_path))


def test_a_timelapse_has_a_frame_for_every_map_and_colours_what_was_visited(
    sea: Path, tmp_path: Path
) -> None:
    path = render(Render(sea, timelapse=True, out=tmp_path / "run.gif", seed=1))
    with Image.open(path) as film:
        assert film.n_frames == len(list((sea / "maps").iterdir())) == 2
        film.seek(1)
        frame = np.asarray(film.convert("RGB")).astype(int)
    zoom = (frame.shape[0] - 40) // 8
    start, wall = frame[20 + zoom // 2, zoom // 2], frame[20 + zoom // 2, 7 * zoom + zoom // 2]
    assert abs(wall - [60, 60, 66]).max() < 12  # a GIF has few colours
    assert abs(start - [253, 231, 37]).max() < 12  # every episode was there


def test_a_timelapse_needs_maps_and_a_seed_of_the_run(sea: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a seed of the run, 0 to 1; got 2"):
        render(Render(sea, timelapse=True, seed=2))
    (tmp_path / "settings.json").write_text((sea / "settings.json").read_text())
    with pytest.raises(UserError, match=r"maps of the run .* got none; train with a"):
        render(Render(tmp_path, timelapse=True))
