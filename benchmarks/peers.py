"""SAC of ours beside SAC of Stable-Baselines3, SBX and Brax: `python benchmarks/peers.py`.

Install them by `pip install 'devote[peers,mujoco]'`; for SB3 without its GPU libraries, first
`pip install torch==2.13.0` from PyTorch's CPU index. What is not installed is left out.

Programs take turns. A round counts only if nothing else ran beside it: the processor time of all
other processes must stay below `--foreign` of a core. Ratios are medians over rounds, ours over
theirs, more than 1 meaning that we are faster. Equal for all: HalfCheetah-v5, two hidden layers of
256 units for actor and critics, batches of 256. Theirs have two scalar critics; our one two-hot
critic takes about as many FLOPs (`--head scalar` for a single scalar one).
"""

import argparse
import csv
import importlib.util
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

TASK, WIDTH, BATCH = "HalfCheetah-v5", 256, 256
OBS, ACTIONS = 17, 6
STARTS = 1_000
"""Environment steps before the first update."""
PEERS = {"sb3": "stable_baselines3", "sbx": "sbx", "brax": "brax", "envpool": "envpool"}
VERSIONS = {"sb3": "stable-baselines3", "sbx": "sbx-rl"}
"""Distributions that are not called like their module."""

Program = Callable[[int], None]
"""Does so many units of work, and returns when they are done."""


@dataclass(frozen=True)
class Measure:
    """What is compared: a unit of work, how many make a round, and the programs by name."""

    name: str
    unit: str
    number: int
    programs: dict[str, Callable[[], Program]]


def installed(peer: str) -> bool:
    """Whether a peer can be imported."""
    return importlib.util.find_spec(PEERS[peer]) is not None


# Ours.


def our_settings(head: str) -> Any:
    from devote.agents.sac import SacSettings

    return SacSettings(
        discount=0.99,
        critic_width=WIDTH,
        critic_depth=2,
        actor_width=WIDTH,
        actor_depth=2,
        value_head=head,  # type: ignore[arg-type]
        critic_weight_decay=0.0,
    )


def our_updates(head: str) -> Program:
    """Updates as the loop makes them, with sampling and metrics."""
    from devote.agents.normalised import normalised
    from devote.agents.sac import Sac
    from devote.core.types import Box, EnvSpec, Vector
    from devote.loops.loop import Loop
    from devote.loops.schedule import LoopSettings

    edges = (float("inf"),) * OBS
    low = tuple(-edge for edge in edges)
    spec = EnvSpec("cheetah", Vector(low, edges, own_units=True), Box(ACTIONS), 1000)
    agent = normalised(Sac, our_settings(head), spec)
    loop = Loop(agent, spec, LoopSettings(num_envs=1, batch_size=BATCH, replay_capacity=10_000))
    state, _ = jax.jit(loop.init)(jax.random.key(0))
    rng = np.random.default_rng(0)
    storage = state.replay._replace(
        obs=rng.normal(size=state.replay.obs.shape).astype(np.float32),
        next_obs=rng.normal(size=state.replay.obs.shape).astype(np.float32),
        action=rng.uniform(-1, 1, state.replay.action.shape).astype(np.float32),
        reward=rng.normal(size=state.replay.reward.shape).astype(np.float32),
        discount=np.ones_like(state.replay.discount),
    )
    clock = state.clock._replace(vector_steps=np.int32(10_000))
    held = [jax.device_put(state._replace(replay=storage, clock=clock))]
    many = jax.jit(
        lambda state: jax.lax.scan(lambda s, _: loop.update(s), state, length=UPDATES_AT_ONCE),
        donate_argnums=0,
    )

    def run(number: int) -> None:
        for _ in range(number // UPDATES_AT_ONCE):
            held[0], metrics = many(held[0])
        jax.block_until_ready(metrics)

    return run


UPDATES_AT_ONCE = 50


def our_loop(head: str, num_envs: int, overlap: bool) -> Program:
    """The loop on the host, one update per vector step."""
    from devote.agents.normalised import normalised
    from devote.agents.sac import Sac
    from devote.build import HOST_ENVS
    from devote.envs.gymnasium import GymnasiumSettings
    from devote.loops.host import HostProgram
    from devote.presets import desk

    run = desk("gymnasium", "sac")
    settings = replace(run.env, id=TASK) if isinstance(run.env, GymnasiumSettings) else run.env
    loop = replace(
        run.loop,
        num_envs=num_envs,
        updates_per_step=1 / num_envs,
        batch_size=BATCH,
        learning_starts=STARTS,
        replay_capacity=100_000,
        log_interval=LOOP_STEPS * num_envs,
        overlap=overlap,
    )

    def make(number: int) -> Any:
        return HOST_ENVS["gymnasium"](settings, number)

    env = make(num_envs)
    agent = normalised(Sac, our_settings(head), env.spec)
    program = HostProgram(agent, (env,), make, loop, (0,))
    held = [program.prefill(program.init())]

    def go(number: int) -> None:
        for _ in range(number // (LOOP_STEPS * num_envs)):
            held[0], metrics = program.chunk(held[0])
        jax.block_until_ready(metrics)

    return go


LOOP_STEPS = 200
"""Vector steps in a chunk of our loop."""


# Theirs. Their own defaults for what is not said here.


def their_model(peer: str, num_envs: int) -> Any:
    """SAC of SB3 or SBX, one update per vector step."""
    import gymnasium
    from stable_baselines3.common.vec_env import DummyVecEnv

    if peer == "sb3":
        from stable_baselines3 import SAC
    else:
        from sbx import SAC  # type: ignore[no-redef]
    env = DummyVecEnv([lambda: gymnasium.make(TASK)] * num_envs)
    return SAC(
        "MlpPolicy",
        env,
        batch_size=BATCH,
        learning_starts=STARTS,
        buffer_size=100_000,
        train_freq=1,
        gradient_steps=1,
        policy_kwargs={"net_arch": [WIDTH, WIDTH]},
        seed=0,
    )


def their_loop(peer: str, num_envs: int) -> Program:
    """SB3's or SBX's `learn`."""
    model = their_model(peer, num_envs)
    model.learn(STARTS + 10 * num_envs)
    return lambda number: model.learn(number, reset_num_timesteps=False)


def their_updates(peer: str) -> Program:
    """SB3's or SBX's `train` on what a short run has stored."""
    model = their_model(peer, 1)
    model.learn(STARTS + 10)

    def run(number: int) -> None:
        model.train(gradient_steps=number, batch_size=BATCH)
        if peer == "sbx":
            jax.block_until_ready(model.policy.qf_state.params)

    return run


def brax_updates() -> Program:
    """Brax's three losses and steps, as `brax.training.agents.sac.train` puts them together."""
    import jax.numpy as jnp
    import optax
    from brax.training import gradients
    from brax.training.agents.sac import losses, networks
    from brax.training.types import Transition

    sizes = (WIDTH, WIDTH)
    nets = networks.make_sac_networks(OBS, ACTIONS, hidden_layer_sizes=sizes)
    alpha_loss, critic_loss, actor_loss = losses.make_losses(
        sac_network=nets, reward_scaling=1.0, discounting=0.99, action_size=ACTIONS
    )
    optimisers = [optax.adam(rate) for rate in (3e-4, 3e-4, 3e-4)]
    step = [
        gradients.gradient_update_fn(loss, optimiser, pmap_axis_name=None)
        for loss, optimiser in zip((alpha_loss, critic_loss, actor_loss), optimisers, strict=True)
    ]
    key = jax.random.key(0)
    alpha, q, policy = jnp.zeros(()), nets.q_network.init(key), nets.policy_network.init(key)
    state = (alpha, q, policy, q, *(o.init(p) for o, p in zip(optimisers, (alpha, q, policy))))  # noqa: B905
    rng, rows = np.random.default_rng(0), 10_000
    storage = Transition(
        observation=jnp.asarray(rng.normal(size=(rows, OBS)), jnp.float32),
        action=jnp.asarray(rng.uniform(-1, 1, (rows, ACTIONS)), jnp.float32),
        reward=jnp.asarray(rng.normal(size=rows), jnp.float32),
        discount=jnp.ones(rows),
        next_observation=jnp.asarray(rng.normal(size=(rows, OBS)), jnp.float32),
        extras={"state_extras": {"truncation": jnp.zeros(rows)}, "policy_extras": {}},
    )

    def update(state: Any, key: Any) -> tuple[Any, Any]:
        alpha, q, policy, target, *moments = state
        sample_key, alpha_key, critic_key, actor_key = jax.random.split(key, 4)
        rows_drawn = jax.random.randint(sample_key, (BATCH,), 0, rows)
        batch = jax.tree.map(lambda x: x[rows_drawn], storage)
        _, alpha_after, moments[0] = step[0](
            alpha, policy, None, batch, alpha_key, optimizer_state=moments[0]
        )
        level = jnp.exp(alpha)
        loss, q_after, moments[1] = step[1](
            q, policy, None, target, level, batch, critic_key, optimizer_state=moments[1]
        )
        _, policy_after, moments[2] = step[2](
            policy, None, q, level, batch, actor_key, optimizer_state=moments[2]
        )
        target = jax.tree.map(lambda old, new: old * 0.995 + new * 0.005, target, q_after)
        return (alpha_after, q_after, policy_after, target, *moments), loss

    many = jax.jit(
        lambda state, key: jax.lax.scan(update, state, jax.random.split(key, UPDATES_AT_ONCE)),
        donate_argnums=0,
    )
    held = [jax.tree.map(jnp.array, state)]

    def run(number: int) -> None:
        for i in range(number // UPDATES_AT_ONCE):
            held[0], loss = many(held[0], jax.random.key(i))
        jax.block_until_ready(loss)

    return run


# Physics.

PHYSICS_ENVS = 64


def our_physics() -> Program:
    """Our Cheetah, random actions."""
    from devote.build import HOST_ENVS
    from devote.presets import desk

    env = HOST_ENVS["cheetah"](desk("cheetah", "sac").env, PHYSICS_ENVS)
    key, rng = jax.random.key(0), np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (16, PHYSICS_ENVS, ACTIONS)).astype(np.float32)
    env.reset(key)

    def run(number: int) -> None:
        for t in range(number // PHYSICS_ENVS):
            env.step(actions[t % 16], key)

    return run


def envpool_physics() -> Program:
    """EnvPool's CheetahRun of dm_control, random actions."""
    import envpool

    cores = os.cpu_count() or 1
    env = envpool.make("CheetahRun-v1", "gymnasium", num_envs=PHYSICS_ENVS, num_threads=cores)
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (16, PHYSICS_ENVS, ACTIONS)).astype(np.float32)
    env.reset()

    def run(number: int) -> None:
        for t in range(number // PHYSICS_ENVS):
            env.step(actions[t % 16])

    return run


# Turns.


def measures(head: str, scale: float) -> list[Measure]:
    """All that is compared, with what is installed."""
    ours = f"ours, {head}"
    updates: dict[str, Callable[[], Program]] = {ours: lambda: our_updates(head)}
    for peer in ("sb3", "sbx"):
        if installed(peer):
            updates[peer] = lambda peer=peer: their_updates(peer)  # type: ignore[misc]
    if installed("brax"):
        updates["brax"] = brax_updates
    found = [Measure("updates only", "updates", _whole(500 * scale, UPDATES_AT_ONCE), updates)]
    for envs in (1, 8):
        loops: dict[str, Callable[[], Program]] = {
            f"{ours}, side by side": lambda envs=envs: our_loop(head, envs, True),  # type: ignore[misc]
            f"{ours}, in turn": lambda envs=envs: our_loop(head, envs, False),  # type: ignore[misc]
        }
        for peer in ("sb3", "sbx"):
            if installed(peer):
                loops[peer] = lambda peer=peer, envs=envs: their_loop(peer, envs)  # type: ignore[misc]
        number = _whole(400 * scale, LOOP_STEPS) * envs
        name = f"whole loop, {envs} environment{'s' * (envs > 1)}"
        found.append(Measure(name, "steps", number, loops))
    if installed("envpool") and importlib.util.find_spec("mujoco"):
        pools = {"ours": our_physics, "envpool": envpool_physics}
        found.append(Measure("physics, cheetah", "steps", _whole(64_000 * scale, 64), pools))
    return found


def _whole(number: float, unit: int) -> int:
    return max(1, round(number / unit)) * unit


def foreign_time() -> float:
    """Processor seconds of all processes but this one, so far (Linux)."""
    tick = os.sysconf("SC_CLK_TCK")
    fields = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    busy = sum(fields[:3]) + sum(fields[5:8])  # not idle, not waiting for a disk
    return busy / tick - time.process_time()


def turns(
    measure: Measure, rounds: int, foreign: float, console: Console
) -> tuple[dict[str, np.ndarray], int]:
    """Units per second of each program in every quiet round, and the rounds that were dropped."""
    programs = {}
    for name, make in measure.programs.items():
        console.print(f"preparing {measure.name}: {name}", highlight=False)
        programs[name] = make()
        programs[name](measure.number)
    kept: list[list[float]] = []
    dropped = 0
    while len(kept) < rounds and dropped < 3 * rounds:
        rates, quiet = [], True
        for program in programs.values():
            begun, others = time.perf_counter(), foreign_time()
            program(measure.number)
            elapsed = time.perf_counter() - begun
            rates.append(measure.number / elapsed)
            quiet &= foreign_time() - others < foreign * elapsed
        kept += [rates] * quiet
        dropped += not quiet
    columns = np.array(kept).reshape(-1, len(programs)).T
    return dict(zip(programs, columns, strict=True)), dropped


def main() -> int:
    """Measure, print and write one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--head", default="two_hot", choices=("scalar", "two_hot"))
    parser.add_argument("--rounds", type=int, default=15, help="quiet rounds of each comparison")
    parser.add_argument("--scale", type=float, default=1.0, help="length of a round")
    parser.add_argument("--only", default="", help="part of the name of a comparison")
    parser.add_argument("--foreign", type=float, default=0.05, help="load of others, in cores")
    parser.add_argument(
        "--out", type=Path, help="folder for the table, such as results/speed/peers"
    )
    asked = parser.parse_args()
    console, rows, code = Console(), [], 0
    for measure in measures(asked.head, asked.scale):
        if asked.only not in measure.name:
            continue
        rates, dropped = turns(measure, asked.rounds, asked.foreign, console)
        first = next(iter(rates.values()))
        if not first.size:
            console.print(f"{measure.name}: no quiet round in {dropped}; wait for an idle machine")
            code = 1
            continue
        table = Table(measure.name, measure.unit + "/s", "ours / this", "rounds", "dropped")
        for name, found in rates.items():
            ratio = first / found
            row = [name, f"{np.median(found):.0f}", f"{np.median(ratio):.2f}"]
            spread = f"{np.percentile(ratio, 25):.2f} to {np.percentile(ratio, 75):.2f}"
            rows.append([measure.name, *row, spread, str(len(found)), str(dropped)])
            table.add_row(row[0], row[1], f"{row[2]} ({spread})", str(len(found)), str(dropped))
        console.print(table)
    if asked.out and rows:
        write(asked.out, rows)
    return code


def write(folder: Path, rows: list[list[str]]) -> None:
    """The table, and by which command, when and on what it was made."""
    folder.mkdir(parents=True, exist_ok=True)
    header = ["what", "program", "per_second", "ours_over_this", "quartiles", "rounds", "dropped"]
    with (folder / "peers.csv").open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    packages = ["devote", "jax", *(VERSIONS.get(peer, peer) for peer in PEERS if installed(peer))]
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in packages)
    (folder / "README.md").write_text(
        f"# Beside other libraries\n\n`{' '.join(['python', *sys.argv])}` on {date.today()}; "
        f"{machine()}; {versions}.\n`benchmarks/peers.py` says what is compared.\n"
    )


def machine() -> str:
    """Processor and cores."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor()}, {os.cpu_count()} cores"


if __name__ == "__main__":
    sys.exit(main())
