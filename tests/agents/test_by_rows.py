"""Updates by rows are the dense updates of Adam and Polyak, up to rounding."""

from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from devote.agents.by_rows import ByRows, Row, by_rows, caught_up, missed
from devote.build import AGENTS
from devote.core.learning import Optimiser
from devote.core.types import Choice, EnvSpec, Index, Transition
from devote.nets.layers import Lookup
from tiny import DEVOTE, UNCERTAINTY, changed_leaves, slow_but

ROWS, COMMON = 24, 6
SPEC = EnvSpec("tiny", Index(ROWS), Choice(3), 10)
KEY = jax.random.key(0)
OWN: dict[str, Any] = {"sombrl": {"uncertainty": UNCERTAINTY}}


def close(ours: Any, theirs: Any, most: float) -> None:
    """Every leaf to a share of its largest entry."""
    paths = jax.tree_util.tree_leaves_with_path(theirs)
    for mine, (path, other) in zip(jax.tree.leaves(ours), paths, strict=True):
        mine, other = np.asarray(mine, np.float64), np.asarray(other, np.float64)
        scale = max(np.abs(other).max(initial=0), 1e-12)
        worst = np.abs(mine - other).max(initial=0) / scale
        assert worst <= most, f"{jax.tree_util.keystr(path)}: {worst:.1e}"


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize("polyak", [0.005, 0.2, 1.0])
def test_a_row_named_once_in_a_thousand_updates_is_where_dense_adam_has_it(decay, polyak) -> None:
    steps, rows, columns = 5_000, 12, 5
    optimiser = Optimiser(1e-3, decay)
    rng = np.random.default_rng(0)
    chance = np.array([1.0, 0.5, 0.1, 0.03, 0.01, *[0.001] * 7])
    named = rng.random((steps, rows)) < chance
    named[0] = named[1] = True
    gradients = rng.normal(size=(steps, rows, columns)) * 10.0 ** rng.integers(-5, 1, (1, rows, 1))
    start = jnp.asarray(rng.normal(size=(rows, columns)), jnp.float32)

    def dense(carry: Any, now: Any) -> tuple[Any, None]:
        net, moments, target = carry
        seen, gradient = now
        gradient = Lookup(jnp.where(seen[:, None], gradient, 0.0))
        change, moments = optimiser.transform().update(gradient, moments, net)
        net = optax.apply_updates(net, change)
        follow = (1 - polyak) * target + polyak * net.table
        return (net, moments, follow), None

    def lazy(carry: Any, now: Any) -> tuple[Any, None]:
        row, current, updates = carry
        seen, gradient = now
        ready = caught_up(row, missed(current, updates), optimiser, polyak)
        net, moments = Lookup(ready.net), optimiser.transform().init(Lookup(ready.net))
        adam = moments[0]._replace(count=updates, mu=Lookup(ready.first), nu=Lookup(ready.second))
        change, (adam, *_) = optimiser.transform().update(
            Lookup(gradient), (adam, *moments[1:]), net
        )
        new = net.table + change.table
        follow = (1 - polyak) * ready.target + polyak * new
        after = Row(new, adam.mu.table, adam.nu.table, follow)
        kept = jax.tree.map(lambda a, b: jnp.where(seen[:, None], a, b), after, row)
        return (kept, jnp.where(seen, updates + 1, current), updates + 1), None

    inputs = (jnp.asarray(named), jnp.asarray(gradients, jnp.float32))
    first = Lookup(start)
    (net, moments, target), _ = jax.jit(
        lambda: jax.lax.scan(dense, (first, optimiser.transform().init(first), start), inputs)
    )()
    zero = jnp.zeros_like(start)
    begun = (Row(start, zero, zero, start), jnp.zeros(rows, jnp.int32), jnp.int32(0))
    (row, current, updates), _ = jax.jit(lambda: jax.lax.scan(lazy, begun, inputs))()
    assert (np.asarray(updates - current) > 100).any()  # there is something to catch up with
    row = caught_up(row, missed(current, updates), optimiser, polyak)
    wanted = Row(net.table, moments[0].mu.table, moments[0].nu.table, target)
    for name in ("net", "target"):
        close(getattr(row, name), getattr(wanted, name), 1e-5)
    for name in ("first", "second"):  # of each row on its own: some have all but decayed
        ours, theirs = (np.asarray(getattr(r, name), np.float64) for r in (row, wanted))
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=1e-30)


def rare_batch(seed: int, spec: EnvSpec, size: int = 12) -> Transition:
    """Mostly common rows, and now and then a rare one."""
    rng = np.random.default_rng(seed)

    def states() -> jax.Array:
        drawn = np.where(
            rng.random(size) < 0.02, rng.integers(ROWS, size=size), rng.integers(COMMON, size=size)
        )
        return jnp.asarray(drawn, jnp.int32)

    return Transition(
        obs=states(),
        action=jnp.asarray(np.eye(3)[rng.integers(3, size=size)], jnp.float32),
        reward=jnp.asarray(rng.normal(size=size), jnp.float32),
        discount=jnp.asarray(rng.random(size) < 0.8, jnp.float32),
        next_obs=states(),
        first=jnp.zeros(size, bool),
    )


@cache
def pair(name: str) -> tuple[Any, ByRows]:
    """The dense agent and the same by rows."""
    devote = replace(DEVOTE, sac=replace(DEVOTE.sac, critic_weight_decay=0.1))
    settings = replace(AGENTS[name].like(devote), **OWN.get(name, {}))
    dense = AGENTS[name].build(settings, SPEC)
    lazy = by_rows(dense)
    assert isinstance(lazy, ByRows)
    return dense, lazy


@cache
def taught(agent: Any) -> Any:
    """Twenty updates on batches that are given, compiled once."""

    def step(state: Any, now: Any) -> tuple[Any, None]:
        return agent.update(state, *now)[0], None

    return jax.jit(lambda state, given: jax.lax.scan(step, state, given)[0])


def learned(agent: Any, updates: int, refresh_at: int | None = None) -> Any:
    batches = [rare_batch(seed, SPEC) for seed in range(updates)]
    stacked = jax.tree.map(lambda *x: np.stack(x), *batches)
    keys = jax.random.split(KEY, updates)
    state = jax.jit(agent.init)(jax.random.key(1))
    for at in range(0, updates, 20):
        if at == refresh_at:
            state = jax.jit(agent.refresh)(state, KEY)
        now = jax.tree.map(lambda x, at=at: x[at : at + 20], (stacked, keys))
        state = taught(agent)(state, now)
    return state


NAMES = ("sac", "devote", "devote-plus", "devote-no-tud", "rnd-classic", "thompson")


@pytest.mark.parametrize("name", slow_but(NAMES[:2], NAMES))
def test_an_agent_by_rows_is_the_dense_agent(name) -> None:
    dense, lazy = pair(name)
    wanted, found = learned(dense, 60), learned(lazy, 60)
    assert (np.asarray(found.updates - found.current) > 3).any()
    close(jax.jit(lazy.flushed)(found).agent, wanted, 1e-3)
    obs = jnp.arange(ROWS)
    close(jax.jit(lazy.exploit)(found, obs), jax.jit(dense.exploit)(wanted, obs), 1e-3)
    close(jax.jit(lazy.maps)(found, obs), jax.jit(dense.maps)(wanted, obs), 1e-3)
    batch = rare_batch(99, SPEC)
    close(jax.jit(lazy.diagnose)(found, batch), jax.jit(dense.diagnose)(wanted, batch), 1e-3)


@pytest.mark.slow
def test_a_soft_reset_mixes_tables_that_are_up_to_date() -> None:
    dense, lazy = pair("devote")
    wanted, found = learned(dense, 60, refresh_at=40), learned(lazy, 60, refresh_at=40)
    close(jax.jit(lazy.flushed)(found).agent, wanted, 1e-3)


@pytest.mark.slow
def test_every_table_of_sombrl_that_learns_is_declared() -> None:
    dense, lazy = pair("sombrl")  # of all others the whole state was compared
    state = jax.jit(dense.init)(KEY)
    size = max(dense.sequence_length, 1) * 6
    batch = rare_batch(1, SPEC, size)
    after, _ = jax.jit(dense.update)(state, batch, KEY)
    leaves, structure = jax.tree.flatten(state, is_leaf=lambda x: isinstance(x, Lookup))
    later = jax.tree.leaves(after, is_leaf=lambda x: isinstance(x, Lookup))
    declared = {at for place in lazy.places(leaves, structure) for at in place.row}
    for at, (old, new) in enumerate(zip(leaves, later, strict=True)):
        if isinstance(old, Lookup) and changed_leaves(old, new):
            assert at in declared
