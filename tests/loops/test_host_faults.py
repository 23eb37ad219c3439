"""Environments that raise, hang or return nonsense: reported, and nothing of it is learned from."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces
from hosts import ENVS, Faulty, counters, hangs, program, raises, with_nan_reward
from scripted import Counter

from devote.core.errors import EnvironmentFailedError, UserError
from devote.core.guard import Guard
from devote.core.types import HostStep
from devote.core.worker import Worker
from devote.envs.gymnasium import GymnasiumSettings, from_factory
from devote.loops.host import SeedEnvs
from devote.loops.metrics_log import read
from devote.loops.progress import Reporter
from devote.loops.run_dir import METRICS, Store
from devote.loops.train import Plan, Training, train

FAULT = 30  # vector step, counted from 1; in the first chunk, which starts after 4


def run_into(what: Callable[[HostStep], HostStep], directory: Path, **changes) -> None:
    run = program(partial(Faulty, at=FAULT, what=what), **changes)
    train(Plan(run, 10_000, directory, {}), silent=True)


def saved(directory: Path, **changes):
    """What a resumed run starts from."""
    run = program(counters, **changes)
    plan = Plan(run, 0, directory, {})
    return train(plan, silent=True)


@pytest.mark.parametrize("overlap", [False, True])
def test_a_failure_names_seed_step_action_and_words_and_keeps_all_before_it(
    tmp_path, overlap
) -> None:
    with pytest.raises(EnvironmentFailedError) as failure:
        run_into(raises, tmp_path, overlap=overlap)
    words = str(failure.value)
    assert f"one of the {ENVS} environments counter of seed 0" in words
    assert f"vector step {FAULT - 1}; last action [[" in words
    assert "the floor is missing" in words
    assert 'raise ZeroDivisionError("the floor is missing")' in words  # its own traceback
    result = saved(tmp_path, overlap=overlap)
    assert result.step == ENVS * (FAULT - 1)
    assert np.asarray(result.state.worlds.written).tolist() == [FAULT - 1] * ENVS
    stored = np.asarray(result.state.replay.next_obs)
    assert (stored[: FAULT - 1, :, 0] > 0).all()
    assert (stored[FAULT - 1 :] == 0).all()


def test_after_a_failure_the_environments_start_again_and_the_run_says_so(tmp_path, capsys) -> None:
    with pytest.raises(EnvironmentFailedError):
        run_into(raises, tmp_path)
    result = train(Plan(program(), 200, tmp_path, {}))
    said = " ".join(capsys.readouterr().out.split())
    assert "environments start new episodes" in said
    assert np.asarray(result.state.replay.first)[FAULT - 1].all()
    assert result.step == ENVS * (FAULT - 1 + 36)


@pytest.mark.parametrize("overlap", [False, True])
def test_learning_on_after_a_caught_failure_starts_new_episodes(overlap) -> None:
    run = program(partial(Faulty, at=FAULT, what=raises), overlap=overlap)
    training = Training(run, Reporter(10_000, silent=True), Store())
    training.begin()
    with pytest.raises(EnvironmentFailedError):
        training.advance()
    failed = int(training.state.clock.vector_steps)
    with pytest.warns(UserWarning, match="start new episodes"):
        training.advance()
    replay = jax.tree.map(np.asarray, training.state.replay)
    assert replay.first[failed].all()
    # Counter counts, so a successor that is not one more was stored of another world.
    np.testing.assert_array_equal(replay.next_obs[..., 0], replay.obs[..., 0] + 1)
    np.testing.assert_array_equal(replay.first, replay.obs[..., 0] == 0)


def test_a_hang_is_reported_with_the_place_where_it_hangs(tmp_path) -> None:
    start = time.monotonic()
    with pytest.raises(EnvironmentFailedError, match=r"nothing for 6 s.*\n(.*\n)*.*in hangs"):
        run_into(hangs, tmp_path, env_timeout=6)
    assert time.monotonic() - start < 60
    assert saved(tmp_path, env_timeout=6).step == ENVS * (FAULT - 1)


class Sleepy(gymnasium.Env):
    """Stops answering in its third step, if it is told to."""

    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Box(-1, 1, (1,))

    def __init__(self, sleeps: bool) -> None:
        self.sleeps, self.count = sleeps, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        if self.sleeps and self.count == 3:
            time.sleep(60)
        return np.zeros(2, np.float32), 0.0, False, False, {}


def test_a_hang_in_one_of_several_environments_names_it_and_its_own_action() -> None:
    sleeps = iter([False, True])
    settings = GymnasiumSettings(time_limit=50)
    env = from_factory(lambda: Sleepy(next(sleeps)), settings, 2)
    worker = Worker(1.0)
    seeds = SeedEnvs((env,), ["seed 0"], worker)
    keys = jax.random.split(jax.random.key(0), 5)
    worker.run(lambda: seeds.reset((keys[0],)))
    action = np.array([[0.25], [0.5]], np.float32)
    with pytest.raises(EnvironmentFailedError) as failure:
        worker.run(lambda: [seeds.step(0, action, key, t) for t, key in enumerate(keys)])
    words = str(failure.value)
    assert words.startswith("environment 1 (<Sleepy instance>), one of the 2 environments Sleepy")
    assert "failed in step 3, vector step 2; last action [0.5];" in words


def test_nonsense_is_refused_before_it_is_stored(tmp_path) -> None:
    with pytest.raises(UserError, match=r"a finite reward; got nan from environment 2 .* 29 of"):
        run_into(with_nan_reward, tmp_path)
    state = saved(tmp_path).state
    assert state.clock.vector_steps == FAULT - 1
    assert np.isfinite(state.replay.reward).all()


def test_a_failing_evaluation_stops_the_run_with_everything_saved(tmp_path) -> None:
    def make(num_envs: int) -> Faulty:
        return Faulty(num_envs, 2 if num_envs == 20 else 10_000, raises)

    with pytest.raises(EnvironmentFailedError, match="environments counter of an evaluation"):
        train(Plan(program(make, eval_interval=1), 10_000, tmp_path, {}), silent=True)
    assert saved(tmp_path).step == ENVS * 40  # the whole chunk before it
    assert read(tmp_path / METRICS)["step"].tolist() == [ENVS * 40]


def sound_step() -> HostStep:
    """A step of two environments as it should be."""
    flags = np.zeros(2, bool)
    obs, number = np.zeros((2, 2), np.float32), np.zeros(2, np.float32)
    terms = {"prize": number, "age": number}
    return HostStep(obs, obs, number, flags, flags, flags, terms, ~flags)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"reward": np.zeros(2)}, "reward: float32 of shape .2,.; got float64 of shape"),
        ({"reward": np.zeros((2, 1), np.float32)}, "got float32 of shape .2, 1."),
        ({"reward": [0.0, 0.0]}, "got list in"),
        ({"reward": np.array([0, -np.inf], np.float32)}, "finite reward; got -inf from environ"),
        ({"next_obs": np.zeros((2, 3), np.float32)}, "float32 of shape .2, 2.; got float32 of s"),
        (
            {"obs": np.array([[0, 0], [np.nan, 0]], np.float32)},
            "0; got nan from environment 1",
        ),
        ({"terminated": np.zeros(2, int)}, "terminated: bool of shape .2,.; got int64"),
        ({"valid": None}, "valid: bool .* got NoneType"),
        ({"terms": {}}, "reward terms .'prize', 'age'.; got .. in vector"),
    ],
)
def test_what_a_step_returns_is_held_to_its_type(change, words) -> None:
    guard, action = Guard(Counter.spec), np.zeros((2, 1))
    guard.step(sound_step(), action, "vector step 3")
    with pytest.raises(UserError, match=words) as error:
        guard.step(sound_step()._replace(**change), action, "vector step 3")
    assert "in vector step 3" in str(error.value)
    assert "check-env" in str(error.value)


def test_what_means_nothing_is_not_looked_at() -> None:
    step = sound_step()
    step.valid[0], step.reward[0] = False, np.nan
    lost = np.array([[np.nan, 0], [0, 0]], np.float32)
    Guard(Counter.spec).step(step._replace(next_obs=lost), np.zeros((2, 1)), "vector step 3")
