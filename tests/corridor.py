"""Tiny environments of a user's own, and settings that make short work of them."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

TINY: dict[str, Any] = {"preset": "smoke", "log_interval": 80, "eval_episodes": 2}
SHORT: dict[str, Any] = TINY | {"time_limit": 20, "reports_success": True}

QUIET = """
import gymnasium

class Quiet(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(3)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return 0, {}

    def step(self, action):
        self.count += 1
        return self.count % 3, 1.0, False, self.count >= 9, {}
"""
"""The text of a module of a user's own, with an environment of nine steps."""


class Corridor(gymnasium.Env):
    """Nine cells in a Dict; walking right to the end pays 1 and ends the episode."""

    observation_space = spaces.Dict({"at": spaces.Discrete(9), "far": spaces.Box(-9, 9, (1,))})
    action_space = spaces.Discrete(2, start=-1)

    def _obs(self) -> dict[str, Any]:
        return {"at": self.at, "far": np.float32([8 - self.at])}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.at, self.count = 0, 0
        return self._obs(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        self.at = int(np.clip(self.at + (1 if action == 0 else -1), 0, 8))
        self.count += 1
        won = self.at == 8
        return self._obs(), float(won), won, self.count >= 20, {"is_success": won}


def observations(number: int) -> list[dict[str, Any]]:
    return [{"at": i, "far": np.float32([8 - i])} for i in range(number)]


def stacked(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}
