"""Independent copies of a network along a leading index axis."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, PRNGKeyArray


class Ensemble(eqx.Module):
    """One network per epistemic index z; every output gains a leading index axis."""

    members: Any

    def __init__(self, key: PRNGKeyArray, size: int, build: Callable[[PRNGKeyArray], Any]):
        self.members = jax.vmap(build)(jax.random.split(key, size))

    def __call__(self, *inputs: Array) -> Array:
        return self.each(lambda member: member(*inputs))

    def each(self, function: Callable[[Any], Any]) -> Any:
        """What `function` gives for each member, stacked."""
        return jax.vmap(function)(self.members)
