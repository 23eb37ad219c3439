"""Small networks and large steps for two CPU cores; docs/settings.md says why."""

from dataclasses import replace

from devote.agents.devote import DevoteSettings
from devote.agents.model_uncertainty import UncertaintySettings
from devote.agents.sac import SacSettings
from devote.agents.world_model import WorldModelSettings
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

# What most tasks share.
SMALL = SacSettings(
    discount=0.99,
    polyak=0.1,
    critic_width=64,
    critic_depth=2,
    actor_width=64,
    actor_depth=2,
    value_head="scalar",
    learning_rate=1e-3,
    critic_weight_decay=0.0,
    initial_temperature=0.01,
)
SHARED = DevoteSettings(
    sac=SMALL,
    num_indices=4,
    num_features=256,
    relu_bias=True,
    readout="normal",
    prior_sees_action=False,
    corrector_rate=1e-3,
    reset_target=True,
)

MAZE = replace(
    SHARED,
    sac=replace(
        SMALL,
        discount=0.98,
        polyak=0.2,
        learning_rate=3e-3,
        target_entropy_per_dimension=-0.25,
        scale_inputs=True,
        input_features=64,
        input_length=12.0,
        action_gain=5.0,
    ),
    length_scale=2.5,
)
MAZE_LOOP = LoopSettings(
    num_envs=32,
    updates_per_step=1 / 32,
    batch_size=256,
    replay_capacity=2_000_000,
    learning_starts=2_048,
    reset_interval=192_000,
    log_interval=16_000,
    eval_interval=320_000,
    checkpoint_interval=160_000,
)
DEEP_SEA = replace(
    SHARED,
    sac=replace(
        SMALL, temperature_rate=3e-3, initial_temperature=0.1, target_entropy_fraction=0.15
    ),
    num_features=96,
    prior_sees_action=True,
    corrector_polyak=0.1,
)
DEEP_SEA_LOOP = LoopSettings(
    num_envs=8,
    updates_per_step=0.25,
    batch_size=128,
    replay_capacity=1_000_000,
    learning_starts=512,
    reset_interval=32_000,
    log_interval=4_000,
    eval_interval=40_000,
    checkpoint_interval=40_000,
)

CONTROL = replace(
    SHARED,
    sac=replace(SMALL, critic_width=128, actor_width=128, value_head="two_hot", scale_inputs=True),
    length_scale=7.5,
    relu_bias=False,
)

# Without biases a ReLU prior sees only a direction; the control recipes leave them to its owners.
CONTROL_TASKS = (
    "cheetah",
    "cartpole_swingup",
    "cartpole_swingup_sparse",
    "ant_maze",
    "pick_and_place",
)
BIASED: Own = {
    (task, agent): {"relu_bias": True}
    for task in CONTROL_TASKS
    for agent in ("rnd", "thompson", "devote-no-rfn")
}
# A small model is enough for tasks that show their state; short sequences vary a batch more.
SOMBRL = UncertaintySettings(
    model=WorldModelSettings(
        model_width=32,
        model_depth=2,
        memory_size=64,
        memory_blocks=1,
        code_groups=4,
        code_classes=8,
    ),
    sequence_length=8,
    guesser_width=64,
    embedding_size=16,
    model_rate=1e-3,
)
# Critics see mazes at a length of 12; the guessers get what DEVOTE's prior has.
SOMBRL_MAZE = replace(SOMBRL, guesser_length=MAZE.length_scale)
SCALAR = replace(CONTROL.sac, value_head="scalar")
OWN: Own = {
    **BIASED,
    # priors as wide as critics and actors; all else is the best of equal trials (docs/coverage.md)
    "rnd": {"num_features": 64, "corrector_sees_action": True},
    "thompson": {"prior_width": 64, "num_members": 8, "prior_scale": 0.3},
    "devote-no-rfn": {"num_features": 64},
    "sombrl": {"uncertainty": SOMBRL, "intrinsic_weight": 0.01},
    # an exact corrector of few features needs few lengths across the range of an entry
    **{
        (task, "devote-plus"): {"length_scale": 1.0, "prior_sees_action": True}
        for task in ("gymnasium", "brax", "playground")
    },
    ("cartpole_swingup_sparse", "devote-plus"): {"prior_sees_action": True},
    ("spiral", "sombrl"): {"uncertainty": SOMBRL_MAZE},
    ("u_maze", "sombrl"): {"uncertainty": SOMBRL_MAZE},
    # what they explore by is a scalar, as in their trials and as DEVOTE's is
    ("cheetah", "sombrl"): {"sac": SCALAR},
    ("cheetah", "thompson"): {"sac": SCALAR, **BIASED["cheetah", "thompson"]},
}
# For tasks that nobody has tuned: units of half the range of an entry, rewards of any size.
ANY = replace(
    SHARED,
    sac=replace(
        SMALL,  # a scalar head: bins wide beside a step's cost hide which action is better
        polyak=0.02,
        target_entropy_fraction=0.3,
        discrete_actor="boltzmann",  # an action thought bad for long is taken up again at once
        input_features=64,
        input_length=1.0,
    ),
    length_scale=0.25,
)
ANY_LOOP = LoopSettings(
    num_envs=8,
    updates_per_step=0.25,
    batch_size=256,
    replay_capacity=1_000_000,
    learning_starts=1_000,
    reset_interval=16_000,
    log_interval=2_000,
    eval_interval=20_000,
    eval_episodes=20,
    checkpoint_interval=20_000,
)
# tasks that are stepped side by side in one program
BATCH_LOOP = replace(
    ANY_LOOP, num_envs=32, updates_per_step=1 / 16, reset_interval=64_000, log_interval=8_000
)

CONTROL_LOOP = LoopSettings(
    num_envs=64,
    updates_per_step=1 / 32,
    batch_size=256,
    replay_capacity=1_000_000,
    learning_starts=4_096,
    reset_interval=128_000,
    log_interval=16_000,
    eval_interval=160_000,
    eval_episodes=8,
    checkpoint_interval=160_000,
)
# worlds whose steps are dear: larger rounds hide more of them behind learning
WIDE_LOOP = replace(CONTROL_LOOP, num_envs=256, log_interval=32_000)
CARTPOLE = replace(CONTROL, length_scale=1.0)
CARTPOLE_LOOP = replace(CONTROL_LOOP, num_envs=16, updates_per_step=0.125, learning_starts=2_048)
# where rewards are rare, slower targets and more updates keep what was found
SPARSE = replace(CARTPOLE, sac=replace(CARTPOLE.sac, polyak=0.02))
SPARSE_LOOP = replace(CARTPOLE_LOOP, updates_per_step=0.5, eval_interval=32_000)

RECIPES = {
    "spiral": Recipe(
        replace(spiral(), step_size=2.0, episode_length=250), MAZE, MAZE_LOOP, 960_000
    ),
    # at a step of 2 mere diffusion covers the U
    "u_maze": Recipe(
        replace(u_maze(), step_size=0.5, episode_length=500), MAZE, MAZE_LOOP, 640_000
    ),
    "deep_sea": Recipe(DeepSeaSettings(), DEEP_SEA, DEEP_SEA_LOOP, 320_000),
    "gymnasium": Recipe(GymnasiumSettings(), ANY, ANY_LOOP, 100_000),
    "brax": Recipe(BraxSettings(), ANY, BATCH_LOOP, 500_000),
    "playground": Recipe(PlaygroundSettings(), ANY, BATCH_LOOP, 500_000),
    "cheetah": Recipe(CheetahSettings(), CONTROL, CONTROL_LOOP, 500_000),
    "cartpole_swingup": Recipe(CartpoleSettings(), CARTPOLE, CARTPOLE_LOOP, 200_000),
    "cartpole_swingup_sparse": Recipe(CartpoleSettings(sparse=True), SPARSE, SPARSE_LOOP, 200_000),
    "ant_maze": Recipe(AntMazeSettings(), CONTROL, WIDE_LOOP, 1_000_000),
    "pick_and_place": Recipe(
        PickAndPlaceSettings(), replace(CONTROL, length_scale=1.0), WIDE_LOOP, 1_000_000
    ),
}
