"""A ring of transitions: one row per vector step; samples are transitions or runs of them."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from devote.core.errors import UserError
from devote.core.types import Choice, EnvSpec, Index, Observation, Transition


@dataclass(frozen=True)
class Replay:
    """The newest `capacity` transitions of `num_envs` environments.

    Rows are vector steps, columns environments, so that adding is one contiguous write and
    sequences of one environment stay in order. Storage may have fewer rows than `capacity` allows,
    as long as it is `grown` before they are full. How much was ever written is the caller's clock:
    one number for all environments and seeds, which keeps the write a slice under `vmap`, or one
    number for each environment where some of them may have nothing to add.
    """

    spec: EnvSpec
    capacity: int
    num_envs: int
    sequence_length: int = 1
    """Consecutive steps of one environment in each run of a batch."""

    def __post_init__(self) -> None:
        if self.num_rows < self.sequence_length:
            raise UserError(
                f"a replay_capacity of at least {self.sequence_length * self.num_envs}, for "
                f"sequences of {self.sequence_length} steps in {self.num_envs} environments",
                self.capacity,
                "raise --replay-capacity or lower --sequence-length or --num-envs",
            )

    @property
    def num_rows(self) -> int:
        """The most there can be."""
        return self.capacity // self.num_envs

    def layout(self, rows: int | None = None) -> Any:
        """Shape and type of everything stored; flags and one-hot actions take a byte."""
        number = self.num_rows if rows is None else rows

        def leaf(shape: tuple[int, ...], dtype: Any) -> Any:
            return jax.ShapeDtypeStruct((number, self.num_envs, *shape), np.dtype(dtype))

        if isinstance(self.spec.observation, Index):
            obs = leaf((), np.int32)
        else:
            obs = leaf((self.spec.observation.size,), self.spec.observation.dtype)
        discrete = isinstance(self.spec.action, Choice)
        return Transition(
            obs=obs,
            action=leaf((self.spec.action.size,), np.uint8 if discrete else np.float32),
            reward=leaf((), np.float32),
            discount=leaf((), np.uint8),
            next_obs=obs,
            first=leaf((), np.bool_),
        )

    def init(self, rows: int | None = None) -> Transition:
        """Empty storage, of all rows unless told otherwise."""
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), self.layout(rows))

    def add(
        self,
        storage: Transition,
        written: Int[Array, "*envs"],
        step: Transition,
        valid: Bool[Array, "envs"] | None = None,
    ) -> Transition:
        """Write one vector step over the oldest, of which `written` came before it; with `valid`,
        `written` is a number for each environment, and only the valid ones are written."""
        rows = len(storage.first)
        row = written % rows
        if valid is None:
            return jax.tree.map(
                lambda ring, new: jax.lax.dynamic_update_index_in_dim(
                    ring, new.astype(ring.dtype), row, 0
                ),
                storage,
                step,
            )
        row = jnp.where(valid, row, rows)  # out of range is dropped
        env = jnp.arange(self.num_envs)

        def write(ring: Array, new: Array) -> Array:
            return ring.at[row, env].set(new.astype(ring.dtype), mode="drop", unique_indices=True)

        return jax.tree.map(write, storage, step)

    def sample(
        self,
        storage: Transition,
        written: Int[Array, ""] | Int[Array, "envs"],
        batch_size: int,
        key: PRNGKeyArray,
    ) -> Transition:
        """Runs of consecutive steps, one after another; uniform over all runs, with replacement."""
        length = self.sequence_length
        if batch_size % length:
            raise UserError(
                f"a batch_size that is a multiple of the sequence_length {length}",
                batch_size,
                "change --batch-size or --sequence-length",
            )
        rows = len(storage.first)
        row, env = self._starts(rows, written, batch_size // length, key)
        if length > 1:
            row, env = self._runs(rows, row, env, written)
        index = row * self.num_envs + env

        def read(ring: Array) -> Array:
            return ring.reshape(-1, *ring.shape[2:])[index]

        return _as_numbers(jax.tree.map(read, storage))

    def newest(
        self, storage: Transition, written: Int[Array, "*envs"], envs: int, steps: int
    ) -> tuple[Observation, Bool[Array, "steps envs"], Bool[Array, "steps envs"]]:
        """The last observations of the first `envs` environments, which of them open an episode,
        and which were ever written; oldest first."""
        rows = len(storage.first)
        steps, env = min(steps, rows), jnp.arange(envs)
        ends = jnp.broadcast_to(written, (self.num_envs,))[:envs]
        row = ends - steps + jnp.arange(steps)[:, None]
        place = row % rows
        return storage.obs[place, env], storage.first[place, env], row >= 0

    def block(
        self, storage: Transition, written: Int[Array, "*envs"], number: Int[Array, ""], rows: int
    ) -> tuple[Transition, Bool[Array, "steps"]]:
        """The `number`-th of the blocks of `rows` vector steps, in one axis, and what of it counts:
        rows that were written and are in no block before."""
        start = jnp.minimum(number * rows, len(storage.first) - rows)
        row = start + jnp.arange(rows)[:, None]
        valid = (row >= number * rows) & (row < jnp.broadcast_to(written, (self.num_envs,)))

        def read(ring: Array) -> Array:
            found = jax.lax.dynamic_slice_in_dim(ring, start, rows)
            return found.reshape(-1, *ring.shape[2:])

        return _as_numbers(jax.tree.map(read, storage)), valid.reshape(-1)

    def _starts(
        self, rows: int, written: Int[Array, "*envs"], number: int, key: PRNGKeyArray
    ) -> tuple[Int[Array, "runs"], Int[Array, "runs"]]:
        """Rows, counted from the oldest, and columns in which runs begin."""
        runs = jnp.maximum(jnp.minimum(written, rows) - self.sequence_length + 1, 0)
        if runs.ndim == 0:
            return jnp.divmod(
                jax.random.randint(key, (number,), 0, runs * self.num_envs), self.num_envs
            )
        # The rows that every environment has, in the order above, then what some have more.
        common = runs.min()
        further = jnp.cumsum(runs - common)
        drawn = jax.random.randint(key, (number,), 0, common * self.num_envs + further[-1])
        row, env = jnp.divmod(drawn, self.num_envs)
        beyond = drawn - common * self.num_envs
        owner = jnp.searchsorted(further, beyond, side="right", method="compare_all")
        owned = common + beyond - (further - (runs - common))[owner]
        even = beyond < 0
        return jnp.where(even, row, owned), jnp.where(even, env, owner)

    def _runs(
        self, rows: int, row: Int[Array, "runs"], env: Int[Array, "runs"], written: Array
    ) -> tuple[Int[Array, "runs*length"], Int[Array, "runs*length"]]:
        """Places of all steps of runs that begin in the given rows, counted from the oldest."""
        oldest = jnp.broadcast_to(jnp.maximum(written - rows, 0), (self.num_envs,))[env]
        places = (oldest + row)[:, None] + jnp.arange(self.sequence_length)
        return (places % rows).reshape(-1), jnp.repeat(env, self.sequence_length)


def grown(storage: Transition, rows: int, axis: int = 0) -> Transition:
    """Storage that was never full, with more rows along `axis`."""

    def more(ring: Array) -> Array:
        added = [(0, 0)] * ring.ndim
        added[axis] = (0, rows - ring.shape[axis])
        return jnp.pad(ring, added)

    return jax.tree.map(more, storage)


def _as_numbers(batch: Transition) -> Transition:
    """Flags and one-hot actions, held in bytes, as networks read them."""
    return batch._replace(
        action=batch.action.astype(jnp.float32), discount=batch.discount.astype(jnp.float32)
    )
