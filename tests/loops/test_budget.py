"""The replay is sized by the budget, and no number depends on that."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import pytest
from scripted import Scripted

from devote.api import make_agent
from devote.core.types import Box, EnvSpec, Vector
from devote.loops import loop as loop_module
from devote.loops.loop import Loop
from devote.loops.memory import tree_bytes
from devote.loops.schedule import LoopSettings
from tiny import changed_leaves

LARGE = {"preset": "smoke", "replay_capacity": 200_000}


def outcome(model: Any) -> Any:
    """All that a run is, without its replay."""
    return jax.tree.map(lambda x: x, model._training.state._replace(replay=()))


def rows(model: Any) -> int:
    return len(model._training.state.replay.first)


@pytest.mark.parametrize(
    ("agent", "task"), [("sac", "deep_sea"), ("devote-plus", "spiral"), ("sac", "CartPole-v1")]
)
def test_the_same_numbers_with_room_for_the_budget_and_for_more(
    agent: str, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "BLOCK", 128)  # several of them
    more = LARGE | ({"overlap": False} if task == "CartPole-v1" else {})
    sized = make_agent(agent, task, **more).learn(1_200, progress_bar=False)
    monkeypatch.setattr(Loop, "rows", lambda self, steps: self.replay.num_rows)
    full = make_agent(agent, task, **more).learn(1_200, progress_bar=False)
    envs = sized.run.loop.num_envs
    assert rows(full) == 200_000 // envs
    assert 1_200 <= rows(sized) * envs < 2_500
    assert int(sized._training.state.clock.updates) > 10  # type: ignore[union-attr]
    assert not changed_leaves(outcome(sized), outcome(full))


def test_a_larger_budget_makes_room_and_changes_nothing(tmp_path: Path) -> None:
    def model(directory: Path | None) -> Any:
        return make_agent("sac", "spiral", directory=directory, **LARGE)

    whole = model(None).learn(12_000, progress_bar=False)
    twice = model(None).learn(800, progress_bar=False)
    small = rows(twice)
    twice.learn(12_000 - 800, progress_bar=False)
    model(tmp_path).learn(800, progress_bar=False)
    resumed = model(tmp_path).learn(12_000, progress_bar=False)
    assert small < rows(whole) == rows(twice) == rows(resumed)
    for other in (twice, resumed):
        assert not changed_leaves(whole._training.state, other._training.state)


def test_a_short_run_of_pictures_takes_little_memory() -> None:
    picture = 96 * 96 * 3
    seen = Vector((0.0,) * picture, (255.0,) * picture, dtype="uint8")
    spec = EnvSpec("camera", seen, Box(2), 100)
    settings = LoopSettings(num_envs=8, log_interval=1_000, learning_starts=1_000)
    for steps, most in ((8_000, 0.8e9), (10**9, 60e9)):
        loop = Loop(replace(Scripted(), spec=spec), spec, settings)
        assert 2 * picture * min(steps, 10**6) < tree_bytes(loop.replay.layout(loop.rows(steps)))
        assert tree_bytes(loop.replay.layout(loop.rows(steps))) < most
