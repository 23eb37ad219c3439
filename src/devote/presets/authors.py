"""The authors' newest argument files as their launcher really executes them."""

from dataclasses import replace

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
CONTROL_LOOP = replace(LOOP, num_envs=128, reset_interval=250_000)
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

RECIPES = {
    "spiral": Recipe(
        as_authors(spiral()),
        replace(AGENT, length_scale=2.5),
        replace(LOOP, num_envs=32),
        3_000_000,
    ),
    "u_maze": Recipe(as_authors(u_maze()), AGENT, replace(LOOP, num_envs=16), 3_000_000),
    "deep_sea": Recipe(DeepSeaSettings(), AGENT, replace(LOOP, num_envs=1), 500_000),
    "gymnasium": Recipe(GymnasiumSettings(), AGENT, replace(LOOP, num_envs=8), 1_000_000),
    "brax": Recipe(BraxSettings(), AGENT, replace(LOOP, num_envs=32), 1_000_000),
    "playground": Recipe(PlaygroundSettings(), AGENT, replace(LOOP, num_envs=32), 1_000_000),
    "cheetah": Recipe(
        CheetahSettings(),
        replace(AGENT, length_scale=7.5),
        replace(LOOP, num_envs=32),
        3_000_000,
    ),
    # their source policies; both names are the sparse task, as in their files
    "cartpole_swingup": Recipe(
        SWINGUP, AGENT, replace(LOOP, num_envs=16, reset_interval=0), 400_000
    ),
    "cartpole_swingup_sparse": Recipe(
        SWINGUP, AGENT, replace(LOOP, num_envs=16, reset_interval=0), 400_000
    ),
    "ant_maze": Recipe(
        ant_maze.as_authors(AntMazeSettings()),
        replace(CONTROL, length_scale=7.5),
        CONTROL_LOOP,
        50_000_000,
    ),
    "pick_and_place": Recipe(
        pick_and_place.as_authors(PickAndPlaceSettings()),
        replace(CONTROL, length_scale=1.5),
        CONTROL_LOOP,
        50_000_000,
    ),
}
