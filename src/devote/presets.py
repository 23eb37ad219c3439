"""Named settings. Every run carries the name of its preset; none is ever guessed.

- `paper`: the paper's tables, literally; where the paper is silent, the authors' newest code.
- `authors`: the authors' newest code as it really runs, quirks included.
- `desk`: tuned for two CPU cores, so that every claim can be seen in minutes.
- `smoke`: seconds, for tests.
"""

from collections.abc import Callable
from dataclasses import replace

from devote.agents.devote import DevoteSettings
from devote.agents.sac import SacSettings
from devote.envs import DeepSeaSettings, PointMazeSettings, as_authors
from devote.loops.settings import LoopSettings
from devote.registry import AGENTS, ENVS, AgentSettings
from devote.run import Run


def paper(env: str, agent: str) -> Run:
    """The paper's hyperparameters, length scales, reset intervals and budgets."""
    steps = {"deep_sea": 500_000, "spiral": 5_000_000, "u_maze": 4_000_000}
    loop = LoopSettings(
        num_envs={"deep_sea": 1, "spiral": 32, "u_maze": 16}[env],  # authors' code
        reset_interval=50_000 if env == "u_maze" else 250_000,
    )
    return Run(
        env_name=env,
        agent_name=agent,
        preset="paper",
        env=ENVS[env].settings(),
        agent=AGENTS[agent].settings(),
        loop=loop,
        steps=steps[env],
    )


def authors(env: str, agent: str) -> Run:
    """The authors' newest argument files as their launcher really executes them."""
    run = paper(env, agent)
    sac = SacSettings(
        discount=1 - 1 / 333,
        polyak=0.01,
        actor_width=1024,
        value_head="scalar",
        optimiser="laprop",
    )
    devote = DevoteSettings(
        sac=sac,
        num_features=192,  # 1,024 asked for, overwritten by the model-size block
        length_scale=2.5 if env == "spiral" else 1.0,
        readout="normal",
        prior_sees_action=False,
        corrector_polyak=0.01,
        bonus_has_novelty=False,
        normalise_value=False,
        reset_target=True,
    )
    task = run.env
    return replace(
        run,
        preset="authors",
        env=as_authors(task) if isinstance(task, PointMazeSettings) else task,
        agent=_for_agent(agent, devote),
        loop=replace(run.loop, updates_per_step=256 / 2080, reset_interval=50_000),
        steps={"deep_sea": 500_000, "spiral": 3_000_000, "u_maze": 3_000_000}[env],
    )


def desk(env: str, agent: str) -> Run:
    """Small networks and large steps for two CPU cores; docs/settings.md says why."""
    return _desk_deep_sea(agent) if env == "deep_sea" else _desk_maze(env, agent)


def smoke(env: str, agent: str) -> Run:
    """The desk recipe, so small that it runs in seconds."""
    run = desk(env, agent)
    settings = run.agent
    sac = settings.sac if isinstance(settings, DevoteSettings) else settings
    sac = replace(sac, critic_width=16, actor_width=16, input_features=8)
    devote = settings if isinstance(settings, DevoteSettings) else DevoteSettings()
    devote = replace(devote, sac=sac, num_indices=2, num_features=16)
    return replace(
        run,
        preset="smoke",
        env=DeepSeaSettings(size=8) if env == "deep_sea" else run.env,
        agent=_for_agent(agent, devote),
        loop=LoopSettings(
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
        ),
        steps=4_000,
    )


DESK_MAZE = DevoteSettings(
    sac=SacSettings(
        discount=0.98,
        polyak=0.2,
        critic_width=64,
        critic_depth=2,
        actor_width=64,
        actor_depth=2,
        value_head="scalar",
        learning_rate=3e-3,
        critic_weight_decay=0.0,
        initial_temperature=0.01,
        target_entropy_per_dimension=-0.25,
        scale_inputs=True,
        input_features=64,
        input_length=12.0,
        action_gain=5.0,
    ),
    num_indices=4,
    num_features=256,
    length_scale=2.5,
    readout="normal",
    prior_sees_action=False,
    corrector_rate=1e-3,
    corrector_polyak=0.005,
    reset_target=True,
)
DESK_MAZE_LOOP = LoopSettings(
    num_envs=32,
    updates_per_step=1 / 32,
    batch_size=256,
    replay_capacity=2_000_000,
    learning_starts=2_048,
    reset_interval=64_000,
    log_interval=16_000,
    eval_interval=320_000,
    checkpoint_interval=160_000,
)
DESK_DEEP_SEA = DevoteSettings(
    sac=SacSettings(
        discount=0.99,
        polyak=0.1,
        critic_width=64,
        critic_depth=2,
        actor_width=64,
        actor_depth=2,
        value_head="scalar",
        learning_rate=1e-3,
        critic_weight_decay=0.0,
        temperature_rate=3e-3,
        initial_temperature=0.1,
        target_entropy_fraction=0.3,
    ),
    num_indices=4,
    num_features=96,
    readout="normal",
    prior_sees_action=False,
    corrector_rate=1e-3,
    corrector_polyak=0.1,
    reset_target=True,
)
DESK_DEEP_SEA_LOOP = LoopSettings(
    num_envs=8,
    updates_per_step=0.25,
    batch_size=128,
    replay_capacity=1_000_000,
    learning_starts=512,
    reset_interval=8_000,
    log_interval=4_000,
    eval_interval=40_000,
    checkpoint_interval=40_000,
)


def _desk_maze(env: str, agent: str) -> Run:
    run = paper(env, agent)
    assert isinstance(run.env, PointMazeSettings)
    # at a step of 2 mere diffusion covers the U
    step_size, episode_length = (2.0, 250) if env == "spiral" else (0.5, 500)
    return replace(
        run,
        preset="desk",
        env=replace(run.env, step_size=step_size, episode_length=episode_length),
        agent=_for_agent(agent, DESK_MAZE),
        loop=DESK_MAZE_LOOP,
        steps=960_000 if env == "spiral" else 640_000,
    )


def _desk_deep_sea(agent: str) -> Run:
    return replace(
        paper("deep_sea", agent),
        preset="desk",
        agent=_for_agent(agent, DESK_DEEP_SEA),
        loop=DESK_DEEP_SEA_LOOP,
        steps=600_000,
    )


def _for_agent(agent: str, devote: DevoteSettings) -> AgentSettings:
    """The same backbone for every agent."""
    return devote if agent == "devote" else devote.sac


PRESETS: dict[str, Callable[[str, str], Run]] = {
    "paper": paper,
    "authors": authors,
    "desk": desk,
    "smoke": smoke,
}
