"""The compiled pieces of a run, for one seed or for several in one program."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from devote.loops.fused import FusedLoop, RunState

# The clock is shared, so that replay writes stay slices; everything else has a seed axis.
SEED_AXES = RunState(None, 0, 0, 0, 0, 0, 0, 0)  # type: ignore[arg-type]


# What runs once or rarely compiles three times faster without LLVM's optimisations.
HASTY = {"xla_backend_optimization_level": 0}


class Program:
    """A loop compiled for `seeds`; with more than one, every array gains a leading seed axis."""

    def __init__(self, loop: FusedLoop, seeds: tuple[int, ...]) -> None:
        self.loop = loop
        self.seeds = seeds
        self.prefill = self._compile(loop.prefill)
        self.chunk = self._compile(loop.chunk, outputs=(SEED_AXES, 0))
        self.refresh = self._compile(loop.refresh, options=HASTY)
        self.evaluate = self._compile(loop.evaluate, outputs=0, donate=False)
        self.maps = self._compile(loop.maps, outputs=0, donate=False, options=HASTY)

    def _compile(
        self,
        function: Callable[..., Any],
        outputs: Any = SEED_AXES,
        donate: bool = True,
        options: dict[str, Any] | None = None,
    ) -> Any:
        if len(self.seeds) > 1:
            function = jax.vmap(function, in_axes=(SEED_AXES,), out_axes=outputs)
        return jax.jit(function, donate_argnums=(0,) if donate else (), compiler_options=options)

    def init(self) -> RunState:
        """The run before its first step."""
        return jax.jit(self._init, compiler_options=HASTY)(self._keys())

    def shape(self) -> RunState:
        """Shapes and types of the run's state, without allocating it."""
        return jax.eval_shape(self._init, self._keys())

    def _keys(self) -> Array:
        return jnp.stack([jax.random.key(seed) for seed in self.seeds])

    def _init(self, keys: Array) -> RunState:
        if len(self.seeds) == 1:
            return self.loop.init(keys[0])
        return jax.vmap(self.loop.init, out_axes=SEED_AXES)(keys)

    def per_seed(self, values: dict[str, Array]) -> list[dict[str, np.ndarray]]:
        """Results taken apart, one dictionary per seed."""
        if len(self.seeds) == 1:
            return [{name: np.asarray(value) for name, value in values.items()}]
        return [
            {name: np.asarray(value)[i] for name, value in values.items()}
            for i in range(len(self.seeds))
        ]
