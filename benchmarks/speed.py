"""Speed as ratios measured in one run: `make bench`.

Absolute times of these machines wander by a factor of two; each line compares two programs
measured alternately in the same minute.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from devote.agents.devote import Devote, DevoteSettings
from devote.core.types import Box, EnvSpec, Index, Transition, Vector
from devote.envs import DeepSea, DeepSeaSettings, PointMaze, spiral
from devote.loops.fused import FusedLoop
from devote.nets.functions import cos
from devote.presets import desk
from devote.replay import Replay


def alternate(programs: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Best time of each program, taken in turns for about `seconds`."""
    for program in programs.values():
        program()
    best = dict.fromkeys(programs, float("inf"))
    end = time.perf_counter() + seconds
    rounds = 0
    while time.perf_counter() < end or rounds < 3:
        rounds += 1
        for name, program in programs.items():
            start = time.perf_counter()
            program()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def batch_for(spec: EnvSpec, size: int) -> Transition:
    """Random transitions of a task's shape."""
    generator = np.random.default_rng(0)
    if isinstance(spec.observation, Index):
        obs = jnp.asarray(generator.integers(spec.observation.size, size=(2, size)), jnp.int32)
    else:
        low, high = np.asarray(spec.observation.low), np.asarray(spec.observation.high)
        obs = jnp.asarray(generator.uniform(low, high, (2, size, low.size)), jnp.float32)
    if isinstance(spec.action, Box):
        action = jnp.asarray(generator.uniform(-1, 1, (size, spec.action.size)), jnp.float32)
    else:
        action = jax.nn.one_hot(generator.integers(spec.action.size, size=size), spec.action.size)
    zeros = jnp.zeros(size)
    return Transition(obs[0], action, zeros, zeros + 1, obs[1], zeros.astype(bool))


def updater(agent: Devote, batch: Transition, repeats: int) -> Callable[[], Any]:
    """`repeats` updates in one compiled scan, donated, as the loop runs them."""

    def run(state: Any, key: Any) -> Any:
        return jax.lax.scan(
            lambda s, k: (agent.update(s, batch, k)[0], None), state, jax.random.split(key, repeats)
        )[0]

    compiled = jax.jit(run, donate_argnums=0)
    held = [jax.jit(agent.init)(jax.random.key(0))]

    def once() -> None:
        held[0] = jax.block_until_ready(compiled(held[0], jax.random.key(1)))

    return once


def matmul_flops(function: Callable[..., Any], *inputs: Any) -> float:
    """FLOPs of every matrix product in a traced function, scans counted with their length."""

    def count(jaxpr: Any) -> float:
        total = 0.0
        for equation in jaxpr.eqns:
            if equation.primitive.name == "dot_general":
                (contract, _), (_batch_left, _) = equation.params["dimension_numbers"]
                left, _right = (v.aval for v in equation.invars)
                depth = np.prod([left.shape[i] for i in contract])
                total += 2 * depth * np.prod(equation.outvars[0].aval.shape)
            repeat = equation.params.get("length", 1)
            for inner in jax.tree.leaves(
                list(equation.params.values()), is_leaf=lambda x: isinstance(x, _JAXPRS)
            ):
                if isinstance(inner, _JAXPRS):
                    total += repeat * count(getattr(inner, "jaxpr", inner))
        return total

    return count(jax.make_jaxpr(function)(*inputs).jaxpr)


_JAXPRS = (jax.extend.core.Jaxpr, jax.extend.core.ClosedJaxpr)


def gemm(members: int, batch: int, width: int, repeats: int) -> tuple[Callable[[], Any], float]:
    """Chained batched products of a network's shape, and their FLOPs."""
    x = jnp.ones((members, batch, width)) * 1e-3
    w = jnp.ones((members, width, width)) * 1e-3

    @jax.jit
    def run(x: Any, w: Any) -> Any:
        return jax.lax.scan(lambda c, _: (c @ w, None), x, length=repeats)[0]

    flops = 2.0 * repeats * members * batch * width * width
    return lambda: jax.block_until_ready(run(x, w)), flops


def update_against_gemm(
    settings: DevoteSettings, spec: EnvSpec, batch_size: int, repeats: int, seconds: float
) -> tuple[float, float]:
    """Update time over the time of its own matrix products at GEMM rate, and milliseconds."""
    agent = Devote(settings, spec)
    batch = batch_for(spec, batch_size)
    state = jax.eval_shape(agent.init, jax.random.key(0))
    flops = matmul_flops(agent.update, state, batch, jax.random.key(0))
    product, product_flops = gemm(
        settings.num_indices, batch_size, settings.sac.critic_width, max(4, repeats)
    )
    best = alternate({"update": updater(agent, batch, repeats), "gemm": product}, seconds)
    per_update = best["update"] / repeats
    ideal = flops * best["gemm"] / product_flops
    return per_update / ideal, per_update * 1e3


def deep_sea_against_vector(seconds: float) -> float:
    """A DeepSea 50 update over the same update on a 10-dimensional observation."""
    run = desk("deep_sea", "devote")
    assert isinstance(run.agent, DevoteSettings)
    sea = DeepSea(DeepSeaSettings(size=50)).spec
    plain = replace(sea, observation=Vector((-1.0,) * 10, (1.0,) * 10))
    programs = {
        name: updater(Devote(run.agent, spec), batch_for(spec, run.loop.batch_size), 100)
        for name, spec in (("sea", sea), ("plain", plain))
    }
    best = alternate(programs, seconds)
    return best["sea"] / best["plain"]


def replay_against_capacity(seconds: float) -> float:
    """Add and sample in a ring of 1M over the same in a ring of 10k, 200 times in a scan."""
    spec = PointMaze(spiral()).spec

    def program(capacity: int) -> Callable[[], Any]:
        replay = Replay(spec, capacity, 32)
        step = jax.tree.map(lambda x: x[:32], batch_for(spec, 32))

        def body(carry: Any, key: Any) -> Any:
            storage, written, total = carry
            storage = replay.add(storage, written, step)
            batch = replay.sample(storage, written + 1, 256, key)
            return (storage, written + 1, total + batch.obs.sum()), None

        def run(storage: Any, key: Any) -> Any:
            start = (storage, jnp.int32(replay.num_rows), jnp.zeros(()))
            (storage, _, total), _ = jax.lax.scan(body, start, jax.random.split(key, 200))
            return storage, total

        compiled = jax.jit(run, donate_argnums=0)
        held = [replay.init()]

        def once() -> None:
            held[0], total = compiled(held[0], jax.random.key(0))
            jax.block_until_ready(total)

        return once

    best = alternate({"large": program(1_000_000), "small": program(10_000)}, seconds)
    return best["large"] / best["small"]


def loop_overhead(seconds: float) -> float:
    """Share of a desk chunk that is neither environment step nor update."""
    run = desk("spiral", "devote")
    env = PointMaze(run.env)  # type: ignore[arg-type]
    agent = Devote(run.agent, env.spec)  # type: ignore[arg-type]
    loop = FusedLoop(agent, env, run.loop)
    rounds = loop.settings.rounds_per_chunk()
    held = [jax.jit(loop.prefill)(jax.jit(loop.init)(jax.random.key(0)))]
    chunk = jax.jit(loop.chunk, donate_argnums=0)

    def whole() -> None:
        held[0], _ = jax.block_until_ready(chunk(held[0]))

    def steps(state: Any, key: Any) -> Any:
        worlds = jax.vmap(env.reset)(jax.random.split(key, run.loop.num_envs))

        def body(worlds: Any, key: Any) -> Any:
            obs = jax.vmap(env.observe)(worlds)
            action, _ = agent.act(state, (), obs, obs, key)
            worlds, _ = jax.vmap(env.step)(worlds, action, jax.random.split(key, obs.shape[0]))
            return worlds, None

        length = rounds * loop.loop.round.vector_steps
        return jax.lax.scan(body, worlds, jax.random.split(key, length))[0]

    acting = jax.jit(steps)
    start = jax.jit(agent.init)(jax.random.key(0))
    learning = updater(
        agent, batch_for(env.spec, run.loop.batch_size), rounds * loop.loop.round.updates
    )
    best = alternate(
        {
            "chunk": whole,
            "acting": lambda: jax.block_until_ready(acting(start, jax.random.key(2))),
            "learning": learning,
        },
        seconds,
    )
    return 1 - (best["acting"] + best["learning"]) / best["chunk"]


def cosine_against_xla(seconds: float) -> float:
    """XLA's cosine over ours, on 393k numbers."""
    x = jnp.linspace(-10, 10, 2048 * 192)
    ours, theirs = jax.jit(cos), jax.jit(jnp.cos)
    best = alternate(
        {
            "ours": lambda: jax.block_until_ready(ours(x)),
            "xla": lambda: jax.block_until_ready(theirs(x)),
        },
        seconds,
    )
    return best["xla"] / best["ours"]


def main() -> None:
    """Measure everything and print one table."""
    table = Table("what", "measured", "wanted")
    console = Console()
    maze = PointMaze(spiral()).spec
    small = desk("spiral", "devote")
    assert isinstance(small.agent, DevoteSettings)
    with console.status("measuring ..."):
        ratio, ms = update_against_gemm(small.agent, maze, small.loop.batch_size, 50, 10)
        table.add_row(f"desk update ({ms:.1f} ms) / its products", f"{ratio:.2f}", "<= 2.5")
        table.add_row("DeepSea 50 / vector update", f"{deep_sea_against_vector(10):.2f}", "<= 2")
        table.add_row("replay of 1M / of 10k", f"{replay_against_capacity(5):.2f}", "about 1")
        table.add_row("loop outside update and env", f"{loop_overhead(15):.1%}", "<= 10 %")
        table.add_row("XLA cosine / ours", f"{cosine_against_xla(3):.1f}", "> 1")
        ratio, ms = update_against_gemm(DevoteSettings(), maze, 2048, 1, 60)
        table.add_row(f"paper update ({ms / 1e3:.1f} s) / its products", f"{ratio:.2f}", "<= 1.5")
    console.print(table)


if __name__ == "__main__":
    main()
