"""The paper's tables, literally; where the paper is silent, the authors' newest code."""

from dataclasses import replace
from typing import Any

from devote.agents.devote import DevoteSettings
from devote.envs import DeepSeaSettings, spiral, u_maze
from devote.envs.brax import BraxSettings, PlaygroundSettings
from devote.envs.gymnasium import GymnasiumSettings
from devote.envs.mujoco import (
    AntMazeSettings,
    CartpoleSettings,
    CheetahSettings,
    PickAndPlaceSettings,
)
from devote.loops.schedule import LoopSettings
from devote.presets.recipe import Own, Recipe
from devote.run import EnvSettings

# A run stops and logs between chunks only: here every 1,000 updates.
LOOP = LoopSettings(log_interval=1_000)
# The paper says "ReLU network"; 192 units are what the authors' launcher gives it.
OWN: Own = {
    "rnd": {"bootstrap_probability": 0.5, "num_features": 192},
    "thompson": {"prior_width": 192},
    "devote-no-rfn": {"num_features": 192},
}


def _recipe(
    env: EnvSettings, num_envs: int, steps: int, length_scale: float = 1.0, **loop: Any
) -> Recipe:
    agent = DevoteSettings(length_scale=length_scale)
    return Recipe(env, agent, replace(LOOP, num_envs=num_envs, **loop), steps)


RECIPES = {
    "spiral": _recipe(spiral(), 32, 5_000_000),
    "u_maze": _recipe(u_maze(), 16, 4_000_000, reset_interval=50_000),
    "deep_sea": _recipe(DeepSeaSettings(), 1, 500_000),
    # no task of the paper's: its agent, and observations relative to their range
    "gymnasium": _recipe(GymnasiumSettings(), 8, 1_000_000),
    "brax": _recipe(BraxSettings(), 32, 1_000_000),
    "playground": _recipe(PlaygroundSettings(), 32, 1_000_000),
    "cheetah": _recipe(CheetahSettings(), 32, 5_000_000, 7.5),
    # the paper only evaluates policies here; two million steps are those of its evaluations
    "cartpole_swingup": _recipe(CartpoleSettings(), 16, 2_000_000),
    "cartpole_swingup_sparse": _recipe(CartpoleSettings(sparse=True), 16, 2_000_000),
    "ant_maze": _recipe(AntMazeSettings(), 128, 40_000_000, 7.5),
    "pick_and_place": _recipe(PickAndPlaceSettings(), 128, 40_000_000),
}
