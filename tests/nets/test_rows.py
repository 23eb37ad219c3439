"""Updating only the named rows is the dense update, except that all other rows rest."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from devote.core.learning import Optimiser
from devote.core.types import Index
from devote.nets.layers import Lookup
from devote.nets.rows import name_rows, put_rows, take_rows
from tiny import SPECS, changed_leaves, devote, fresh, named_leaves, sac, shaken, some_batch

AGENTS = {"sac": sac("discrete"), "devote": devote("discrete")}
VISITED = [1, 4, 6, 7, 11]


def crowded_batch():
    """Many transitions among a few rows, so that most rows appear several times."""
    batch = some_batch(0, SPECS["discrete"])
    return batch._replace(
        obs=jnp.asarray(VISITED)[batch.obs % 5], next_obs=jnp.asarray(VISITED)[batch.next_obs % 5]
    )


@cache
def both_updates(name):
    """A state, the state after an update by rows, and after the dense one."""
    agent, batch, key = AGENTS[name], crowded_batch(), jax.random.key(3)
    state = shaken(2, fresh(agent))
    by_rows, _ = jax.jit(agent.update)(state, batch, key)
    dense, _ = jax.jit(agent.learn)(state, batch, key)
    return named_leaves(state), named_leaves(by_rows), named_leaves(dense)


@pytest.mark.parametrize("name", AGENTS)
def test_named_rows_and_all_other_parameters_learn_as_in_the_dense_update(name) -> None:
    before, by_rows, dense = both_updates(name)
    moved = 0
    for leaf, new in by_rows.items():
        pick = (..., VISITED, slice(None)) if leaf.endswith(".table") else ...
        np.testing.assert_allclose(new[pick], dense[leaf][pick], atol=2e-5, err_msg=leaf)
        moved += leaf.endswith(".table") and not np.allclose(new[pick], before[leaf][pick])
    assert moved >= 6  # actor and critic: parameters and both moments


@pytest.mark.parametrize("name", AGENTS)
def test_rows_of_no_batch_rest(name) -> None:
    before, by_rows, _ = both_updates(name)
    resting = [row for row in range(12) if row not in VISITED]
    tables = [leaf for leaf in by_rows if leaf.endswith(".table")]
    assert tables
    for leaf in tables:
        np.testing.assert_array_equal(by_rows[leaf][..., resting, :], before[leaf][..., resting, :])


def test_named_rows_are_distinct_and_the_batch_points_at_them() -> None:
    batch = crowded_batch()
    named, renamed = name_rows(batch, Index(12))
    assert named.rows[:5].tolist() == VISITED
    assert (named.rows[5:] == 12).all()
    np.testing.assert_array_equal(named.rows[renamed.obs], batch.obs)
    np.testing.assert_array_equal(named.rows[renamed.next_obs], batch.next_obs)


def test_there_are_never_more_rows_than_the_table_has() -> None:
    batch = some_batch(0, SPECS["discrete"])
    named, renamed = name_rows(batch, Index(12))
    assert named.rows.tolist() == list(range(12))
    np.testing.assert_array_equal(renamed.obs, batch.obs)
    few, _ = name_rows(jax.tree.map(lambda x: x[:3], batch), Index(12))
    assert few.rows.size == 6


def test_padding_enters_no_norm() -> None:
    table = Lookup(jnp.ones((12, 2)).at[-1].set(100.0))  # padding is read from the last row
    batch = crowded_batch()
    batch = batch._replace(obs=batch.obs % 11, next_obs=batch.next_obs % 11)
    named, renamed = name_rows(batch, Index(12))
    assert (named.rows == 12).any()
    optimiser = Optimiser(rate=0.1, kind="laprop")

    @jax.jit
    def squares(lookup, obs):
        """The second moments of a step of which clipping leaves little."""
        learner, _ = optimiser.descend(
            optimiser.start(lookup), lambda net: (1e3 * net(obs).sum(), {})
        )
        return learner.moments[1].nu.table

    by_rows = squares(take_rows(table, named), renamed.obs)[renamed.obs]
    assert (by_rows > 0).all()
    np.testing.assert_allclose(by_rows, squares(table, batch.obs)[batch.obs], rtol=1e-5)
    alone = squares(Lookup(jnp.ones((11, 2))), batch.obs)[batch.obs]
    np.testing.assert_allclose(by_rows, alone, rtol=1e-5)


def test_taking_and_putting_back_changes_nothing() -> None:
    state = fresh(AGENTS["devote"])
    named, _ = name_rows(crowded_batch(), Index(12))
    taken = jax.jit(take_rows)(state, named)
    copied = jax.tree.map(np.copy, taken)
    assert not changed_leaves(state, jax.jit(put_rows)(state, taken, copied, named))


def test_vector_observations_have_no_rows() -> None:
    batch = some_batch(0, SPECS["continuous"])
    named, same = name_rows(batch, SPECS["continuous"].observation)
    assert named is None
    assert same is batch
