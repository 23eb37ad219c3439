"""Speed as ratios measured in one run: `make bench`.

Absolute times of these machines wander by a factor of two; each line compares programs that take
turns in the same minute. The yardstick of an update is what its own matrix products take: those of
the compiled program, duplicates removed, each at the better of NumPy (OpenBLAS) and XLA. The update
is timed as the loop runs it, with sampling and metrics.
"""

import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from devote.agents.devote import Devote, DevoteSettings
from devote.agents.normalised import normalised
from devote.core.types import Box, EnvSpec, Index, Transition, Vector
from devote.envs import DeepSea, DeepSeaSettings, PointMaze, spiral
from devote.loops.fused import FusedLoop
from devote.loops.loop import Loop
from devote.loops.schedule import LoopSettings
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


def looped(agent: Any, settings: LoopSettings) -> tuple[Loop, Any]:
    """The loop's own update, and a state with random experience for it."""
    loop = Loop(agent, agent.spec, replace(settings, replay_capacity=100_000))
    state, _ = jax.jit(loop.init)(jax.random.key(0))
    rng = np.random.default_rng(0)

    def filled(x: Any) -> Any:
        return x if x.dtype == bool else jnp.asarray(rng.uniform(-1, 1, x.shape), x.dtype)

    replay = jax.tree.map(filled, state.replay)
    replay = replay._replace(discount=jnp.ones_like(replay.discount))
    clock = state.clock._replace(vector_steps=jnp.int32(len(replay.first)))
    return loop, state._replace(replay=replay, clock=clock)


Shape = tuple[int, int, int, int]
"""Of a matrix product: batch, rows, inner size, columns."""
NAMED = re.compile(r"%([\w.-]+) = \w+\[([\d,]*)\]")
DOT = re.compile(r" dot\(%([\w.-]+), %([\w.-]+)\)(.*)")


def products(hlo: str) -> Counter[Shape]:
    """The matrix products in the text of a compiled program, none of them in a loop."""
    sizes = {name: [int(n) for n in dims.split(",") if n] for name, dims in NAMED.findall(hlo)}
    found: Counter[Shape] = Counter()
    for line in hlo.splitlines():
        if dot := DOT.search(line):
            left, right, rest = sizes[dot[1]], sizes[dot[2]], dot[3]
            inner = np.prod([left[i] for i in _dims(rest, "lhs_contracting_dims")], dtype=int)
            batch = np.prod([left[i] for i in _dims(rest, "lhs_batch_dims")], dtype=int)
            rows, columns = (np.prod(x, dtype=int) // inner // batch for x in (left, right))
            found[int(batch), int(rows), int(inner), int(columns)] += 1
    return found


def _dims(text: str, which: str) -> list[int]:
    match = re.search(which + r"=\{([\d,]*)\}", text)
    return [int(n) for n in match[1].split(",") if n] if match else []


def product_programs(shape: Shape, repeats: int) -> dict[str, Callable[[], Any]]:
    """Products of a shape, by NumPy and by XLA."""
    batch, rows, inner, columns = shape
    rng = np.random.default_rng(0)
    left = rng.normal(size=(batch, rows, inner)).astype(np.float32)
    right = rng.normal(size=(batch, inner, columns)).astype(np.float32)
    if batch == 1:
        left, right = left[0], right[0]
    out = left @ right
    lefts, right_held = jnp.stack([jnp.asarray(left)] * repeats), jnp.asarray(right)
    compiled = jax.jit(lambda lefts, right: jax.lax.map(lambda x: x @ right, lefts))

    def by_numpy() -> None:
        for _ in range(repeats):
            np.matmul(left, right, out=out)

    return {
        "numpy": by_numpy,
        "xla": lambda: jax.block_until_ready(compiled(lefts, right_held)),
    }


def update_against_products(
    agent: Any, settings: LoopSettings, repeats: int, seconds: float
) -> tuple[float, float, float]:
    """Update time over the time of its products; milliseconds; GFLOP/s of the products alone."""
    loop, state = looped(agent, settings)
    once = jax.jit(loop.update).lower(state).compile()
    shapes = products(once.as_text())
    many = jax.jit(
        lambda state: jax.lax.scan(lambda s, _: loop.update(s), state, length=repeats),
        donate_argnums=0,
    )
    held = [state]

    def update() -> None:
        held[0], metrics = many(held[0])
        jax.block_until_ready(metrics)

    programs: dict[str, Callable[[], Any]] = {"update": update}
    for shape in shapes:
        times = max(1, int(1e8 // np.prod(shape, dtype=float)))
        each = product_programs(shape, min(times, 32))
        programs |= {f"{name} {shape}": program for name, program in each.items()}
    best = alternate(programs, seconds)

    def taken(shape: Shape) -> float:
        times = min(max(1, int(1e8 // np.prod(shape, dtype=float))), 32)
        return min(best[f"numpy {shape}"], best[f"xla {shape}"]) / times

    ideal = sum(number * taken(shape) for shape, number in shapes.items())
    flops = sum(2.0 * number * np.prod(shape) for shape, number in shapes.items())
    each_update = best["update"] / repeats
    return each_update / ideal, each_update * 1e3, flops / ideal / 1e9


def users_agent() -> Any:
    """DEVOTE-plus with the desk preset's recipe for any task, at the sizes of a cheetah."""
    edges = (float("inf"),) * 17
    space = Vector(tuple(-edge for edge in edges), edges, own_units=True)
    run = desk("gymnasium", "devote-plus")
    return normalised(Devote, run.agent, EnvSpec("cheetah", space, Box(6), 1000))


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
        for name, agent, loop, repeats, wanted in (
            ("desk", Devote(small.agent, maze), small.loop, 50, "<= 2"),
            ("users' tasks", users_agent(), desk("gymnasium", "devote-plus").loop, 50, "<= 2"),
            ("paper", Devote(DevoteSettings(), maze), LoopSettings(), 1, "<= 1.3"),
        ):
            ratio, ms, rate = update_against_products(agent, loop, repeats, 30)
            what = f"{name} update ({ms:.1f} ms) / its products ({rate:.0f} GFLOP/s)"
            table.add_row(what, f"{ratio:.2f}", wanted)
        table.add_row("DeepSea 50 / vector update", f"{deep_sea_against_vector(10):.2f}", "<= 2")
        table.add_row("replay of 1M / of 10k", f"{replay_against_capacity(5):.2f}", "about 1")
        table.add_row("loop outside update and env", f"{loop_overhead(15):.1%}", "<= 10 %")
        table.add_row("XLA cosine / ours", f"{cosine_against_xla(3):.1f}", "> 1")
    console.print(table)


if __name__ == "__main__":
    main()
