"""`check_env` names what is wrong with each of many broken environments, and nothing else."""

import re
import time
from typing import Any

import gymnasium
import numpy as np
import pytest
from diary import DiaryVector
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from devote.core.errors import UserError
from devote.envs.check import check_env


class Sound(gymnasium.Env):
    """Nothing is wrong with it; what follows differs from it in one thing each."""

    def __init__(self) -> None:
        self.observation_space: Any = spaces.Box(-10, 10, (2,), np.float32)
        self.action_space: Any = spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        self.at = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.at.copy(), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        noise = self.np_random.normal(size=2)
        self.at = np.clip(self.at + 0.1 * action + 0.01 * noise, -10, 10).astype(np.float32)
        near = bool(np.abs(self.at).max() < 0.02)
        return self.at.copy(), float(-np.abs(self.at).sum()), near, self.count >= 50, {}


class NoObservationSpace(Sound):
    def __init__(self) -> None:
        super().__init__()
        del self.observation_space


class WordsAsObservation(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Text(5)


class SpaceIsAShape(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = (2,)


class InfiniteActions(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)


class EndlessActions(Sound):
    def __init__(self) -> None:
        super().__init__()
        most = float(np.finfo(np.float32).max)
        self.action_space = spaces.Box(-most, most, (2,), np.float32)


class WholeNumberActions(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Box(-1, 1, (2,), np.int32)


class OldReset(Sound):
    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


class ResetWithoutInfo(Sound):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed)[0]


class RaisesInReset(Sound):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        raise OSError("no such robot")


class Changed(Sound):
    """Puts something else in one place of what a step returns."""

    place, value = 0, None

    def step(self, action: Any) -> Any:
        result = list(super().step(action))
        if self.count > 20:
            result[self.place] = self.value
        return tuple(result)


def changed(place: int, value: Any) -> type[Changed]:
    return type("Changed", (Changed,), {"place": place, "value": value})


class OldStep(Sound):
    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated or truncated, info


class RaisesInStep(Sound):
    def step(self, action: Any) -> Any:
        result = super().step(action)
        if self.count == 30:
            raise ZeroDivisionError("wheels came off")
        return result


class LeavesInStep(Sound):
    def step(self, action: Any) -> Any:
        raise SystemExit("out of here")


class InterruptsInStep(Sound):
    def step(self, action: Any) -> Any:
        raise KeyboardInterrupt


class NegativeLimit(Sound):
    max_episode_steps = -5


class IndexInBetween(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return 1.7, {}


class TwoInABinary(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.MultiBinary(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.array([0, 2], np.int8), {}


class SameBuffer(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.page = np.zeros(2, np.float32)

    def step(self, action: Any) -> Any:
        obs, *rest = super().step(action)
        self.page[:] = obs
        return self.page, *rest


class BufferOfTheFirstStep(Sound):
    """What reset returned is what the first step writes to, and no later one."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.page, info = super().reset(seed=seed)
        return self.page, info

    def step(self, action: Any) -> Any:
        obs, *rest = super().step(action)
        if self.count == 1:
            self.page[:] = obs
        return obs, *rest


class WritesIntoTheAction(Sound):
    def step(self, action: Any) -> Any:
        result = super().step(action)
        action *= 2
        return result


class NeverEnds(Sound):
    def step(self, action: Any) -> Any:
        obs, reward, _, _, info = super().step(action)
        return obs, reward, False, False, info


class OwnDice(Sound):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.at = np.random.uniform(-1, 1, 2).astype(np.float32)
        return self.at.copy(), {}


class DiceInSteps(Sound):
    def step(self, action: Any) -> Any:
        obs, reward, *rest = super().step(action)
        return obs, reward + np.random.normal(), *rest


class AlwaysTheSameDraw(Sound):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed if seed is not None else 3)


class RaisesInClose(Sound):
    def close(self) -> None:
        raise OSError("will not close")


class MissingKey(Sound):
    def __init__(self) -> None:
        super().__init__()
        box = self.observation_space
        self.observation_space = spaces.Dict({"at": box, "goal": box})

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        obs, info = super().reset(seed=seed)
        return {"at": obs}, info

    def step(self, action: Any) -> Any:
        obs, *rest = super().step(action)
        return {"at": obs}, *rest


class OwnBounds(Sound):
    made = 0

    def __init__(self) -> None:
        super().__init__()
        OwnBounds.made += 1
        self.observation_space = spaces.Box(-10, 10 + OwnBounds.made, (2,), np.float32)


def shared() -> Any:
    """A factory that always gives the same environment."""
    env = Sound()
    return lambda: env


BROKEN = {
    "no observation space": (NoObservationSpace, "observation space", "set self.observation_space"),
    "text": (WordsAsObservation, "observation space", "Text"),
    "a shape for a space": (SpaceIsAShape, "observation space", "gymnasium.spaces"),
    "infinite actions": (InfiniteActions, "action space", "TransformAction"),
    "actions without an end": (EndlessActions, "action space", "make a difference"),
    "whole-number actions": (WholeNumberActions, "action space", "Discrete"),
    "reset without seed": (OldReset, "reset signature", "seed=None"),
    "reset without info": (ResetWithoutInfo, "reset result", "return obs, {}"),
    "raises in reset": (RaisesInReset, "runs", "no such robot"),
    "raises in a step": (RaisesInStep, "runs", "step 30 after action"),
    "leaves in a step": (LeavesInStep, "runs", "SystemExit: out of here"),
    "interrupts in a step": (InterruptsInStep, "runs", "KeyboardInterrupt"),
    "a negative time limit": (NegativeLimit, "time limit", "max_episode_steps to be"),
    "between two integers": (IndexInBetween, "observation shape", "got 1.7"),
    "two in a MultiBinary": (TwoInABinary, "observation shape", "got 2"),
    "four values": (OldStep, "step result", "4 values"),
    "shape": (changed(0, np.zeros(3, np.float32)), "observation shape", "shape (2,)"),
    "missing key": (MissingKey, "observation shape", "obs['goal']"),
    "dtype": (changed(0, np.zeros(2)), "observation dtype", "astype(np.float32)"),
    "nan": (changed(0, np.float32([0, np.nan])), "observation finite", "obs[1]"),
    "outside": (changed(0, np.float32([0, 11])), "observation in its space", "widen"),
    "far outside": (
        changed(0, np.float32([0, 99])),
        "observation in its space",
        "within their bounds, -10 to 10",
    ),
    "one buffer": (SameBuffer, "observation buffer", "obs.copy()"),
    "one buffer at the start": (BufferOfTheFirstStep, "observation buffer", "obs.copy()"),
    "action changed": (WritesIntoTheAction, "action buffer", "copy the action"),
    "reward is None": (changed(1, None), "step result", "float(reward)"),
    "reward is an array": (changed(1, np.zeros(1)), "step result", "shape (1,)"),
    "reward is nan": (changed(1, np.nan), "rewards", "finite reward"),
    "flag is an integer": (changed(2, 0), "step result", "bool(terminated)"),
    "truncated is a float": (changed(3, 1.0), "step result", "bool(truncated)"),
    "info is None": (changed(4, None), "step result", "return {}"),
    "never ends": (NeverEnds, "episodes end", "TimeLimit"),
    "own dice in reset": (OwnDice, "same seed", "in reset"),
    "own dice in steps": (DiceInSteps, "same seed", "by step 1"),
    "every reset alike": (AlwaysTheSameDraw, "reset draws anew", "seed is not None"),
    "raises in close": (RaisesInClose, "close", "will not close"),
    "bounds of its own": (OwnBounds, "second environment", "in environment 1, Box("),
    "one for all": (shared(), "second environment", "a new environment at each call"),
    "no environment at all": (dict, "construction", "gymnasium.Env"),
    "a factory without return": (lambda: None, "construction", "NoneType"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_environment_is_named_with_its_fix(case: str) -> None:
    kind, failure, words = BROKEN[case]
    report = check_env(kind)
    assert report.failures == (failure,), str(report)
    assert words in str(report)
    assert not report.ok


@pytest.mark.parametrize(("env", "seen"), [(RaisesInReset, False), (LeavesInStep, True)])
def test_of_what_never_happened_nothing_passes(env: type[Sound], seen: bool) -> None:
    verdicts = {finding.check: finding.verdict for finding in check_env(env).findings}
    assert verdicts["steps"] == "skip"
    assert not {"step result", "rewards", "episodes end"} & verdicts.keys()
    assert ("observation shape" in verdicts) == ("reset result" in verdicts) == seen


class NeedsAName(Sound):
    def __init__(self, name: str) -> None:
        super().__init__()


def test_an_exception_comes_with_what_was_expected_and_its_traceback() -> None:
    text = str(check_env(NeedsAName))
    assert "FAIL  construction: expected no exception; got TypeError: " in text
    assert "missing 1 required positional argument: 'name'; fix what raised it" in text
    assert "Traceback (most recent call last)" in text


class Hangs(Sound):
    def step(self, action: Any) -> Any:
        result = super().step(action)
        if self.count == 30:
            time.sleep(60)
        return result


class HangsInReset(Sound):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        time.sleep(60)


def construction_hangs() -> Any:
    time.sleep(60)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (Hangs, r"step 30; last action \[.*nothing for 0.5 s.*in step"),
        (HangsInReset, "reset; last action None.*in reset"),
        (construction_hangs, "construction; last action None.*in construction_hangs"),
        (lambda: SyncVectorEnv([Hangs]), "vector step 30;.*in step"),
    ],
)
def test_an_environment_that_hangs_is_given_up(env: Any, words: str) -> None:
    begun = time.monotonic()
    report = check_env(env, timeout=0.5)
    assert time.monotonic() - begun < 20
    assert report.failures == ("answers",)
    assert re.search(f"(?s)an answer within 0.5 s; got .* failed in {words}", str(report))


def test_a_sound_environment_passes_everything() -> None:
    for env in (Sound, Sound(), "CartPole-v1", "CliffWalking-v1"):
        report = check_env(env)
        assert report.ok, str(report)
        assert {finding.verdict for finding in report.findings} == {"pass"}


def test_remarks_on_what_passes() -> None:
    text = str(check_env("CartPole-v1"))
    assert text.startswith("CartPole-v1\n")
    for env in (Sound, Sound()):
        assert str(check_env(env)).startswith("Sound\n")
    assert "observation space: a vector of 4; 2 without bounds are normalised" in text
    assert "action space: 2 choices" in text
    assert "time limit: 500 steps" in text

    class Clock(Sound):
        def step(self, action: Any) -> Any:
            obs, reward, _, late, info = super().step(action)
            return obs, reward, late, False, info

    text = str(check_env(Clock))
    assert "terminated after exactly 50 steps" in text
    assert "return it as truncated" in text
    assert "time limit: none declared: training truncates episodes that reach 1,000" in text


def test_vector_environments() -> None:
    assert check_env(DiaryVector(AutoresetMode.SAME_STEP)).ok
    assert check_env(lambda: DiaryVector(AutoresetMode.SAME_STEP)).ok
    report = check_env(DiaryVector(None))
    assert report.failures == ("autoreset mode",)


def test_what_cannot_be_checked_is_refused() -> None:
    with pytest.raises(UserError, match="Gymnasium id, environment"):
        check_env(3)
    with pytest.raises(UserError, match="registered"):
        check_env("CartPloe-v1")
