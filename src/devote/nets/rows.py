"""Updates that touch only the rows of lookup tables that a batch names.

A one-hot observation of 2,500 entries makes every first layer a table of 2,500 rows, of which a
batch of 128 transitions can name 256. Gradients of all other rows are zero, yet a dense optimiser
and a dense Polyak step would pay for all of them. So an update runs on a copy of the state in
which each table holds just the named rows, and the rows are written back afterwards. Rows that
no batch names rest: their moments and targets do not decay meanwhile (as in "lazy" Adam).
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from devote.core.types import Index, Metrics, Transition, Vector
from devote.nets.layers import Lookup

T = TypeVar("T")


class Named(NamedTuple):
    """The distinct rows of a batch, in rising order, padded with an index past the last row."""

    rows: Int[Array, "rows"]


def _is_lookup(node: Any) -> bool:
    return isinstance(node, Lookup)


def name_rows(batch: Transition, space: Vector | Index) -> tuple[Named | None, Transition]:
    """The rows a batch names, and the batch with observations counted among them."""
    if isinstance(space, Vector):
        return None, batch
    both = jnp.concatenate([batch.obs, batch.next_obs])
    most = min(both.size, space.size)
    rows = jnp.unique(both, size=most, fill_value=space.size)
    obs, next_obs = jnp.split(jnp.searchsorted(rows, both).astype(both.dtype), 2)
    return Named(rows), batch._replace(obs=obs, next_obs=next_obs)


def take_rows(state: T, named: Named | None) -> T:
    """The state with every lookup table cut down to the named rows."""
    if named is None:
        return state

    def take(node: Any) -> Any:
        if not _is_lookup(node):
            return node
        return Lookup(jnp.take(node.table, named.rows, axis=-2, mode="clip"))

    return jax.tree.map(take, state, is_leaf=_is_lookup)


def put_rows(state: T, taken: T, update: T, named: Named | None) -> T:
    """`update`, which began as `taken`, with its rows written back into the tables of `state`."""
    if named is None:
        return update

    def put(old: Any, before: Any, new: Any) -> Any:
        if not _is_lookup(old):
            return new
        if new.table is before.table:  # frozen, as in a prior
            return old
        table = old.table.at[..., named.rows, :].set(
            new.table, mode="drop", indices_are_sorted=True, unique_indices=True
        )
        return Lookup(table)

    return jax.tree.map(put, state, taken, update, is_leaf=_is_lookup)


def learn_by_rows(
    learn: Callable[[T, Transition, PRNGKeyArray], tuple[T, Metrics]],
    space: Vector | Index,
    state: T,
    batch: Transition,
    key: PRNGKeyArray,
) -> tuple[T, Metrics]:
    """An update by `learn`, which is given only the rows that the batch names."""
    named, batch = name_rows(batch, space)
    taken = take_rows(state, named)
    learned, metrics = learn(taken, batch, key)
    return put_rows(state, taken, learned, named), metrics
