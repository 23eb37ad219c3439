"""Tasks on the host that rest, tell, fail or hang, and programs around them."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scripted import Counter, Scripted

from devote.core.types import Agent, EnvSpec, HostEnv, HostStep
from devote.loops.host import HostProgram
from devote.loops.schedule import LoopSettings
from on_host import OnHost

ENVS = 6
SETTINGS = LoopSettings(
    num_envs=ENVS,
    updates_per_step=1 / 3,
    batch_size=8,
    replay_capacity=ENVS * 40,
    learning_starts=20,
    log_interval=ENVS * 36,
    eval_episodes=20,
    overlap=False,
)


def counter_bins(obs: np.ndarray, _: Any = np) -> np.ndarray:
    """Counter's bins from its observations."""
    return np.where(obs[:, 0] == 1, -1, obs[:, 0]).astype(np.int32)


def counters(num_envs: int, saves: bool = True) -> OnHost:
    """Counter on the host."""
    return OnHost(Counter(), num_envs, counter_bins, saves)


def program(
    make: Callable[[int], HostEnv] = counters,
    agent: Agent | None = None,
    seeds: tuple[int, ...] = (0,),
    **changes: Any,
) -> HostProgram:
    """A program for `seeds` around tasks that `make` builds."""
    settings = replace(SETTINGS, **changes)
    envs = tuple(make(settings.num_envs) for _ in seeds)
    return HostProgram(agent or Scripted(envs[0].spec), envs, make, settings, seeds)


@dataclass
class Resting:
    """Environment i has episodes of i + 2 steps, and spends a further step on every reset.

    Even environments terminate, odd ones are cut. The reward is the count that is reached.
    """

    num_envs: int
    spec: EnvSpec = field(
        default_factory=lambda: replace(
            Counter.spec,
            grid=None,
            terms=(),
            says_success=False,
            episode_length=SETTINGS.eval_episodes + 1,
        )
    )

    def reset(self, key: Any) -> np.ndarray:
        self.count = np.zeros(self.num_envs, int)
        self.over = np.zeros(self.num_envs, bool)
        return self._obs()

    def step(self, action: np.ndarray, key: Any) -> HostStep:
        valid = ~self.over
        self.count = np.where(valid, self.count + 1, 0)
        env = np.arange(self.num_envs)
        self.over = done = valid & (self.count == env + 2)
        return HostStep(
            next_obs=self._obs(),
            obs=self._obs(),
            reward=np.where(valid, self.count, np.nan).astype(np.float32),
            terminated=done & (env % 2 == 0),
            truncated=done & (env % 2 == 1),
            success=np.zeros(self.num_envs, bool),
            terms={},
            valid=valid,
        )

    def _obs(self) -> np.ndarray:
        return np.stack([self.count, np.arange(self.num_envs)], axis=1).astype(np.float32)

    def bin_of(self, obs: np.ndarray) -> np.ndarray:
        raise AssertionError("there is no grid")

    def save(self) -> None:
        return None

    def restore(self, saved: Any) -> None:
        raise AssertionError("nothing was saved")

    def close(self) -> None:
        pass


class Faulty(OnHost):
    """Counter that does something at one vector step."""

    def __init__(self, num_envs: int, at: int, what: Callable[[HostStep], HostStep]) -> None:
        super().__init__(Counter(), num_envs, counter_bins)
        self.at, self.what, self.steps = at, what, 0

    def step(self, action: np.ndarray, key: Any) -> HostStep:
        step = super().step(action, key)
        self.steps += 1
        return self.what(step) if self.steps == self.at else step


def raises(step: HostStep) -> HostStep:
    """Fails as a simulator would."""
    raise ZeroDivisionError("the floor is missing")


def hangs(step: HostStep) -> HostStep:
    """Does not come back for a long time."""
    time.sleep(120)
    return step


def with_nan_reward(step: HostStep) -> HostStep:
    """Environment 2 divides 0 by 0."""
    step.reward[2] = np.nan
    return step


def blown_up(step: HostStep) -> HostStep:
    """Environment 1 loses its episode: nothing that was computed there means anything."""
    done = np.arange(len(step.valid)) == 1
    next_obs = np.where(done[:, None], np.float32(np.nan), step.next_obs)
    obs = np.where(done[:, None], np.float32([0, 0]), step.obs)
    return step._replace(
        next_obs=next_obs,
        obs=obs,
        terminated=step.terminated & ~done,
        truncated=step.truncated | done,
        valid=~done,
    )


class Telling(Scripted):
    """Its actions tell how many updates the acting agent has had."""

    def act(self, state: Any, memory: Any, obs: Any, first: Any, key: Any) -> tuple[Any, Any]:
        action, memory = super().act(state, memory, obs, first, key)
        return 0 * action + 1e-3 * state["updates"], memory
