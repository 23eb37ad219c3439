"""Using a model before, between and after its learning: nothing is lost, nothing is changed."""

import warnings
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest

from corridor import SHORT, TINY, Corridor, observations, stacked
from devote import Sac
from devote.core.errors import UserError


def leaves(model: Sac) -> list[np.ndarray]:
    """Copies of all that an agent has learned."""
    return [np.array(leaf) for leaf in jax.tree.leaves(model.state)]


def require_same(one: list[np.ndarray], other: list[np.ndarray]) -> None:
    assert len(one) == len(other) > 0
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_array_equal(mine, theirs)


class Stairs(Corridor):
    """Another task with the same spaces."""


@pytest.mark.parametrize("env", [Corridor, "deep_sea"])
def test_a_model_starts_as_its_training_does(env: Any) -> None:
    agent = Sac(env, seed=3, **TINY)
    require_same(
        leaves(agent), [np.array(leaf) for leaf in jax.tree.leaves(agent.program.init().agent)]
    )


def test_using_a_model_before_it_learns_changes_no_number() -> None:
    used, unused = (Sac(Corridor, seed=3, **SHORT) for _ in range(2))
    used.predict(stacked(observations(3)))
    used.evaluate(episodes=1)
    require_same(*(leaves(model.learn(80, progress_bar=False)) for model in (used, unused)))


def test_the_same_lines_with_an_evaluation_first_keep_what_was_learned(tmp_path: Path) -> None:
    def lines() -> tuple[dict[str, float], Sac]:
        agent = Sac(Corridor, directory=tmp_path, **SHORT)
        return agent.evaluate(episodes=2), agent.learn(160, progress_bar=False)

    _, first = lines()
    found, again = lines()
    assert found == first.evaluate(episodes=2)
    require_same(leaves(first), leaves(again))


def test_a_directory_is_the_agent_before_any_learning(tmp_path: Path) -> None:
    first = Sac(Corridor, directory=tmp_path, **SHORT).learn(160, progress_bar=False)
    again = Sac(Corridor, directory=tmp_path, **SHORT)
    batch = stacked(observations(9))
    np.testing.assert_array_equal(again.predict(batch), first.predict(batch))
    require_same(leaves(first), leaves(again))
    assert again.steps == first.steps > 0
    with pytest.raises(UserError, match=r"asked 0\.5"):
        Sac(Corridor, directory=tmp_path, discount=0.5, **SHORT).predict(batch)


def test_a_directory_belongs_to_one_task(tmp_path: Path) -> None:
    Sac(Corridor, directory=tmp_path, **SHORT).learn(80, progress_bar=False)
    for other in (Stairs, Stairs()):
        with pytest.raises(UserError, match='task: saved "Corridor", asked "Stairs"'):
            Sac(other, directory=tmp_path, num_envs=1, **SHORT).learn(80, progress_bar=False)


def test_reading_a_directory_leaves_the_users_environment_alone(tmp_path: Path) -> None:
    env = gymnasium.wrappers.RecordEpisodeStatistics(Corridor())
    Sac(env, directory=tmp_path, **SHORT).learn(80, progress_bar=False)
    obs, _ = env.reset(seed=0)
    obs, *_ = env.step(0)
    Sac(env, directory=tmp_path, **SHORT).predict(obs)
    assert env.unwrapped.at == 1, "predict has reset it"  # type: ignore[attr-defined]


def test_a_loaded_model_goes_on_from_what_it_knows(tmp_path: Path) -> None:
    first = Sac(Corridor, seed=3, **SHORT).learn(80, progress_bar=False)
    first.save(tmp_path)
    loaded = Sac.load(tmp_path, Corridor)
    acting: list[Any] = []
    prefill = loaded.program.prefill

    def watched(state: Any) -> Any:
        acting.extend(np.array(leaf) for leaf in jax.tree.leaves(state.agent))
        return prefill(state)

    loaded.program.prefill = watched  # type: ignore[method-assign]
    loaded.learn(80, progress_bar=False)
    require_same(acting, leaves(first))
    assert loaded.steps >= first.steps + 80
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded.save(tmp_path)
    assert Sac.load(tmp_path).steps == loaded.steps
    assert not list(tmp_path.rglob("aside_*"))
