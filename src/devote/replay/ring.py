"""A ring of transitions: one row per vector step; samples are transitions or runs of them."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from devote.core import Choice, EnvSpec, Index, Transition
from devote.core.errors import UserError


@dataclass(frozen=True)
class Replay:
    """The newest `capacity` transitions of `num_envs` environments.

    Rows are vector steps, columns environments, so that adding is one contiguous write and
    sequences of one environment stay in order. How many rows were ever written is the caller's
    clock: it is the same for all seeds of a run, which keeps the write a slice under `vmap`.
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

        def leaf(shape: tuple[int, ...], dtype: type) -> Any:
            return jax.ShapeDtypeStruct((self.num_rows, self.num_envs, *shape), dtype)

        if isinstance(self.spec.observation, Index):
            obs = leaf((), np.int32)
        else:
            obs = leaf((self.spec.observation.size,), np.float32)
        discrete = isinstance(self.spec.action, Choice)
        return Transition(
            obs=obs,
            action=leaf((self.spec.action.size,), np.uint8 if discrete else np.float32),
            reward=leaf((), np.float32),
            discount=leaf((), np.uint8),
            next_obs=obs,
            first=leaf((), np.bool_),
        )

    def nbytes(self) -> int:
        """Memory that `init` will take."""
        return sum(int(np.prod(x.shape)) * x.dtype.itemsize for x in jax.tree.leaves(self.layout()))

    def init(self) -> Transition:
        """Empty storage."""
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), self.layout())

    def add(self, storage: Transition, written: Int[Array, ""], step: Transition) -> Transition:
        """Write one vector step over the oldest; `written` rows came before it."""
        row = written % self.num_rows

        def write(ring: Array, new: Array) -> Array:
            return jax.lax.dynamic_update_index_in_dim(ring, new.astype(ring.dtype), row, 0)

        return jax.tree.map(write, storage, step)

    def sample(
        self, storage: Transition, written: Int[Array, ""], batch_size: int, key: PRNGKeyArray
    ) -> Transition:
        """Runs of consecutive steps, one after another; uniform over all runs, with replacement."""
        length = self.sequence_length
        if batch_size % length:
            raise UserError(
                f"a batch_size that is a multiple of the sequence_length {length}",
                batch_size,
                "change --batch-size or --sequence-length",
            )
        starts = (jnp.minimum(written, self.num_rows) - length + 1) * self.num_envs
        start = jax.random.randint(key, (batch_size // length,), 0, starts)
        index = start if length == 1 else self._runs(start, written)

        def read(ring: Array) -> Array:
            return ring.reshape(-1, *ring.shape[2:])[index]

        batch: Transition = jax.tree.map(read, storage)
        return batch._replace(
            action=batch.action.astype(jnp.float32), discount=batch.discount.astype(jnp.float32)
        )

    def _runs(
        self, start: Int[Array, "runs"], written: Int[Array, ""]
    ) -> Int[Array, "runs*length"]:
        """Places of the steps of runs whose start counts from the oldest step that is stored."""
        oldest = jnp.maximum(written - self.num_rows, 0) % self.num_rows * self.num_envs
        steps = jnp.arange(self.sequence_length) * self.num_envs
        return ((oldest + start[:, None] + steps) % (self.num_rows * self.num_envs)).reshape(-1)
