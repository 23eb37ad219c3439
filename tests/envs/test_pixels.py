"""Pictures and combined choices from the environment to the agent."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from devote import Sac
from tiny import assert_close


class Camera(gymnasium.Env):
    """Random bytes; pays the second of two dials."""

    observation_space: Any = spaces.Box(0, 255, (4, 4, 3), np.uint8)
    action_space = spaces.MultiDiscrete([2, 3], start=[5, 1])
    max_episode_steps = 20

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self._look(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        return self._look(), float(action[1]), False, False, {}

    def _look(self) -> np.ndarray:
        picture = self.np_random.integers(0, 256, (4, 4, 3))
        return picture.astype(self.observation_space.dtype)


class FloatCamera(Camera):
    observation_space = spaces.Box(0, 255, (4, 4, 3), np.float32)


@pytest.mark.slow
def test_pictures_are_kept_as_bytes_and_learned_from_as_if_they_were_numbers() -> None:
    models = [Sac(kind, preset="smoke", eval_interval=0) for kind in (Camera, FloatCamera)]
    bytes_, floats = (model.learn(400, progress_bar=False) for model in models)
    kept = bytes_._training.state.replay
    assert kept.obs.dtype == kept.next_obs.dtype == np.uint8
    assert floats._training.state.replay.obs.dtype == np.float32
    np.testing.assert_array_equal(kept.obs, floats._training.state.replay.obs)
    assert_close(bytes_.state.agent, floats.state.agent, rtol=1e-4, atol=1e-5)
    assert Camera.action_space.contains(bytes_.predict(Camera.observation_space.sample()))
