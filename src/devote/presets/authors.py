"""The authors' newest argument files as their launcher really executes them."""

from dataclasses import replace
from typing import Any

from devote.agents.devote import DevoteSettings
from devote.agents.sac import SacSettings
from devote.envs import DeepSeaSettings, as_authors, spiral, u_maze
from devote.envs.brax import BraxSettings, PlaygroundSettings
from devote.envs.gymnasium import GymnasiumSettings
from devote.envs.mujoco import (
    AntMazeSettings,
    CartpoleSettings,
    CheetahSettings,
    PickAndPlaceSettings,
    ant_maze,
    cartpole,
    pick_and_place,
)
from devote.loops.schedule import LoopSettings
from devote.presets.recipe import Own, Recipe
from devote.run import EnvSettings

AGENT = DevoteSettings(
    sac=SacSettings(
        discount=1 - 1 / 333,
        polyak=0.01,
        actor_width=1024,
        value_head="scalar",
        optimiser="laprop",
    ),
    num_features=192,  # 1,024 asked for, overwritten by the model-size block
    readout="normal",
    prior_sees_action=False,
    corrector_polyak=0.01,
    bonus_has_novelty=False,
    normalise_value=False,
    reset_target=True,
)
# A run stops and logs between chunks only: here every 1,000 updates or so.
LOOP = LoopSettings(updates_per_step=256 / 2080, reset_interval=50_000, log_interval=8_000)
# The files of AntMaze and PickAndPlace are older than the others in most respects.
CONTROL = replace(
    AGENT,
    sac=replace(
        AGENT.sac,
        discount=0.99,
        polyak=0.005,
        value_head="two_hot",
        target_entropy_per_dimension=-1.0,
    ),
    corrector_polyak=0.005,
    normalise_value=True,
)
SWINGUP = cartpole.as_authors(CartpoleSettings())

LENGTH = {"length_scale": 2.5}  # of every ablation, whatever the task's own
# Signed rb has a mean near 0, and without TUD c + g holds all novelty: rb alone is no bonus.
WITH_NOVELTY = {**LENGTH, "bonus_has_novelty": True}
OWN: Own = {
    "rnd": {"bootstrap_probability": 0.5, "corrector_sees_action": True},
    "thompson": {"prior_sees_action": False, "prior_in_actor": False},
    "devote-no-resets": LENGTH,
    "devote-no-tud-opt": WITH_NOVELTY,
    "devote-no-tud-opt-ucb": LENGTH,
    "devote-no-tud": WITH_NOVELTY,
    "devote-no-tud-ucb": WITH_NOVELTY,
}


def _recipe(
    env: EnvSettings, num_envs: int, steps: int, agent: DevoteSettings = AGENT, **loop: Any
) -> Recipe:
    return Recipe(env, agent, replace(LOOP, num_envs=num_envs, **loop), steps)


_ANT, _ARM = (replace(CONTROL, length_scale=length) for length in (7.5, 1.5))
_ANT_ENV = ant_maze.as_authors(AntMazeSettings())
_ARM_ENV = pick_and_place.as_authors(PickAndPlaceSettings())
RECIPES = {
    "spiral": _recipe(as_authors(spiral()), 32, 3_000_000, replace(AGENT, length_scale=2.5)),
    "u_maze": _recipe(as_authors(u_maze()), 16, 3_000_000),
    "deep_sea": _recipe(DeepSeaSettings(), 1, 500_000),
    "gymnasium": _recipe(GymnasiumSettings(), 8, 1_000_000),
    "brax": _recipe(BraxSettings(), 32, 1_000_000),
    "playground": _recipe(PlaygroundSettings(), 32, 1_000_000),
    "cheetah": _recipe(CheetahSettings(), 32, 3_000_000, replace(AGENT, length_scale=7.5)),
    # their source policies; both names are the sparse task, as in their files
    "cartpole_swingup": _recipe(SWINGUP, 16, 400_000, reset_interval=0),
    "cartpole_swingup_sparse": _recipe(SWINGUP, 16, 400_000, reset_interval=0),
    "ant_maze": _recipe(_ANT_ENV, 128, 50_000_000, _ANT, reset_interval=250_000),
    "pick_and_place": _recipe(_ARM_ENV, 128, 50_000_000, _ARM, reset_interval=250_000),
}
