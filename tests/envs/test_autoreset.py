"""Stored transitions equal a reference written by hand, whatever an environment does at an end."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from diary import ENDS, Diary, DiaryVector
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from devote.core.errors import EnvironmentFailedError, UserError
from devote.core.types import HostEnv
from devote.envs.gymnasium import GymnasiumSettings, from_factory, from_vector
from devote.envs.vector import GymnasiumList

SETTINGS = GymnasiumSettings(reports_success=True)
KEY = jax.random.key(0)


class Row(NamedTuple):
    """What a replay would store, and how the step ended."""

    obs: tuple[int, int]
    next_obs: tuple[int, int]
    reward: float
    terminated: bool
    truncated: bool


REFERENCE = {
    "terminate": [
        Row((1, 0), (1, 1), 101, False, False),
        Row((1, 1), (1, 2), 102, False, False),
        Row((1, 2), (1, 3), 103, True, False),
        Row((2, 0), (2, 1), 201, False, False),
        Row((2, 1), (2, 2), 202, False, False),
        Row((2, 2), (2, 3), 203, True, False),
    ],
    "truncate": [
        Row((1, 0), (1, 1), 101, False, False),
        Row((1, 1), (1, 2), 102, False, True),
        Row((2, 0), (2, 1), 201, False, False),
        Row((2, 1), (2, 2), 202, False, True),
        Row((3, 0), (3, 1), 301, False, False),
        Row((3, 1), (3, 2), 302, False, True),
    ],
    "both": [
        Row((1, 0), (1, 1), 101, False, False),
        Row((1, 1), (1, 2), 102, False, False),
        Row((1, 2), (1, 3), 103, False, False),
        Row((1, 3), (1, 4), 104, True, True),
        Row((2, 0), (2, 1), 201, False, False),
        Row((2, 1), (2, 2), 202, False, False),
    ],
}


def pair(obs: np.ndarray) -> tuple[int, int]:
    return (int(obs[0]), int(obs[1]))


def stored(task: HostEnv) -> dict[str, list[Row]]:
    """What a loop stores of each environment; HostSteps are read late, to betray shared memory."""
    obs, steps = [task.reset(KEY)], []
    for _ in range(9):
        steps.append(task.step(np.zeros((task.num_envs, 1), np.float32), KEY))
        obs.append(steps[-1].obs)
    rows: dict[str, list[Row]] = {end: [] for end in ENDS}
    for before, step in zip(obs, steps, strict=False):
        for i, end in enumerate(ENDS):
            flags = bool(step.terminated[i]), bool(step.truncated[i])
            if step.valid[i]:
                row = Row(pair(before[i]), pair(step.next_obs[i]), float(step.reward[i]), *flags)
                rows[end].append(row)
                assert step.success[i] == any(flags)
            else:
                assert step.reward[i] == 0
                assert not any(flags)
                assert not step.success[i]
    return {end: entries[:6] for end, entries in rows.items()}


def vectors(kind: type, **options: Any) -> Callable[[AutoresetMode], Any]:
    return lambda mode: kind([partial(Diary, end) for end in ENDS], autoreset_mode=mode, **options)


KINDS = {
    "sync": vectors(SyncVectorEnv),
    "sync without copies": vectors(SyncVectorEnv, copy=False),
    "async": vectors(AsyncVectorEnv, context="forkserver"),
    "custom": DiaryVector,
}


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("kind", KINDS)
def test_vector_environments_store_the_reference(kind: str, mode: AutoresetMode) -> None:
    task = from_vector(KINDS[kind](mode), SETTINGS)
    try:
        assert stored(task) == REFERENCE
    finally:
        task.close()


@pytest.mark.parametrize(("final", "whole"), [("final_observation", True), ("final_obs", False)])
def test_older_and_other_forms_of_the_last_observation(final: str, whole: bool) -> None:
    task = from_vector(DiaryVector(AutoresetMode.SAME_STEP, final, whole), SETTINGS)
    assert stored(task) == REFERENCE


@pytest.mark.parametrize("aliased", [False, True])
def test_environments_stepped_by_ourselves_store_the_reference(aliased: bool) -> None:
    one = from_factory(lambda: Diary("both"), replace(SETTINGS, time_limit=100), 1)
    assert isinstance(one, GymnasiumList)
    task = GymnasiumList(one.task, [Diary(end, aliased) for end in ENDS])
    assert stored(task) == REFERENCE


def test_dead_steps_are_marked_and_nothing_else() -> None:
    task = from_vector(DiaryVector(AutoresetMode.NEXT_STEP), SETTINGS)
    task.reset(KEY)
    valid = [task.step(np.zeros((3, 1)), KEY).valid.tolist() for _ in range(6)]
    assert valid == [
        [True, True, True],
        [True, True, True],
        [True, False, True],
        [False, True, True],
        [True, True, False],
        [True, False, True],
    ]


@pytest.mark.parametrize("said", [None, "sometimes"])
def test_an_unknown_mode_is_refused(said: Any) -> None:
    with pytest.raises(UserError, match=r"autoreset_mode.*NEXT_STEP.*got.*set metadata"):
        from_vector(DiaryVector(said), SETTINGS)


def test_the_last_observation_must_be_there() -> None:
    task = from_vector(DiaryVector(AutoresetMode.SAME_STEP, "elsewhere"), SETTINGS)
    task.reset(KEY)
    task.step(np.zeros((3, 1)), KEY)
    with pytest.raises(EnvironmentFailedError, match=r"vector step 2;(?s:.)*final_obs.*elsewhere"):
        task.step(np.zeros((3, 1)), KEY)


def test_our_time_limit_truncates_and_starts_again() -> None:
    task = from_factory(lambda: Diary("both"), GymnasiumSettings(time_limit=2), 1)
    task.reset(KEY)
    steps = [task.step(np.zeros((1, 1)), KEY) for _ in range(3)]
    assert [bool(step.truncated[0]) for step in steps] == [False, True, False]
    assert not any(step.terminated[0] for step in steps)
    assert [pair(step.next_obs[0]) for step in steps] == [(1, 1), (1, 2), (2, 1)]
    assert pair(steps[1].obs[0]) == (2, 0)
