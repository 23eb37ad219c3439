"""Tasks of dm_control's suite for Gymnasium: `dmc:cartpole-swingup_sparse`.

dm_control is imported when the first task is made, so that names can be read without it.
"""

import re
import warnings
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from devote.core.errors import extra, not_among

PREFIX = "dmc:"
NAME = re.compile(r"dmc:(?P<task>\w+-\w+?)(-repeat(?P<repeat>[1-9]\d*))?")
"""`dmc:domain-task`, or `dmc:domain-task-repeat2` to apply every action twice."""


class DmcEnv(gymnasium.Env):
    """One task; its time limit, in decisions, is a truncation, a discount of 0 a termination."""

    def __init__(self, name: str, render_mode: str | None = None) -> None:
        domain, task, self.repeat = read_name(name)
        self.env = _suite().load(domain, task)
        # the time limit is not public, and infinite for a few tasks
        steps = self.env._step_limit / self.repeat
        limit = int(np.ceil(steps)) if np.isfinite(steps) else None
        self.spec = EnvSpec(name, max_episode_steps=limit)
        parts = self.env.observation_spec().items()
        self.observation_space = spaces.Dict(
            {key: spaces.Box(-np.inf, np.inf, part.shape, np.float64) for key, part in parts}
        )
        action = self.env.action_spec()
        self.action_space = spaces.Box(action.minimum, action.maximum, action.shape, np.float64)
        self.render_mode = render_mode
        rate = 1 / (self.repeat * self.env.control_timestep())
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": round(rate)}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Start an episode."""
        if seed is not None:
            self.env.task.random.seed(seed % 2**32)
        return self._observed(self.env.reset()), {}

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, bool, dict]:
        """Apply the action, several times if asked; rewards are summed."""
        reward = 0.0
        for _ in range(self.repeat):
            after = self.env.step(action)
            reward += after.reward
            if after.last():
                break
        ended = after.last() and after.discount == 0
        return self._observed(after), reward, bool(ended), bool(after.last() and not ended), {}

    def _observed(self, step: Any) -> dict[str, np.ndarray]:
        return {key: np.array(part, np.float64) for key, part in step.observation.items()}

    def render(self) -> np.ndarray | None:
        """The world as it is now."""
        if self.render_mode is None:
            return None
        return self.env.physics.render(height=240, width=320, camera_id=0)

    def close(self) -> None:
        """Free the physics."""
        self.env.close()


def read_name(name: str) -> tuple[str, str, int]:
    """Domain, task and how often an action is repeated."""
    match = NAME.fullmatch(name)
    known = [f"{PREFIX}{domain}-{task}" for domain, task in _suite().ALL_TASKS]
    if match is None or PREFIX + match["task"] not in known:
        raise not_among("the task of dm_control", name, known)
    domain, _, task = match["task"].partition("-")
    return domain, task, int(match["repeat"] or 1)


def _suite() -> Any:
    with extra("dm-control"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of a missing display
        from dm_control import suite
    return suite
