"""A ring of transitions: one row per vector step; samples are transitions or runs of them."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from devote.core.errors import UserError
from devote.core.types import Choice, EnvSpec, Index, Transition


@dataclass(frozen=True)
class Replay:
    """The newest `capacity` transitions of `num_envs` environments.

    Rows are vector steps, columns environments, so that adding is one contiguous write and
    sequences of one environment stay in order. How much was ever written is the caller's clock:
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
        return self.capacity // self.num_envs

    def layout(self) -> Any:
        """Shape and type of everything stored; flags and one-hot actions take a byte."""

        def leaf(shape: tuple[int, ...], dtype: Any) -> Any:
            return jax.ShapeDtypeStruct((self.num_rows, self.num_envs, *shape), np.dtype(dtype))

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

    def init(self) -> Transition:
        """Empty storage."""
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), self.layout())

    def add(
        self,
        storage: Transition,
        written: Int[Array, "*envs"],
        step: Transition,
        valid: Bool[Array, "envs"] | None = None,
    ) -> Transition:
        """Write one vector step over the oldest, of which `written` came before it; with `valid`,
        `written` is a number for each environment, and only the valid ones are written."""
        row = written % self.num_rows
        if valid is None:
            return jax.tree.map(
                lambda ring, new: jax.lax.dynamic_update_index_in_dim(
                    ring, new.astype(ring.dtype), row, 0
                ),
                storage,
                step,
            )
        row = jnp.where(valid, row, self.num_rows)  # out of range is dropped
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
        row, env = self._starts(written, batch_size // length, key)
        if length > 1:
            row, env = self._runs(row, env, written)
        index = row * self.num_envs + env

        def read(ring: Array) -> Array:
            return ring.reshape(-1, *ring.shape[2:])[index]

        batch: Transition = jax.tree.map(read, storage)
        return batch._replace(
            action=batch.action.astype(jnp.float32), discount=batch.discount.astype(jnp.float32)
        )

    def _starts(
        self, written: Int[Array, "*envs"], number: int, key: PRNGKeyArray
    ) -> tuple[Int[Array, "runs"], Int[Array, "runs"]]:
        """Rows, counted from the oldest, and columns in which runs begin."""
        runs = jnp.maximum(jnp.minimum(written, self.num_rows) - self.sequence_length + 1, 0)
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
        self, row: Int[Array, "runs"], env: Int[Array, "runs"], written: Int[Array, "*envs"]
    ) -> tuple[Int[Array, "runs*length"], Int[Array, "runs*length"]]:
        """Places of all steps of runs that begin in the given rows, counted from the oldest."""
        oldest = jnp.broadcast_to(jnp.maximum(written - self.num_rows, 0), (self.num_envs,))[env]
        rows = (oldest + row)[:, None] + jnp.arange(self.sequence_length)
        return (rows % self.num_rows).reshape(-1), jnp.repeat(env, self.sequence_length)
