"""A trial of an environment: random and extreme actions, everything it returned written down."""

import traceback
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from devote.core.worker import Worker

SEED = 7
ENOUGH_STEPS, ENOUGH_EPISODES, PATIENCE = 300, 3, 10_000


@dataclass
class Trial:
    """What was seen; copies, so that nobody changes it later."""

    starts: list[Any] = field(default_factory=list)
    """What `reset` returned, whatever that was."""
    steps: list[Any] = field(default_factory=list)
    """What `step` returned, whatever that was."""
    lengths: list[int] = field(default_factory=list)
    """Steps of the episodes that ended."""
    ends: list[tuple[bool, bool]] = field(default_factory=list)
    """How they ended: terminated, truncated."""
    overwritten: bool = False
    """Whether an observation changed after it was returned."""
    action_changed: bool = False
    """Whether a step wrote into the action."""
    error: str | None = None
    """Where and how the environment raised, with its traceback."""

    @property
    def whole(self) -> list[tuple[Any, ...]]:
        """The steps that have five parts."""
        return [step for step in self.steps if isinstance(step, tuple) and len(step) == 5]

    @property
    def observations(self) -> list[Any]:
        """Every observation, of resets and of steps."""
        started = [s[0] for s in self.starts if isinstance(s, tuple) and len(s) == 2]
        return started + [step[0] for step in self.whole]


def try_out(env: gymnasium.Env, patience: int = PATIENCE) -> Trial:
    """Play until a few episodes have ended, or patience has."""
    trial = Trial()
    action: Any = None
    generator = np.random.default_rng(SEED)
    try:
        length, last = 0, _start(env, trial, SEED)
        while len(trial.steps) < patience:
            action = draw(env.action_space, generator)
            given = deepcopy(action)
            result = env.step(action)
            trial.action_changed |= not same(action, given)
            trial.overwritten |= last is not None and not same(*last)
            trial.steps.append(deepcopy(result))
            if not isinstance(result, tuple) or len(result) != 5:
                break
            last = _kept(result)
            length += 1
            flags = (bool(np.any(result[2])), bool(np.any(result[3])))
            if any(flags):
                trial.lengths.append(length)
                trial.ends.append(flags)
                if len(trial.lengths) >= ENOUGH_EPISODES and len(trial.steps) >= ENOUGH_STEPS:
                    break
                length, last = 0, _start(env, trial, None)
    except (Exception, SystemExit):
        where = f"step {len(trial.steps) + 1} after action {action}" if trial.starts else "reset"
        trial.error = f"{where}:\n{traceback.format_exc()}"
    return trial


def replayed(env: gymnasium.Env, seed: int, steps: int = 30) -> list[Any]:
    """Start, rewards and observations of one seeded stretch with fixed actions."""
    generator = np.random.default_rng(SEED)
    seen: list[Any] = [deepcopy(env.reset(seed=seed)[0])]
    for _ in range(steps):
        obs, reward, terminated, truncated, _ = env.step(draw(env.action_space, generator))
        seen.append((deepcopy(obs), float(reward)))
        if terminated or truncated:
            seen.append(deepcopy(env.reset()[0]))
    return seen


def draw(space: spaces.Space, generator: np.random.Generator) -> Any:
    """An action: half of them inside, the others at the bounds."""
    if isinstance(space, spaces.Discrete):
        return space.start + generator.integers(space.n)
    assert isinstance(space, spaces.Box)
    inside = generator.uniform(space.low, space.high)
    bound = np.where(generator.random(space.shape) < 0.5, space.low, space.high)
    return (inside if generator.random() < 0.5 else bound).astype(space.dtype)


def same(one: Any, other: Any) -> bool:
    """Whether two observations, rewards or lists of them are equal, part by part."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    try:
        return np.array_equal(one, other, equal_nan=True)
    except TypeError:  # not numbers
        return bool(np.all(one == other))


def _start(env: gymnasium.Env, trial: Trial, seed: int | None) -> tuple[Any, Any] | None:
    """A reset, and its observation as `_kept` keeps it."""
    start = env.reset(seed=seed)
    trial.starts.append(deepcopy(start))
    return _kept(start)


def _kept(result: Any) -> tuple[Any, Any] | None:
    """The observation of a result and a copy of it, to see whether somebody writes into it."""
    return (result[0], deepcopy(result[0])) if isinstance(result, tuple) and result else None


class Timed(gymnasium.Wrapper):
    """Tells a worker what it asks of an environment, so that a hang is seen."""

    def __init__(self, env: gymnasium.Env, worker: Worker) -> None:
        super().__init__(env)
        self.worker, self.steps = worker, 0

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> Any:
        """The environment's own reset."""
        given: dict[str, Any] = {} if options is None else {"options": options}
        with self.worker.asking(str(self.env), "reset", None):
            return self.env.reset(seed=seed, **given)

    def step(self, action: Any) -> Any:
        """The environment's own step."""
        self.steps += 1
        with self.worker.asking(str(self.env), f"step {self.steps:,}", action):
            return self.env.step(action)

    def close(self) -> None:
        """The environment's own close."""
        with self.worker.asking(str(self.env), "close", None):
            self.env.close()
