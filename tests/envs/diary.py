"""Environments that write down who, which episode and which step, so that any mistake shows."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

ENDS = ("terminate", "truncate", "both")
LENGTHS = {"terminate": 3, "truncate": 2, "both": 4}


class Diary(gymnasium.Env):
    """Observes (episode, step), pays 100 episode + step, and ends in one of three ways."""

    observation_space = spaces.Box(0, 1000, (2,), np.float32)
    action_space = spaces.Box(-2.0, 6.0, (1,), np.float32)

    def __init__(self, end: str, aliased: bool = False) -> None:
        self.end, self.aliased = end, aliased
        self.episode, self.count = 0, 0
        self.page = np.zeros(2, np.float32)
        self.actions: list[Any] = []

    def _write(self) -> np.ndarray:
        self.page[:] = (self.episode, self.count)
        return self.page if self.aliased else self.page.copy()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.episode, self.count = self.episode + 1, 0
        return self._write(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        self.actions.append(action)
        self.count += 1
        over = self.count >= LENGTHS[self.end]
        assert self.count <= LENGTHS[self.end], "stepped after the end"
        terminated, truncated = over and self.end != "truncate", over and self.end != "terminate"
        reward = 100.0 * self.episode + self.count
        return self._write(), reward, terminated, truncated, {"is_success": over}

    def save_state(self) -> dict[str, np.ndarray]:
        return {"pages": np.array([self.episode, self.count])}

    def load_state(self, saved: dict[str, np.ndarray]) -> None:
        self.episode, self.count = map(int, saved["pages"])


class DiaryVector(VectorEnv):
    """Three diaries in one, by hand; every array it returns is overwritten in the next call."""

    def __init__(self, mode: Any, final: str = "final_obs", whole: bool = True) -> None:
        self.metadata = {} if mode is None else {"autoreset_mode": mode}
        self.mode, self.final, self.whole = mode, final, whole
        self.num_envs = len(ENDS)
        self.single_observation_space = Diary.observation_space
        self.single_action_space = Diary.action_space
        self.diaries = [Diary(end) for end in ENDS]
        self.obs = np.zeros((3, 2), np.float32)
        self.reward, self.last = np.zeros(3), np.zeros((3, 2), np.float32)
        self.flags = np.zeros((2, 3), bool)
        self.over = np.zeros(3, bool)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        chosen = (options or {}).get("reset_mask", np.ones(3, bool))
        for i in np.flatnonzero(chosen):
            self.obs[i], _ = self.diaries[i].reset()
        self.over[chosen] = False
        return self.obs, {}

    def step(self, actions: Any) -> Any:
        info: dict[str, Any] = {"is_success": np.zeros(3, bool), "_is_success": np.zeros(3, bool)}
        for i, diary in enumerate(self.diaries):
            if self.mode is AutoresetMode.NEXT_STEP and self.over[i]:
                self.obs[i], _ = diary.reset()
                self.reward[i], self.flags[:, i] = np.nan, False
                continue
            obs, self.reward[i], *flags, said = diary.step(actions[i])
            self.flags[:, i], self.obs[i] = flags, obs
            info["is_success"][i], info["_is_success"][i] = said["is_success"], True
        self.over = self.flags.any(axis=0)
        if self.mode is AutoresetMode.SAME_STEP and self.over.any():
            self.last[:] = self.obs
            info[self.final] = self.last
            if not self.whole:
                info[self.final] = np.full(3, None, object)
            for i in np.flatnonzero(self.over):
                if not self.whole:
                    info[self.final][i] = self.obs[i].copy()
                self.obs[i], _ = self.diaries[i].reset()
        return self.obs, self.reward, self.flags[0], self.flags[1], info
