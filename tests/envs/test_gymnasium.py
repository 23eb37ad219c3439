"""Gymnasium tasks by id, by factory and as objects: seeds, limits, resume, coverage, failures."""

import os
import signal
import sys
import threading
import time
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from diary import Diary, DiaryVector
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from devote.core.errors import EnvironmentFailedError, UserError
from devote.core.guard import Guard
from devote.core.types import Box, Choice, Index
from devote.core.worker import Worker
from devote.envs.gymnasium import (
    GymnasiumSettings,
    from_env,
    from_factory,
    from_vector,
    gymnasium_task,
    require_env,
)
from devote.envs.mujoco import CartpoleSettings
from devote.envs.naming import Registered, factory_of, import_factory
from devote.envs.vector import end_workers, silent

KEY, OTHER = jax.random.key(0), jax.random.key(1)
LIMITED = GymnasiumSettings(time_limit=50)


def test_a_task_by_its_id() -> None:
    task = gymnasium_task(GymnasiumSettings("MountainCarContinuous-v0"), 3)
    assert task.spec.name == "MountainCarContinuous-v0"
    assert (task.spec.episode_length, task.num_envs) == (999, 3)
    assert task.spec.action == Box(1)
    assert task.spec.observation.own_units
    obs = task.reset(KEY)
    assert obs.shape == (3, 2)
    assert len(np.unique(obs[:, 0])) == 3, "environments start alike"
    step = task.step(np.ones((3, 1), np.float32), KEY)
    assert (step.next_obs[:, 1] > obs[:, 1]).sum() >= 1
    for array in (step.reward, step.next_obs, step.obs):
        assert array.dtype == np.float32


def test_an_integer_task_counts_coverage_by_itself() -> None:
    task = gymnasium_task(GymnasiumSettings("CliffWalking-v1"), 2)
    assert (task.spec.observation, task.spec.action) == (Index(48), Choice(4))
    assert task.bin_of(task.reset(KEY)).tolist() == [36, 36]
    assert task.spec.grid is not None
    assert task.spec.grid.size == 48


def test_the_key_decides_the_episodes() -> None:
    def walk(key: Any) -> np.ndarray:
        task = gymnasium_task(GymnasiumSettings("Pendulum-v1", time_limit=3), 2)
        first = task.reset(key)
        rest = [task.step(np.zeros((2, 1)), KEY).obs for _ in range(8)]  # two resets within
        return np.stack([first, *rest])

    np.testing.assert_array_equal(walk(KEY), walk(KEY))
    assert not np.allclose(walk(KEY)[0], walk(OTHER)[0])
    assert not np.allclose(walk(KEY)[3], walk(OTHER)[3])


def test_actions_arrive_in_the_bounds_of_the_task() -> None:
    diary = Diary("both")
    task = from_env(diary, LIMITED)
    assert task.num_envs == 1
    task.reset(KEY)
    for value in (-1.0, 0.0, 1.0):
        task.step(np.array([[value]], np.float32), KEY)
    assert [float(action[0]) for action in diary.actions] == [-2.0, 2.0, 6.0]


def test_a_time_limit_of_the_users_own_wrapper_is_a_truncation() -> None:
    env = gymnasium.make("MountainCarContinuous-v0", max_episode_steps=2)
    task = from_env(env, GymnasiumSettings())
    assert task.spec.episode_length == 2
    task.reset(KEY)
    task.step(np.zeros((1, 1)), KEY)
    step = task.step(np.zeros((1, 1)), KEY)
    assert step.truncated[0]
    assert not step.terminated[0]


def test_a_time_limit_around_an_environment_without_a_spec_is_seen() -> None:
    def limited() -> gymnasium.Env:
        inner = gymnasium.wrappers.TimeLimit(Diary("both"), 5_000)
        return gymnasium.wrappers.OrderEnforcing(inner)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert from_env(limited(), GymnasiumSettings()).spec.episode_length == 5_000
        vector = SyncVectorEnv([limited])
        assert from_vector(vector, GymnasiumSettings()).spec.episode_length == 5_000
        task = from_factory(limited, GymnasiumSettings(), 1)
        assert task.spec.episode_length == 5_000


def test_a_time_limit_that_an_environment_keeps_itself_is_seen() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        task = gymnasium_task(GymnasiumSettings("devote/CartpoleSwingup-v0"), 1)
        assert task.spec.episode_length == CartpoleSettings().episode_length
        vector = gymnasium.make_vec("devote/CartpoleSwingup-v0", num_envs=2)
        limit = from_vector(vector, GymnasiumSettings()).spec.episode_length
        assert limit == CartpoleSettings().episode_length


def test_a_time_limit_for_a_vector_environment_is_refused() -> None:
    with pytest.raises(UserError, match="no time_limit for a vector environment; got 50"):
        from_vector(DiaryVector(AutoresetMode.NEXT_STEP), LIMITED)


def test_a_factory_must_make_new_environments() -> None:
    env = Diary("both")
    with pytest.raises(UserError, match="the same Diary again; return a new environment at each"):
        from_factory(lambda: gymnasium.wrappers.OrderEnforcing(env), LIMITED, 2)


def test_one_environment_is_not_given_to_training_and_to_evaluation() -> None:
    env = Diary("both")
    training = from_factory(lambda: env, LIMITED, 1)
    with pytest.raises(UserError, match="the same Diary again; return a new environment at each"):
        from_factory(lambda: env, LIMITED, 1)
    training.close()


@pytest.mark.parametrize("workers", [False, True])
@pytest.mark.parametrize(
    ("made", "words"),
    [
        (None, "got builtins.NoneType; return an instance"),
        (DiaryVector(AutoresetMode.NEXT_STEP), "DiaryVector; .* pass the vector environment"),
    ],
)
def test_a_factory_must_make_one_environment(made: Any, words: str, workers: bool) -> None:
    settings = GymnasiumSettings(time_limit=50, workers=workers)
    with pytest.raises(UserError, match=f"a gymnasium.Env from the factory.*{words}"):
        from_factory(lambda: made, settings, 2)


def test_an_environment_that_can_save_itself_resumes_exactly() -> None:
    def fresh() -> Any:
        return from_factory(lambda: Diary("both"), GymnasiumSettings(time_limit=3), 2)

    def play(task: Any, steps: int) -> np.ndarray:
        return np.stack([task.step(np.zeros((2, 1)), KEY).obs for _ in range(steps)])

    whole, first, second = fresh(), fresh(), fresh()
    whole.reset(KEY)
    expected = play(whole, 7)[5:]
    first.reset(KEY)
    play(first, 5)
    saved = first.save()
    second.restore(saved)
    np.testing.assert_array_equal(play(second, 2), expected)


def test_an_environment_that_cannot_says_so() -> None:
    assert gymnasium_task(GymnasiumSettings("Pendulum-v1"), 1).save() is None
    wrapped = gymnasium.wrappers.TimeLimit(Diary("both"), 9)
    assert from_env(wrapped, LIMITED).save() is None  # the wrapper has a count of its own
    assert from_vector(DiaryVector(AutoresetMode.NEXT_STEP), GymnasiumSettings()).save() is None


def test_coverage_over_chosen_entries() -> None:
    settings = GymnasiumSettings("MountainCarContinuous-v0", coverage_entries=(0, 1))
    task = gymnasium_task(settings, 1)
    grid = task.spec.grid
    assert grid is not None
    assert grid.shape == (20, 20)
    assert grid.centers is not None
    np.testing.assert_array_equal(task.bin_of(grid.centers), np.arange(400))
    low_left = np.float32([[-1.19, -0.069]])
    assert task.bin_of(low_left) == 19 * 20, "row 0 is on top"
    assert task.bin_of(np.float32([[0.0, 0.08]])) == -1
    with pytest.raises(UserError, match="coverage_entries from 0 to 1"):
        gymnasium_task(GymnasiumSettings(coverage_entries=(2,)), 1)
    with pytest.raises(UserError, match="set coverage_low and coverage_high"):
        gymnasium_task(GymnasiumSettings("CartPole-v1", coverage_entries=(1,)), 1)


def test_success_is_read_from_info() -> None:
    task = from_factory(lambda: Diary("truncate"), LIMITED, 1)
    task.reset(KEY)
    assert [bool(task.step(np.zeros((1, 1)), KEY).success[0]) for _ in range(2)] == [False, True]


def test_names() -> None:
    with pytest.raises(UserError, match="MountainCar"):
        factory_of("MountianCar-v0")
    assert isinstance(import_factory("diary:DiaryVector"), type)
    with pytest.raises(UserError, match="a module nowhere_at_all"):
        import_factory("nowhere_at_all:Env")
    with pytest.raises(UserError, match="Missing in diary"):
        import_factory("diary:Missing")
    with pytest.raises(UserError, match="a class or function"):
        import_factory("diary:ENDS")


def test_nothing_is_imported_because_a_setting_names_it(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("trap:Env", "trap:CartPole-v1"):
        with pytest.raises(UserError, match="name it yourself"):
            gymnasium_task(GymnasiumSettings(name), 1)
    assert "trap" not in sys.modules


def test_things_that_are_no_environment_are_refused() -> None:
    with pytest.raises(UserError, match=r"Gymnasium id.*builtins.int"):
        require_env(3)


class Broken(gymnasium.Env):
    """Does something wrong in its third step."""

    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Discrete(2)

    def __init__(self, kind: str = "raise") -> None:
        self.kind, self.count = kind, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if self.kind == "reset":
            raise RuntimeError("cannot start")
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        obs: Any = np.zeros(2, np.float32)
        result = [obs, 0.0, False, False, {}]
        if self.count < 3:
            return tuple(result)
        match self.kind:
            case "raise":
                raise ZeroDivisionError("wheels came off")
            case "leave":
                raise SystemExit("out of here")
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                time.sleep(60)
            case "nan":
                result[0] = np.float32([0, np.nan])
            case "shape":
                result[0] = np.zeros(3)
            case "reward":
                result[1] = np.inf
            case "rewards":
                result[1] = np.zeros(1)
            case "none":
                result[1] = None
            case "flag":
                result[2] = 1
            case "info":
                result[4] = None
            case "four":
                result = result[:4]
        return tuple(result)


def test_a_registered_environment_need_not_take_a_render_mode(monkeypatch: Any) -> None:
    name = "tests/Broken-v0"
    monkeypatch.setitem(gymnasium.registry, name, EnvSpec(name, Broken, max_episode_steps=5))
    assert gymnasium_task(GymnasiumSettings(name), 1).spec.episode_length == 5
    with pytest.raises(UserError, match=rf"{name} to take a render_mode;.*or use --map"):
        Registered(name, "rgb_array")()


def test_the_traceback_of_a_failure_begins_in_the_environment() -> None:
    task = from_factory(partial(Broken, "raise"), LIMITED, 1)
    with pytest.raises(EnvironmentFailedError) as caught:
        play(task)
    assert "wheels came off" in str(caught.value)
    assert "vector.py" not in str(caught.value)


def test_an_environment_that_cannot_be_made_is_reported_in_its_own_words() -> None:
    with pytest.raises(EnvironmentFailedError, match=r"(?s)construction;.*in __init__.*wheels off"):
        from_factory(Unmakeable, LIMITED, 2)


class Unmakeable(gymnasium.Env):
    def __init__(self) -> None:
        raise OSError("wheels off")


WORDS = {
    "raise": "ZeroDivisionError: wheels came off",
    "leave": "SystemExit: out of here",
    "shape": r"shape \(2,\)",
    "rewards": "one number",
    "none": "one number",
    "flag": "terminated to be True or False",
    "info": "info to be a dict",
    "four": "5 values",
}


NUMBERS = {"nan": r"finite observations at obs\[1\]; got nan", "reward": "a finite reward; got inf"}


def play(task: Any) -> None:
    """As the loop does it."""
    guard, action = Guard(task.spec), np.eye(2, dtype=np.float32)[: task.num_envs]
    guard.obs(task.reset(KEY), task.num_envs, "reset")
    for number in range(1, 5):
        guard.step(task.step(action, KEY), action, f"vector step {number}")


@pytest.mark.parametrize("kind", WORDS)
def test_a_failure_names_environment_step_action_and_words(kind: str) -> None:
    kinds = iter(["fine", kind])
    task = from_factory(lambda: Broken(next(kinds)), LIMITED, 2)
    with pytest.raises(EnvironmentFailedError, match=f"(?s){WORDS[kind]}") as caught:
        play(task)
    text = str(caught.value)
    assert text.startswith("environment 1 (")
    assert "step 3" in text
    assert "last action 1;" in text


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_that_cannot_be_learned_from_name_environment_step_and_action(
    kind: str, vector: bool
) -> None:
    kinds = iter(["fine", kind])
    task = (
        from_vector(SyncVectorEnv([lambda: Broken(next(kinds))] * 2), GymnasiumSettings())
        if vector
        else from_factory(lambda: Broken(next(kinds)), LIMITED, 2)
    )
    name = "SyncVectorEnv" if vector else "Broken"
    where = f"from environment 1 of {name} in vector step 3 after choice 1"
    with pytest.raises(UserError, match=f"{NUMBERS[kind]} {where}; look for"):
        play(task)


@pytest.mark.parametrize("kind", ["raise", "leave"])
def test_a_failure_in_a_users_vector_environment_is_named_too(kind: str) -> None:
    envs = SyncVectorEnv([partial(Broken, each) for each in ("fine", kind)])
    with pytest.raises(EnvironmentFailedError, match=f"(?s){WORDS[kind]}") as caught:
        play(from_vector(envs, GymnasiumSettings()))
    text = str(caught.value)
    assert text.startswith("environment 1 failed in ")
    assert "vector step 3" in text
    assert "last action 1;" in text


class Told(VectorEnv):
    """Two environments that return what they are told to in step 2, where the second ends."""

    metadata: ClassVar = {"autoreset_mode": AutoresetMode.SAME_STEP}
    num_envs = 2
    single_action_space = spaces.Discrete(2)

    def __init__(self, space: Any, start: Any, **said: Any) -> None:
        self.single_observation_space, self.start, self.said = space, start, said
        self.count = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.start, {}

    def step(self, actions: Any) -> Any:
        self.count += 1
        said = {"obs": self.start, "reward": np.zeros(2), "ends": np.zeros(2, bool), "info": {}}
        if self.count == 2:
            said |= self.said
        return said["obs"], said["reward"], said["ends"], np.zeros(2, bool), said["info"]


PLANE, FLOORS = spaces.Box(-1, 1, (2,)), spaces.Discrete(5)
ENDED = np.array([False, True])
NAN = np.array([[0, 0], [0, np.nan]], np.float32)
FAULTS: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "final_obs is missing one": (
        PLANE,
        0 * NAN,
        {"ends": ENDED, "info": {"final_obs": np.array([None, None])}},
        r"numbers of shape \(2,\)",
    ),
    "a shape": (PLANE, 0 * NAN, {"obs": [[0.0, 0.0], [0.0]]}, r"shape \(2,\).*shape \(1,\)"),
    "outside": (FLOORS, np.zeros(2, int), {"obs": np.array([0, 5])}, "inside Discrete"),
}
NONSENSE: dict[str, tuple[dict[str, Any], str]] = {
    "nan in final_obs": ({"ends": ENDED, "info": {"final_obs": NAN}}, r"obs\[1\]; got nan"),
    "reward": ({"reward": np.array([0, np.inf])}, "a finite reward; got inf"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_nonsense_from_a_vector_environment_is_named(fault: str) -> None:
    space, start, said, words = FAULTS[fault]
    with pytest.raises(EnvironmentFailedError, match=words) as caught:
        play(from_vector(Told(space, np.nan_to_num(start), **said), GymnasiumSettings()))
    assert "environment 1 failed in vector step 2; last action 1;" in str(caught.value)


@pytest.mark.parametrize("kind", NONSENSE)
def test_numbers_of_a_vector_environment_are_looked_at(kind: str) -> None:
    said, words = NONSENSE[kind]
    with pytest.raises(
        UserError, match=f"{words} from environment 1 of Told in vector step 2 after"
    ):
        play(from_vector(Told(PLANE, np.nan_to_num(NAN), **said), GymnasiumSettings()))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"reward": np.zeros(3)}, "2 rewards; got float64 of shape .3,."),
        ({"ends": np.zeros(2)}, "2 booleans terminated; got float64"),
        ({"obs": np.zeros((3, 2))}, "numbers of shape .2,."),
        ({"info": [{}, {}]}, "info to be a dict; got list; .*DictInfoToList"),
    ],
)
def test_a_batch_of_another_size_is_told_with_its_step(said: Any, words: str) -> None:
    start = np.zeros((2, 2), np.float32)
    with pytest.raises(EnvironmentFailedError, match=f"(?s)vector step 2; last action.*{words}"):
        play(from_vector(Told(PLANE, start, **said), GymnasiumSettings()))


def test_a_failure_to_start_is_told_apart() -> None:
    task = from_factory(lambda: Broken("reset"), LIMITED, 1)
    with pytest.raises(EnvironmentFailedError, match=r"(?s)environment 0.*reset.*cannot start"):
        task.reset(KEY)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("raise", "environment [01] .*step 3.*last action [01].*wheels came off"),
        ("kill", "environment 0 .its process ended with exit code -9.*step"),
        ("hang", "environment 0, environment 1.*step 3.*nothing for 2.0 s"),
    ],
)
def test_workers_that_fail_die_or_hang_are_named(kind: str, words: str) -> None:
    settings = GymnasiumSettings(time_limit=50, workers=True, worker_timeout=2.0)
    task = from_factory(partial(Broken, kind), settings, 2)
    try:
        with pytest.raises(EnvironmentFailedError, match=f"(?s){words}"):
            play(task)
    finally:
        task.close()


def test_wrappers_do_not_hide_a_worker_that_died() -> None:
    workers = [partial(Broken, kind) for kind in ("fine", "kill")]
    inner = AsyncVectorEnv(workers, context="spawn")
    task = from_vector(RecordEpisodeStatistics(inner), GymnasiumSettings())
    try:
        with pytest.raises(EnvironmentFailedError, match=r"environment 1 .*exit code -9"):
            play(task)
        closing = threading.Thread(target=task.close, daemon=True)
        closing.start()
        closing.join(20)
        assert inner.closed
    finally:
        end_workers(inner)


def test_only_workers_that_owe_an_answer_are_called_silent() -> None:
    workers = [partial(Broken, kind) for kind in ("fine", "hang")]
    envs = AsyncVectorEnv(workers, context="spawn")
    try:
        envs.reset()
        for _ in range(2):
            envs.step(np.zeros(2, int))
        envs.step_async(np.zeros(2, int))
        assert envs.parent_pipes[0].poll(10)
        assert silent(envs) == "environment 1"
    finally:
        end_workers(envs)


def test_workers_give_what_the_list_gives() -> None:
    def walk(workers: bool) -> list[np.ndarray]:
        settings = GymnasiumSettings("Pendulum-v1", time_limit=3, workers=workers)
        task = gymnasium_task(settings, 2)
        task.reset(KEY)
        steps = [task.step(np.full((2, 1), 0.3), KEY) for _ in range(7)]
        task.close()
        return [np.stack(arrays) for arrays in zip(*(s[:5] for s in steps), strict=True)]

    for alone, apart in zip(walk(False), walk(True), strict=True):
        np.testing.assert_array_equal(alone, apart)


class Plain(gymnasium.Env):
    """Goes on for ever, or says so itself; observes what it is told to."""

    observation_space: Any = spaces.Box(-1, 1, (2,))
    action_space: Any = spaces.Discrete(2)

    def __init__(self, obs: Any = (0.0, 0.0), truncates: int = 10**9, limit: Any = None) -> None:
        self.obs, self.truncates, self.count = obs, truncates, 0
        if limit is not None:
            self.max_episode_steps = limit

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.count = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        return np.asarray(self.obs, np.float32), 0.0, False, self.count >= self.truncates, {}


def walk(task: Any, steps: int) -> None:
    task.reset(KEY)
    for _ in range(steps):
        task.step(np.eye(2, dtype=np.float32)[: task.num_envs], KEY)


def test_only_an_episode_that_we_cut_is_warned_of_and_once() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        walk(from_factory(partial(Plain, truncates=1000), GymnasiumSettings(), 1), 1001)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            walk(from_factory(Plain, GymnasiumSettings(), 2), 2001)
    assert [str(each.message) for each in said if "time limit" in str(each.message)] == [
        "Plain declares no time limit: its episodes are truncated after 1,000 steps; "
        "set time_limit to change that"
    ]


@pytest.mark.parametrize("limit", [-5, 0, True, 2.5])
def test_a_time_limit_that_is_none_is_refused_by_name(limit: Any, monkeypatch: Any) -> None:
    words = rf"max_episode_steps to be a whole number above 0; got {limit}"
    with pytest.raises(UserError, match=words):
        from_env(Plain(limit=limit), GymnasiumSettings())
    name = "tests/Plain-v0"
    monkeypatch.setitem(gymnasium.registry, name, EnvSpec(name, Plain, max_episode_steps=limit))
    with pytest.raises(UserError, match=words):
        gymnasium_task(GymnasiumSettings(name), 1)


@pytest.mark.parametrize("name", ["observation_space", "action_space"])
def test_environments_of_a_factory_have_the_same_bounds(name: str) -> None:
    sizes = iter([1.0, 1.0, 2.0])

    def make() -> Plain:
        env, size = Plain(), next(sizes)
        setattr(env, name, spaces.Box(-size, size, (2,)))
        return env

    words = rf"one {name} from every.*Box\(-2.* in environment 2, Box\(-1.*environment 0"
    with pytest.raises(UserError, match=words):
        from_factory(make, LIMITED, 3)


@pytest.mark.parametrize("name", ["observation_space", "action_space"])
def test_an_environment_without_a_space_is_named(name: str) -> None:
    env = Plain()
    setattr(env, name, None)
    with pytest.raises(UserError, match=f"{name} of Plain to be a gymnasium Space; got NoneType"):
        from_env(env, LIMITED)
    with pytest.raises(UserError, match="Env to have an attribute observation_space"):
        from_env(gymnasium.Env(), LIMITED)


@pytest.mark.parametrize(("far", "fine"), [(1.01, True), (1.9, True), (2.1, False), (255, False)])
def test_observations_far_outside_their_bounds_are_refused(far: float, fine: bool) -> None:
    task = from_factory(partial(Plain, obs=(0.0, far)), LIMITED, 2)
    if fine:
        play(task)
        return
    words = r"observations at obs\[1\] within or near their bounds, -1 to 1; got .* environment 0"
    with pytest.raises(UserError, match=words):
        play(task)


class Interrupts(Plain):
    def step(self, action: Any) -> Any:
        raise KeyboardInterrupt


@pytest.mark.parametrize("vector", [False, True])
def test_an_interrupt_of_the_environments_own_is_named_and_a_persons_is_not(vector: bool) -> None:
    def task() -> Any:
        if vector:
            return from_vector(SyncVectorEnv([Interrupts]), GymnasiumSettings())
        return from_factory(Interrupts, LIMITED, 1)

    with pytest.raises(KeyboardInterrupt):  # a signal reaches the main thread, and no other
        walk(task(), 1)
    with pytest.raises(EnvironmentFailedError, match=r"(?s)environment 0.*KeyboardInterrupt"):
        Worker(0).run(lambda: walk(task(), 1))


class Leaves(Plain):
    def step(self, action: Any) -> Any:
        os._exit(0)


def test_an_environment_that_would_end_the_run_is_named() -> None:
    task = from_factory(Leaves, LIMITED, 1)
    with pytest.raises(EnvironmentFailedError, match=r"(?s)environment 0.*os\._exit\(0\)"):
        Worker(0).run(lambda: walk(task, 1))


class LeavesWhenMade(Plain):
    def __init__(self) -> None:
        os._exit(0)


class LeavesInClose(Plain):
    def close(self) -> None:
        os._exit(0)


def test_one_that_ends_its_process_when_it_is_made_or_closed_is_named() -> None:
    with pytest.raises(EnvironmentFailedError, match=r"(?s)in construction.*os\._exit\(0\)"):
        from_factory(LeavesWhenMade, LIMITED, 1)
    task = from_factory(LeavesInClose, LIMITED, 1)
    with pytest.raises(EnvironmentFailedError, match=r"(?s)environment 0.*in close.*os\._exit"):
        Worker(0).run(task.close)


def test_a_worker_that_ends_its_process_quietly_is_named() -> None:
    settings = GymnasiumSettings(time_limit=50, workers=True, worker_timeout=20.0)
    task = from_factory(Leaves, settings, 1)
    try:
        with pytest.raises(EnvironmentFailedError, match=r"environment 0 .*exit code 0"):
            walk(task, 1)
    finally:
        task.close()


def test_integers_get_a_coverage_bin_for_each_value() -> None:
    """A world of 2 x 31 cells is covered when every cell was seen."""

    class Cells(Plain):
        observation_space = spaces.Box(np.array([0, 0]), np.array([1, 30]), dtype=np.int64)

    task = from_factory(Cells, GymnasiumSettings(time_limit=9, coverage_entries=(0, 1)), 1)
    grid = task.spec.grid
    assert grid is not None
    assert grid.shape == (31, 2)
    assert grid.extent == (-0.5, 1.5, -0.5, 30.5)
    cells = np.stack(np.meshgrid([0, 1], np.arange(31)), -1).reshape(-1, 2).astype(np.float32)
    assert sorted(task.bin_of(cells).tolist()) == list(range(62))
    np.testing.assert_array_equal(task.bin_of(grid.centers), np.arange(62))
    wide = GymnasiumSettings(time_limit=9, coverage_entries=(0,), coverage_high=(500.0,))
    assert from_factory(Cells, wide, 1).spec.grid.shape == (20,)  # too many for a bin each


def test_an_integer_that_is_one_hot_is_counted_by_its_values() -> None:
    class Dials(Plain):
        observation_space = spaces.MultiDiscrete([2, 31])

    settings = GymnasiumSettings(time_limit=9, coverage_entries=(0, 2))
    task = from_factory(Dials, settings, 1)
    assert task.spec.grid.shape == (31, 2)
    cells = np.stack(np.meshgrid([0, 1], np.arange(31)), -1).reshape(-1, 2)
    seen = task.task.observations.flatten(cells, 62)
    assert sorted(task.bin_of(seen).tolist()) == list(range(62))
    assert (task.spec.grid.bin_of(jnp.asarray(seen), jnp) == task.bin_of(seen)).all()
    with pytest.raises(UserError, match="name each entry once"):
        from_factory(Dials, replace(settings, coverage_entries=(2, 3)), 1)


def test_an_environment_is_made_with_options() -> None:
    icy, dry = (
        from_factory(
            factory_of("FrozenLake-v1"), GymnasiumSettings(env_options=options, time_limit=5), 1
        )
        for options in ((), ("is_slippery=false",))
    )
    slippery = [env.envs[0].unwrapped.P[0][2] for env in (icy, dry)]
    assert [len(ways) for ways in slippery] == [3, 1]
    for wrong in ("slippery=false", "is_slippery"):
        with pytest.raises(UserError):
            from_factory(factory_of("FrozenLake-v1"), GymnasiumSettings(env_options=(wrong,)), 1)
