"""Every agent and environment of the registry, at the size of the `smoke` preset.

A new agent or environment is picked up by its entry in `devote.build`.
"""

from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from devote.agents.devote import DevoteSettings
from devote.build import AGENTS, JAX_ENVS
from devote.core.types import Env
from devote.envs.brax import brax, playground
from devote.loops.fused import FusedLoop
from devote.loops.loop import RunState
from devote.presets import smoke

SEEDS = (3, 4)
ADAPTERS = (brax, playground)
EVERYWHERE = ("devote", "sac")
"""These are played in every kind of environment."""


def env(name: str) -> Env:
    """A small environment."""
    return JAX_ENVS[name](smoke(name, next(iter(AGENTS))).env)


def _kinds() -> list[str]:
    """One environment for each kind of observation and action."""
    kinds: dict[Any, str] = {}
    for name, build in JAX_ENVS.items():
        if build in ADAPTERS:  # slow to build, and vectors with boxes all of them
            continue
        spec = env(name).spec
        kinds.setdefault((type(spec.observation), type(spec.action)), name)
    return list(kinds.values())


def _pairs() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Every agent in every kind of environment: the pairs that are played, and those traced.

    Two agents are played in all kinds, every other class, prior, bonus or propagation in one.
    """
    kinds = _kinds()
    played: list[tuple[str, str]] = []
    known: list[Any] = []
    for agent in AGENTS:
        if _construction(agent) not in known:
            known.append(_construction(agent))
            turn = kinds[len(known) % len(kinds)]
            played += [(agent, task) for task in (kinds if agent in EVERYWHERE else [turn])]
    traced = [(agent, task) for agent in AGENTS for task in kinds if (agent, task) not in played]
    return played, traced


def _construction(agent: str) -> tuple[Any, ...]:
    """What makes an agent run other code than those before it."""
    settings = smoke("spiral", agent).agent
    if not isinstance(settings, DevoteSettings):
        return (AGENTS[agent].build,)
    return AGENTS[agent].build, settings.prior, settings.bonus, settings.propagation


PAIRS, TRACED = _pairs()
ONE_EACH = list({AGENTS[agent].build: (agent, task) for agent, task in PAIRS[::-1]}.values())
"""Every class of agents once."""


def shallow(settings: Any) -> Any:
    """The same settings with every network one layer deep: less to compile."""
    found: dict[str, Any] = {}
    for field in fields(settings):
        value = getattr(settings, field.name)
        if is_dataclass(value):
            found[field.name] = shallow(value)
        elif field.name.endswith("_depth"):
            found[field.name] = 1
    return replace(settings, **found)


@cache
def loop(agent: str, task: str) -> FusedLoop:
    """A small loop: 8 vector steps of prefill, chunks of 10 rounds."""
    run = smoke(task, agent)
    run = replace(run, agent=shallow(run.agent))
    built = JAX_ENVS[task](run.env)
    settings = replace(run.loop, num_envs=8, updates_per_step=1 / 16, log_interval=160)
    return FusedLoop(AGENTS[agent].build(run.agent, built.spec), built, settings)


class Played(NamedTuple):
    """A run of several seeds as one program, before and after a chunk."""

    start: RunState
    end: RunState
    metrics: Any


@cache
def _begin(agent: str, task: str) -> Any:
    program = loop(agent, task)

    def begin(key: jax.Array) -> tuple[RunState, RunState]:
        start = program.init(key)
        return start, program.prefill(start)

    return jax.jit(jax.vmap(begin))


@cache
def chunk(agent: str, task: str) -> Any:
    """A chunk of several seeds, compiled once."""
    return jax.jit(jax.vmap(loop(agent, task).chunk))


@cache
def played(agent: str, task: str, seeds: tuple[int, ...] = SEEDS) -> Played:
    """The seeds, each along the leading axis of everything."""
    keys = jnp.stack([jax.random.key(seed) for seed in seeds])
    start, filled = _begin(agent, task)(keys)
    return Played(start, *chunk(agent, task)(filled))


def seed(tree: Any, which: int) -> Any:
    """One seed of a run, cut out by NumPy: JAX would compile it for every shape."""
    return jax.tree.map(lambda x: _cut(x, which), tree)


def _cut(leaf: jax.Array, which: int) -> jax.Array:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return leaf[which]
    return jax.device_put(np.asarray(leaf)[which])
