"""The paper's tables, literally; where the paper is silent, the authors' newest code."""

from devote.agents.devote import DevoteSettings
from devote.envs import DeepSeaSettings, spiral, u_maze
from devote.loops.settings import LoopSettings
from devote.presets.recipe import Recipe

RECIPES = {
    "spiral": Recipe(spiral(), DevoteSettings(), LoopSettings(num_envs=32), 5_000_000),
    "u_maze": Recipe(
        u_maze(), DevoteSettings(), LoopSettings(num_envs=16, reset_interval=50_000), 4_000_000
    ),
    "deep_sea": Recipe(DeepSeaSettings(), DevoteSettings(), LoopSettings(num_envs=1), 500_000),
}
