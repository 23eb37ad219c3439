"""Gymnasium environments that we step ourselves, one after the other."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import gymnasium
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker
from jaxtyping import PRNGKeyArray

from devote.core.errors import EnvironmentFailedError, UserError
from devote.core.types import EnvSpec, HostStep
from devote.envs.coverage_bins import Coverage
from devote.envs.seeds import seed_of
from devote.envs.spaces import Actions, Observations
from devote.envs.watched import Watched

STATELESS = (Watched, OrderEnforcing, PassiveEnvChecker)
SUCCESS = ("is_success", "success")
INVALID = "invalid_transition"
"""What an info says of a step that means nothing, such as one in which a simulation blew up."""


@runtime_checkable
class Restorable(Protocol):
    """What an environment offers so that a run with it resumes exactly."""

    def save_state(self) -> dict[str, np.ndarray]:
        """Copies of everything that changes, its random generator included."""
        ...

    def load_state(self, saved: dict[str, np.ndarray]) -> None:
        """Go on from what `save_state` gave."""
        ...


@dataclass(frozen=True)
class Task:
    """What is known of a Gymnasium task before it is stepped."""

    spec: EnvSpec
    observations: Observations
    actions: Actions
    coverage: Coverage


class GymnasiumList:
    """A `HostEnv` of single environments; we limit their time and reset them."""

    def __init__(self, task: Task, envs: list[gymnasium.Env]) -> None:
        self.task = task
        self.spec = task.spec
        self.num_envs = len(envs)
        self.envs = [Watched(env, index) for index, env in enumerate(envs)]
        self.elapsed = np.zeros(self.num_envs, np.int64)

    def reset(self, key: PRNGKeyArray) -> np.ndarray:
        """Start every episode afresh, seeded by the key."""
        seed = seed_of(key)
        # as Gymnasium's vector environments do it
        return np.stack([self._start(i, seed + i) for i in range(self.num_envs)])

    def step(self, action: np.ndarray, key: PRNGKeyArray) -> HostStep:
        """Step every environment; chance is the environments' own, seeded at the first reset."""
        taken = self.task.actions.to_env(np.asarray(action))
        rows = [self._step(i, taken[i]) for i in range(self.num_envs)]
        successor, reward, terminated, truncated, success, valid = map(
            np.stack, zip(*rows, strict=True)
        )
        obs = successor.copy()
        for i in np.flatnonzero(terminated | truncated).tolist():
            obs[i] = self._start(i, None)
        return HostStep(
            next_obs=successor,
            obs=obs,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            success=success,
            terms={},
            valid=valid,
        )

    def _start(self, index: int, seed: int | None) -> np.ndarray:
        self.elapsed[index] = 0
        obs, _ = self.envs[index].reset(seed=seed)
        return self._read(index, obs, "reset")

    def _step(self, index: int, action: Any) -> tuple[np.ndarray | np.generic, ...]:
        obs, reward, terminated, truncated, info = self.envs[index].step(action)
        self.elapsed[index] += 1
        late = self.elapsed[index] >= self.spec.episode_length
        return (
            self._read(index, obs, "step"),
            np.float32(reward),
            np.bool_(terminated),
            np.bool_(truncated or late),
            np.bool_(any(info.get(name, False) for name in SUCCESS)),
            np.bool_(not info.get(INVALID, False)),
        )

    def _read(self, index: int, obs: Any, what: str) -> np.ndarray:
        """The observation in our own memory, finite, or an error that names the environment."""
        env = self.envs[index]
        try:
            flat = self.task.observations.flatten_one(obs)
            require_finite(flat[None], self.task.observations)
        except UserError as error:
            which, when = f"environment {index} ({env.env})", f"{what} (step {env.steps:,})"
            raise EnvironmentFailedError.of(which, when, env.action, str(error)) from error
        return flat

    def bin_of(self, obs: np.ndarray) -> np.ndarray:
        """The flat coverage bins of observations."""
        return self.task.coverage.bin_of(obs)

    def save(self) -> dict[str, np.ndarray] | None:
        """Everything that changes, if every environment is `Restorable`."""
        cores = [_restorable(env) for env in self.envs]
        saved: dict[str, np.ndarray] = {"elapsed": self.elapsed.copy()}
        for index, core in enumerate(cores):
            if core is None:
                return None
            saved |= {f"{index}/{name}": value for name, value in core.save_state().items()}
        return saved

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Go on from what `save` gave."""
        self.elapsed = saved["elapsed"].copy()
        for index, env in enumerate(self.envs):
            core, prefix = _restorable(env), f"{index}/"
            assert core is not None, "save would have been None"
            env.reset()  # wrappers insist that an environment is reset before it is stepped
            core.load_state(
                {n.removeprefix(prefix): x for n, x in saved.items() if n.startswith(prefix)}
            )

    def close(self) -> None:
        """Close every environment."""
        for env in self.envs:
            env.close()


def require_finite(obs: np.ndarray, observations: Observations) -> None:
    """Refuse NaN and infinity before they reach a replay."""
    if obs.dtype.kind == "f" and not np.isfinite(obs).all():
        row, entry = np.argwhere(~np.isfinite(obs))[0]
        name = observations.names[entry]
        fix = "look for a division by 0 or a diverging simulation"
        raise UserError(f"finite observations at {name}", obs[row, entry], fix)


def _restorable(env: gymnasium.Env) -> Restorable | None:
    """The environment under wrappers that keep nothing, if it can save itself."""
    while not isinstance(env, Restorable):
        if not (isinstance(env, gymnasium.Wrapper) and isinstance(env, STATELESS)):
            return None
        env = env.env
    return env
