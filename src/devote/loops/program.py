"""What `train` asks of a loop, and the compiled loop for one seed or for several at once."""

from collections.abc import Callable
from typing import Any, Literal, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from devote.core.types import EnvSpec, Metrics
from devote.loops.fused import FusedLoop, RunState
from devote.loops.settings import LoopSettings

# The clock is shared, so that replay writes stay slices; everything else has a seed axis.
SEED_AXES = RunState(None, 0, 0, 0, 0, 0, 0, 0)  # type: ignore[arg-type]


# What runs once or rarely compiles three times faster without LLVM's optimisations.
HASTY = {"xla_backend_optimization_level": 0}


Stage = Literal["prefill", "chunk", "refresh", "evaluate"]
"""What a run is made of, by the name of the program's function."""


class InterruptedChunkError(Exception):
    """A chunk could not be finished; `state` is sound, and the cause says why."""

    def __init__(self, state: RunState) -> None:
        super().__init__("a chunk was interrupted")
        self.state = state


class Program(Protocol):
    """A loop made ready for its seeds; with more than one, arrays gain a leading seed axis."""

    @property
    def seeds(self) -> tuple[int, ...]: ...

    @property
    def spec(self) -> EnvSpec: ...

    @property
    def settings(self) -> LoopSettings: ...

    def shape(self) -> RunState:
        """Shapes and types of the run's state, without allocating it."""
        ...

    def metric_names(self, shape: RunState) -> tuple[str, ...]:
        """What `chunk` and `evaluate` report."""
        ...

    def init(self) -> RunState:
        """The run before its first step."""
        ...

    def resume(self, state: RunState) -> tuple[RunState, str]:
        """Go on from a checkpoint; the second value says how the environments do."""
        ...

    def snapshot(self, state: RunState) -> RunState:
        """The state with all that a checkpoint needs."""
        ...

    def compile(self, stage: Stage, state: RunState) -> None:
        """Compile what a stage needs, so that its first call is as fast as all others."""
        ...

    def prefill(self, state: RunState) -> RunState:
        """Experience before the first update."""
        ...

    def chunk(self, state: RunState) -> tuple[RunState, Metrics]:
        """Rounds of steps and updates, and the mean of their metrics."""
        ...

    def refresh(self, state: RunState) -> RunState:
        """The agent's soft reset."""
        ...

    def evaluate(self, state: RunState) -> Metrics:
        """The exploitation actor's return; leaves the run as it was."""
        ...

    def maps(self, state: RunState) -> dict[str, Array]:
        """The agent's maps over the coverage grid."""
        ...

    def per_seed(self, values: dict[str, Array]) -> list[dict[str, np.ndarray]]:
        """Results taken apart, one dictionary per seed."""
        ...

    def close(self) -> None:
        """Let go of the environments."""
        ...


class FusedProgram:
    """The compiled loop; the first argument of everything that changes it is donated."""

    def __init__(self, loop: FusedLoop, seeds: tuple[int, ...]) -> None:
        self.loop = loop
        self.seeds = seeds
        self.spec, self.settings = loop.env.spec, loop.settings
        self.prefill = self._jit(loop.prefill)
        self.chunk = self._jit(loop.chunk, outputs=(SEED_AXES, 0))
        self.refresh = self._jit(loop.refresh, options=HASTY)
        self.evaluate = self._jit(loop.evaluate, outputs=0, donate=False)
        self.maps = self._jit(loop.maps, outputs=0, donate=False, options=HASTY)

    def compile(self, stage: Stage, state: RunState) -> None:
        """Compile a stage; JAX keeps what it compiled for the calls to come."""
        getattr(self, stage).lower(state).compile()

    def _jit(
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
        return jax.jit(self._init, compiler_options=HASTY)(seed_keys(self.seeds))

    def shape(self) -> RunState:
        """Shapes and types of the run's state, without allocating it."""
        return jax.eval_shape(self._init, seed_keys(self.seeds))

    def _init(self, keys: Array) -> RunState:
        if len(self.seeds) == 1:
            return self.loop.init(keys[0])
        return jax.vmap(self.loop.init, out_axes=SEED_AXES)(keys)

    def metric_names(self, shape: RunState) -> tuple[str, ...]:
        """What `chunk` and `evaluate` report."""
        _, metrics = jax.eval_shape(self.chunk, shape)
        return (*sorted(metrics), *sorted(jax.eval_shape(self.evaluate, shape)))

    def resume(self, state: RunState) -> tuple[RunState, str]:
        """The environments are part of the state."""
        return state, "environments go on exactly"

    def snapshot(self, state: RunState) -> RunState:
        """The state holds everything already."""
        return state

    def per_seed(self, values: dict[str, Array]) -> list[dict[str, np.ndarray]]:
        """Results taken apart, one dictionary per seed."""
        return apart(values, len(self.seeds))

    def close(self) -> None:
        """Nothing is held outside the state."""


def seed_keys(seeds: tuple[int, ...]) -> Array:
    """The keys that everything of a seed comes from."""
    return jnp.stack([jax.random.key(seed) for seed in seeds])


def apart(values: dict[str, Array], seeds: int) -> list[dict[str, np.ndarray]]:
    """One dictionary per seed; a single seed has no axis of its own."""
    host = {name: np.asarray(value) for name, value in values.items()}
    if seeds == 1:
        return [host]
    return [{name: value[i] for name, value in host.items()} for i in range(seeds)]
