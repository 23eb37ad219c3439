"""Lazy updates of lookup tables, equal to dense ones, around any agent.

A one-hot observation of 2,500 entries makes every first layer a table of 2,500 rows, of which a
batch of 128 transitions uses at most 256. The others have no gradient, but dense Adam and Polyak
steps would touch them too. So a row is brought up to date only when it is read (`core/missed.py`):
the agent sees a state whose tables hold the rows of the batch, and observations that index them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from devote.core.learning import Learned, Optimiser
from devote.core.missed import Row, caught_up, missed
from devote.core.types import Agent, EnvSpec, Index, Metrics, Observation, Transition, observe
from devote.nets.layers import Lookup


class LearningAgent(Agent, Protocol):
    """An agent that lists its optimisers and targets."""

    @property
    def learned(self) -> tuple[Learned, ...]:
        """Every part that an update moves by Adam; lookup tables outside of them stay fixed."""
        ...


class ByRowsState(NamedTuple):
    """The wrapped agent's state; table rows may lag behind."""

    agent: Any
    current: Int[Array, "rows"]
    """Number of updates when each row was last brought up to date."""
    updates: Int[Array, ""]


class Place(NamedTuple):
    """Leaf indices of a learned table, its moments and its target."""

    row: tuple[int, int, int, int | None]
    """In the order of `Row`."""
    optimiser: Optimiser
    rate: float


@dataclass(frozen=True)
class ByRows:
    """The wrapped agent, given the table rows it needs."""

    agent: LearningAgent

    @property
    def spec(self) -> EnvSpec:
        """The wrapped agent's."""
        return self.agent.spec

    @property
    def sequence_length(self) -> int:
        """The wrapped agent's."""
        return self.agent.sequence_length

    def init(self, key: PRNGKeyArray) -> ByRowsState:
        """A fresh state."""
        current = jnp.zeros(self.spec.observation.size, jnp.int32)
        return ByRowsState(self.agent.init(key), current, jnp.zeros((), jnp.int32))

    def remember(self, num_envs: int) -> Any:
        """The wrapped agent's memory."""
        return self.agent.remember(num_envs)

    def act(
        self, state: ByRowsState, memory: Any, obs: Observation, first: Array, key: PRNGKeyArray
    ) -> tuple[Array, Any]:
        """The wrapped agent's behaviour."""
        agent, obs = self.read(state, obs)
        return self.agent.act(agent, memory, obs, first, key)

    def exploit(
        self, state: ByRowsState, obs: Observation, key: PRNGKeyArray | None = None
    ) -> Array:
        """The wrapped agent's best guess, or with a key a draw."""
        agent, obs = self.read(state, obs)
        return self.agent.exploit(agent, obs, key)

    def observe(
        self,
        state: ByRowsState,
        steps: Transition,
        valid: Array | None,
        key: PRNGKeyArray,
        number: Int[Array, ""],
    ) -> ByRowsState:
        """The wrapped agent's; its counts are no learned tables."""
        return state._replace(agent=observe(self.agent, state.agent, steps, valid, key, number))

    def update(
        self, state: ByRowsState, batch: Transition, key: PRNGKeyArray
    ) -> tuple[ByRowsState, Metrics]:
        """The wrapped agent's update, of the rows in the batch."""
        rows, batch = named(batch, self.spec.observation.size)
        agent, metrics = self.agent.update(self.take(state, rows), batch, key)
        updates = state.updates + 1
        return ByRowsState(
            agent=self.put(state.agent, agent, rows),
            current=state.current.at[rows].set(updates, mode="drop", indices_are_sorted=True),
            updates=updates,
        ), metrics

    def refresh(self, state: ByRowsState, key: PRNGKeyArray) -> ByRowsState:
        """The wrapped agent's soft reset, which mixes whole tables."""
        state = self.flushed(state)
        return state._replace(agent=self.agent.refresh(state.agent, key))

    def diagnose(self, state: ByRowsState, batch: Transition) -> Metrics:
        """The wrapped agent's costly metrics."""
        agent, both = self.read(state, jnp.stack([batch.obs, batch.next_obs]))
        return self.agent.diagnose(agent, batch._replace(obs=both[0], next_obs=both[1]))

    def maps(self, state: ByRowsState, obs: Observation) -> dict[str, Array]:
        """The wrapped agent's maps."""
        return self.agent.maps(*self.read(state, obs))

    def flushed(self, state: ByRowsState) -> ByRowsState:
        """The state with every row up to date, as the dense agent has it."""
        rows = jnp.arange(self.spec.observation.size)
        return ByRowsState(
            self.take(state, rows), jnp.full_like(state.current, state.updates), state.updates
        )

    def read(self, state: ByRowsState, obs: Observation) -> tuple[Any, Observation]:
        """A state that holds the rows of these observations in order, and their new indices."""
        return self.take(state, obs.reshape(-1)), jnp.arange(obs.size).reshape(obs.shape)

    def take(self, state: ByRowsState, rows: Int[Array, "rows"]) -> Any:
        """The agent's state with tables of the given rows, up to date."""
        leaves, structure = _flat(state.agent)
        tables = [jnp.take(x.table, rows, -2, mode="clip") if _is_table(x) else x for x in leaves]
        gone = missed(jnp.take(state.current, rows, mode="clip"), state.updates)
        for place in self.places(leaves, structure):
            old: list[Any] = [None if at is None else tables[at] for at in place.row]
            new = caught_up(Row(*old), gone, place.optimiser, place.rate)
            for at, table in zip(place.row, new, strict=True):
                if at is not None:
                    tables[at] = table
        whole = [
            Lookup(new) if _is_table(old) else old for old, new in zip(leaves, tables, strict=True)
        ]
        return jax.tree.unflatten(structure, whole)

    def put(self, before: Any, after: Any, rows: Int[Array, "rows"]) -> Any:
        """`after`, its rows written into the full tables of `before`."""
        leaves, structure = _flat(before)
        learned = {at for place in self.places(leaves, structure) for at in place.row}

        def written(at: int, old: Any, new: Any) -> Any:
            if not _is_table(old):
                return new
            if at not in learned:
                return old
            table = old.table.at[..., rows, :].set(
                new.table, mode="drop", indices_are_sorted=True, unique_indices=True
            )
            return Lookup(table)

        pairs = enumerate(zip(leaves, _flat(after)[0], strict=True))
        return jax.tree.unflatten(structure, [written(at, *pair) for at, pair in pairs])

    def places(self, leaves: list[Any], structure: Any) -> Iterable[Place]:
        """Every learned table among the leaves of a state."""
        numbered = jax.tree.unflatten(structure, range(len(leaves)))
        for part in self.agent.learned:
            learner = part.learner(numbered)
            parts = [learner.net, learner.adam.mu, learner.adam.nu]
            found: list[list[int]] = [jax.tree.leaves(tree) for tree in parts]
            followers: list[Any] = [None] * len(found[0])
            if part.target is not None:
                followers = jax.tree.leaves(part.target(numbered))
            for row in zip(*found, followers, strict=True):
                if _is_table(leaves[row[0]]):
                    yield Place(row, part.optimiser, part.rate)


def by_rows(agent: LearningAgent) -> Agent:
    """The agent, wrapped if it has tables and Adam, whose missed steps have a closed form."""
    tables = isinstance(agent.spec.observation, Index)
    adam = all(part.optimiser.kind == "adam" for part in agent.learned)
    return ByRows(agent) if tables and adam else agent


def named(batch: Transition, size: int) -> tuple[Int[Array, "rows"], Transition]:
    """The distinct rows of a batch, sorted and padded with `size`, and the batch with observations
    as indices into them."""
    both = jnp.stack([batch.obs, batch.next_obs])
    rows = jnp.unique(both, size=min(both.size, size), fill_value=size)
    obs, next_obs = jnp.searchsorted(rows, both).astype(both.dtype)
    return rows, batch._replace(obs=obs, next_obs=next_obs)


def _flat(state: Any) -> tuple[list[Any], Any]:
    """Leaves and structure; a lookup table is a leaf."""
    return jax.tree.flatten(state, is_leaf=_is_table)


def _is_table(node: Any) -> bool:
    return isinstance(node, Lookup)
