"""Tasks of dm_control and MiniGrid by name."""

from typing import Any

import jax
import numpy as np
import pytest

from devote.core.errors import UserError
from devote.core.types import Box, Choice
from devote.envs.check import check_env
from devote.envs.gymnasium import GymnasiumSettings, gymnasium_task
from devote.envs.naming import factory_of

KEY = jax.random.key(0)


def dmc(name: str, num_envs: int = 1, **settings: Any) -> Any:
    pytest.importorskip("dm_control")
    return gymnasium_task(GymnasiumSettings(f"dmc:{name}", **settings), num_envs)


def test_a_task_of_dm_control_counts_decisions_until_its_own_time_limit() -> None:
    bounds: Any = {"coverage_low": (-2.0, -1.0), "coverage_high": (2.0, 1.0)}
    task = dmc("cartpole-swingup_sparse-repeat100", 2, coverage_entries=(0, 1), **bounds)
    assert (task.spec.episode_length, task.spec.action) == (10, Box(1))
    assert task.spec.observation.names[:2] == ("obs['position'][0]", "obs['position'][1]")
    assert task.bin_of(task.reset(KEY)).min() >= 0
    steps = [task.step(np.ones((2, 1), np.float32), KEY) for _ in range(11)]
    assert [bool(step.truncated.any()) for step in steps] == [False] * 9 + [True, False]
    assert not any(step.terminated.any() for step in steps)


def test_a_repeated_action_is_paid_for_every_time() -> None:
    from dm_control import suite

    task = dmc("cartpole-balance-repeat3")
    task.reset(KEY)
    inner = task.envs[0].unwrapped.env
    reference = suite.load("cartpole", "balance", task_kwargs={"random": 1})
    reference.reset()
    with reference.physics.reset_context():
        reference.physics.set_state(inner.physics.get_state())
    step = task.step(np.array([[0.5]], np.float32), KEY)
    paid = [reference.step([0.5]).reward for _ in range(3)]
    np.testing.assert_allclose(step.reward, sum(paid), rtol=1e-6)


def test_the_key_seeds_dm_control() -> None:
    first, again, other = (dmc("cheetah-run").reset(key) for key in (KEY, KEY, jax.random.key(1)))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_task_that_dm_control_lacks_is_refused_with_the_nearest() -> None:
    pytest.importorskip("dm_control")
    for name in ("dmc:cheetah-runn", "dmc:cheetah-run-repeat0"):
        with pytest.raises(UserError, match=r"did you mean dmc:cheetah-run\?") as refused:
            factory_of(name)
        assert "walker" not in str(refused.value)  # nor the other fifty tasks
    with pytest.raises(UserError, match=r"dmc:walker-walk.*choose one of them"):
        factory_of("dmc:xyz")


def test_minigrid_shows_cells_within_fitting_bounds_and_no_text() -> None:
    pytest.importorskip("minigrid")
    task = gymnasium_task(GymnasiumSettings("MiniGrid-Empty-5x5-v0"), 1)
    assert (task.spec.action, task.spec.episode_length) == (Choice(7), 100)
    assert task.spec.observation.size == 7 * 7 * 3 + 4
    assert max(task.spec.observation.high) < 20
    assert check_env("MiniGrid-DoorKey-5x5-v0").ok
