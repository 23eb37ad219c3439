"""The paper's tables, literally; where the paper is silent, the authors' newest code."""

from dataclasses import replace

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

# A run stops and logs between chunks only: here every 1,000 updates.
LOOP = LoopSettings(log_interval=1_000)
# The paper says "ReLU network"; 192 units are what the authors' launcher gives it.
OWN: Own = {
    "rnd": {"bootstrap_probability": 0.5, "num_features": 192},
    "thompson": {"prior_width": 192},
    "devote-no-rfn": {"num_features": 192},
}

RECIPES = {
    "spiral": Recipe(spiral(), DevoteSettings(), replace(LOOP, num_envs=32), 5_000_000),
    "u_maze": Recipe(
        u_maze(), DevoteSettings(), replace(LOOP, num_envs=16, reset_interval=50_000), 4_000_000
    ),
    "deep_sea": Recipe(DeepSeaSettings(), DevoteSettings(), replace(LOOP, num_envs=1), 500_000),
    # no task of the paper's: its agent, and observations relative to their range
    "gymnasium": Recipe(
        GymnasiumSettings(), DevoteSettings(), replace(LOOP, num_envs=8), 1_000_000
    ),
    "brax": Recipe(BraxSettings(), DevoteSettings(), replace(LOOP, num_envs=32), 1_000_000),
    "playground": Recipe(
        PlaygroundSettings(), DevoteSettings(), replace(LOOP, num_envs=32), 1_000_000
    ),
    "cheetah": Recipe(
        CheetahSettings(), DevoteSettings(length_scale=7.5), replace(LOOP, num_envs=32), 5_000_000
    ),
    # the paper only evaluates policies here; two million steps are those of its evaluations
    "cartpole_swingup": Recipe(
        CartpoleSettings(), DevoteSettings(), replace(LOOP, num_envs=16), 2_000_000
    ),
    "cartpole_swingup_sparse": Recipe(
        CartpoleSettings(sparse=True), DevoteSettings(), replace(LOOP, num_envs=16), 2_000_000
    ),
    "ant_maze": Recipe(
        AntMazeSettings(), DevoteSettings(length_scale=7.5), replace(LOOP, num_envs=128), 40_000_000
    ),
    "pick_and_place": Recipe(
        PickAndPlaceSettings(), DevoteSettings(), replace(LOOP, num_envs=128), 40_000_000
    ),
}
