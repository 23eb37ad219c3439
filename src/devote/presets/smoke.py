"""The desk recipes, so small that they run in seconds."""

from dataclasses import replace

from devote.agents.model_uncertainty import UncertaintySettings
from devote.agents.world_model import WorldModelSettings
from devote.envs import DeepSeaSettings
from devote.envs.brax import BraxSettings, PlaygroundSettings
from devote.envs.mujoco import (
    AntMazeSettings,
    CartpoleSettings,
    CheetahSettings,
    PickAndPlaceSettings,
)
from devote.loops.schedule import LoopSettings
from devote.presets.desk import BIASED
from devote.presets.desk import RECIPES as DESK
from devote.presets.recipe import Own, Recipe
from devote.run import EnvSettings

SHORTER = (
    PlaygroundSettings | CheetahSettings | CartpoleSettings | AntMazeSettings | PickAndPlaceSettings
)
LOOP = LoopSettings(
    num_envs=8,
    updates_per_step=1 / 16,
    batch_size=32,
    replay_capacity=4_000,
    learning_starts=64,
    reset_interval=1_000,
    log_interval=400,
    eval_interval=1_000,
    eval_episodes=2,
    checkpoint_interval=800,
)
OWN: Own = {
    **BIASED,
    "sombrl": {
        "uncertainty": UncertaintySettings(
            model=WorldModelSettings(
                model_width=16,
                model_depth=2,
                memory_size=16,
                memory_blocks=2,
                code_groups=2,
                code_classes=4,
            ),
            sequence_length=4,
            num_guessers=3,
            guesser_width=16,
            embedding_size=8,
            model_rate=1e-3,
        )
    },
}


def _small(env: EnvSettings) -> EnvSettings:
    if isinstance(env, DeepSeaSettings):
        return replace(env, size=8)
    if isinstance(env, BraxSettings):
        return BraxSettings("inverted_pendulum", "spring", episode_length=50)
    return replace(env, episode_length=50) if isinstance(env, SHORTER) else env


def _shrunk(recipe: Recipe) -> Recipe:
    """The recipe with small networks, a short schedule and a small task."""
    sac = replace(recipe.agent.sac, critic_width=16, actor_width=16, input_features=8)
    agent = replace(recipe.agent, sac=sac, num_indices=2, num_features=16)
    return Recipe(_small(recipe.env), agent, LOOP, steps=4_000)


RECIPES = {name: _shrunk(recipe) for name, recipe in DESK.items()}
