"""A ring of transitions: one row per vector step, uniform sampling with replacement."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from devote.core import Choice, EnvSpec, Index, Transition


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
        """Uniform over everything that is stored, with replacement."""
        stored = jnp.minimum(written, self.num_rows) * self.num_envs
        index = jax.random.randint(key, (batch_size,), 0, stored)

        def read(ring: Array) -> Array:
            return ring.reshape(-1, *ring.shape[2:])[index]

        batch: Transition = jax.tree.map(read, storage)
        return batch._replace(
            action=batch.action.astype(jnp.float32), discount=batch.discount.astype(jnp.float32)
        )
