"""Small settings, specs, batches and states that the tests share."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from devote.agents.devote import Devote, DevoteSettings
from devote.agents.model_uncertainty import UncertaintySettings
from devote.agents.sac import Sac, SacSettings
from devote.agents.world_model import WorldModelSettings
from devote.build import AGENTS
from devote.core.learning import Learner
from devote.core.types import Box, Choice, EnvSpec, Index, Transition, Vector

SAC = SacSettings(
    discount=0.8,
    polyak=0.1,
    critic_width=16,
    critic_depth=2,
    actor_width=16,
    actor_depth=2,
    value_head="scalar",  # noise on a two-hot head gives values of 1e6, which hide all else
    learning_rate=3e-3,
)
DEVOTE = DevoteSettings(sac=SAC, num_indices=3, num_features=32)
UNCERTAINTY = UncertaintySettings(
    model=WorldModelSettings(
        model_width=8,
        model_depth=2,
        memory_size=8,
        memory_blocks=2,
        code_groups=2,
        code_classes=3,
    ),
    sequence_length=4,
    num_guessers=3,
    guesser_width=8,
    embedding_size=4,
)
SPECS = {
    "continuous": EnvSpec("tiny", Vector((-2.0,) * 3, (2.0,) * 3), Box(2), 10),
    "discrete": EnvSpec("tiny", Index(12), Choice(3), 10),
}


def slow_but(kept: Iterable[Any], cases: Iterable[Any]) -> list[Any]:
    """Cases to parametrise with, all but some of them marked `slow`."""
    left = list(kept)
    marked = []
    for case in cases:
        values = case if isinstance(case, tuple) else (case,)
        marked.append(pytest.param(*values, marks=() if case in left else pytest.mark.slow))
    assert sum(not case.marks for case in marked) == len(left), "a case that is kept is not there"
    return marked


def sac(kind: str, **changes: Any) -> Sac:
    return Sac(replace(SAC, **changes), SPECS[kind])


def devote(kind: str, **changes: Any) -> Devote:
    return Devote(replace(DEVOTE, **changes), SPECS[kind])


def registered(name: str, kind: str, **changes: Any) -> Any:
    """Any agent of the registry, as small as the others here."""
    entry = AGENTS[name]
    return entry.build(replace(entry.like(DEVOTE), **changes), SPECS[kind])


@cache
def fresh(agent: Any, seed: int = 0) -> Any:
    """The agent's initial state; compiled once, and NumPy does all other drawing here."""
    return jax.jit(agent.init)(jax.random.key(seed))


def some_batch(seed: int, spec: EnvSpec, size: int = 24) -> Transition:
    """Random transitions, about a quarter of them terminal."""
    rng = np.random.default_rng(seed)

    def observations() -> jax.Array:
        if isinstance(spec.observation, Index):
            return jnp.asarray(rng.integers(spec.observation.size, size=size), jnp.int32)
        return jnp.asarray(rng.normal(size=(size, spec.observation.size)), jnp.float32)

    if isinstance(spec.action, Choice):
        action = np.eye(spec.action.size)[rng.integers(spec.action.size, size=size)]
    else:
        action = rng.uniform(-1, 1, size=(size, spec.action.size))
    return Transition(
        obs=observations(),
        action=jnp.asarray(action, jnp.float32),
        reward=jnp.asarray(rng.normal(size=size), jnp.float32),
        discount=jnp.asarray(rng.uniform(size=size) < 0.75, jnp.float32),
        next_obs=observations(),
        first=jnp.zeros(size, bool),
    )


def shaken(seed: int, state: Any, by: float = 0.3) -> Any:
    """The state with noise on every parameter, so that nothing is 0 or equal to its target."""
    rng = np.random.default_rng(seed)

    def shake(node: Any) -> Any:
        if isinstance(node, Learner):
            return Learner(shaken(seed + 1, node.net, by), node.moments)
        if not jnp.issubdtype(node.dtype, jnp.floating):
            return node
        return jnp.asarray(np.asarray(node) + by * rng.normal(size=node.shape), node.dtype)

    return jax.tree.map(shake, state, is_leaf=lambda node: isinstance(node, Learner))


def named_leaves(tree: Any) -> dict[str, np.ndarray]:
    """Every leaf by the name of its path."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path): _plain(leaf) for path, leaf in leaves}


def _plain(leaf: Any) -> np.ndarray:
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)


def shared(net: Any) -> dict[str, np.ndarray]:
    """All leaves but lookup tables, whose rows outside a batch rest."""
    return {n: leaf for n, leaf in named_leaves(net).items() if not n.endswith(".table")}


def changed_leaves(before: Any, after: Any) -> set[str]:
    """Names of the leaves that are not bit for bit the same."""
    old, new = named_leaves(before), named_leaves(after)
    assert old.keys() == new.keys()
    return {name for name in old if not np.array_equal(old[name], new[name], equal_nan=True)}


def assert_close(one: Any, other: Any, **tolerance: float) -> None:
    """Every leaf of two trees of the same structure agrees."""
    ours, theirs = named_leaves(one), named_leaves(other)
    assert ours.keys() == theirs.keys()
    for name, leaf in ours.items():
        np.testing.assert_allclose(leaf, theirs[name], err_msg=name, **tolerance)
