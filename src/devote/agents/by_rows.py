"""Lazy updates of lookup tables, equal to dense ones, around any agent.

A one-hot observation of 2,500 entries makes every first layer a table of 2,500 rows, of which a
batch of 128 transitions uses at most 256. The others have no gradient, but dense Adam and Polyak
steps would touch them too. So a row is brought up to date only when it is read: the agent sees a
state whose tables hold the rows of the batch, and observations that index them.

A row of a lookup table that no batch names has a gradient of zero, but it does not rest: its
moments decay, what is left of them moves it, weight decay shrinks it, and its target follows. All
of that is a function of where the row was and of how many steps it missed. With moments m and v
after update t, the k-th missed step of Adam is (the learning rate left out)

    a_k = w_k u_k m / (sqrt(v) + eps u_k),   w_k = beta1^k / (1 - beta1^(t + k)),
                                             u_k = sqrt((1 - beta2^(t + k)) / beta2^k),

and parameters and target are weighted sums of these steps. The weights and all w and u are numbers
of a row, the same for every column. Only eps ties them to the columns, and a sum of c_k a_k is

    A m / (sqrt(v) + eps B / A),   A = sum c_k w_k u_k,   B = sum c_k w_k u_k^2,

which is exact where eps is small beside sqrt(v), as it is or the step would not be worth taking.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from devote.core.learning import ADAM_BETAS, ADAM_EPS, Learned, Optimiser
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


# Many steps of Adam and Polyak averaging without a gradient at once.

LONGEST = 160
"""Later steps have less than 1e-7 of the first moment left in them."""
NUMBER = np.arange(1, LONGEST + 1)

Columns = Float[Array, "*members rows columns"]


class Missed(NamedTuple):
    """The steps that rows missed, each row its own."""

    steps: Float[Array, "rows"]
    """How many."""
    size: Float[Array, "rows number"]
    """w u of each of them; 0 after the last."""
    width: Float[Array, "rows number"]
    """u of each of them."""


class Row(NamedTuple):
    """A learned row of a lookup table, and all that belongs to it."""

    net: Columns
    first: Columns
    """Adam's first moment."""
    second: Columns
    target: Columns | None


def missed(since: Int[Array, "rows"], now: Int[Array, ""]) -> Missed:
    """What rows missed between updates."""
    steps = (now - since).astype(jnp.zeros(()).dtype)
    beta1, beta2 = ADAM_BETAS
    width = jnp.sqrt(_correction(since, beta2)) * beta2 ** (-NUMBER / 2)
    size = beta1**NUMBER / _correction(since, beta1) * width
    return Missed(steps, jnp.where(steps[:, None] >= NUMBER, size, 0.0), width)


def _correction(since: Int[Array, "rows"], beta: float) -> Float[Array, "rows number"]:
    """1 - beta^(since + number), without a power per element and without loss of digits."""
    left = since * np.log(beta)
    return -jnp.expm1(left)[:, None] + jnp.exp(left)[:, None] * (1 - beta**NUMBER)


def caught_up(row: Row, gone: Missed, optimiser: Optimiser, rate: float) -> Row:
    """Rows after the steps that they missed, as the dense optimiser and Polyak step make them."""
    beta1, beta2 = ADAM_BETAS
    n = gone.steps
    shrink = float(np.log1p(-optimiser.rate * optimiser.weight_decay))
    ahead = n[:, None] - NUMBER  # steps after each of them
    moved = optimiser.rate * _walked(row, gone, jnp.exp(jnp.maximum(ahead, 0.0) * shrink))
    target = row.target
    if target is not None:
        keep = _log(1 - rate)
        passed_on = optimiser.rate * _walked(row, gone, rate * _mixed(ahead + 1, shrink, keep))
        start = rate * np.exp(shrink) * _mixed(n, shrink, keep)
        target = _times(jnp.exp(n * keep), target) + _times(start, row.net) - passed_on
    return Row(
        _times(jnp.exp(n * shrink), row.net) - moved,
        _times(jnp.exp(n * np.log(beta1)), row.first),
        _times(jnp.exp(n * np.log(beta2)), row.second),
        target,
    )


def _walked(row: Row, gone: Missed, weight: Float[Array, "rows number"]) -> Columns:
    """The weighted sum of Adam's missed steps."""
    total = jnp.sum(weight * gone.size, axis=-1)
    wide = jnp.sum(weight * gone.size * gone.width, axis=-1)
    width = jnp.where(total > 0, wide / jnp.where(total > 0, total, 1.0), 1.0)
    return _times(total, row.first) / (jnp.sqrt(row.second) + ADAM_EPS * width[:, None])


def _mixed(steps: Array, shrink: float, keep: float) -> Array:
    """The sum of exp(shrink i + keep j) over i + j = steps - 1; 0 for no steps."""
    steps = jnp.maximum(steps, 0.0)
    more, less = max(shrink, keep), min(shrink, keep)
    if more == less:
        return steps * jnp.exp((steps - 1) * more)
    return jnp.exp(steps * more) * -jnp.expm1(steps * (less - more)) / (np.exp(more) - np.exp(less))


def _log(share: float) -> float:
    """The logarithm, finite also for a target that is its network."""
    return float(np.log(max(share, 1e-30)))


def _times(factor: Float[Array, "rows"], columns: Columns) -> Columns:
    return factor[:, None] * columns
