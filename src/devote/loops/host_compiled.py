"""The host loop compiled, for one seed or for several at once."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from jaxtyping import Array, PRNGKeyArray

from devote.loops.host import Held, HostLoop, Rows, Tally
from devote.loops.program import HASTY

HELD_AXES = Held(None, 0, 0, 0, 0, 0)  # type: ignore[arg-type]
Leaves = tuple[Array, ...]
"""An agent's state without its structure: taking networks apart at every call is slow Python."""


class HostCompiled:
    """With more than one seed, every array but the clock gains a leading seed axis."""

    def __init__(self, loop: HostLoop, seeds: int) -> None:
        self.loop, self.single = loop, seeds == 1
        self._structure = jax.tree.structure(jax.eval_shape(loop.init, jax.random.key(0))[0])
        # In `learn` an agent that may still be acting beside it is not donated.
        donated = (1, 2) if loop.settings.overlap else (0, 1, 2)
        held, rounds = HELD_AXES, loop.settings.rounds_per_chunk()
        hasty = partial(jax.jit, compiler_options=HASTY)
        self._act_seeds = self._over(self._act_flat, 0)
        self.init = self._over(loop.init, 0, (0, 0, held, 0))
        self.act = jax.jit(self._act)
        self.learn = jax.jit(
            self._over(self._learn, (0, held, 0, 0), (0, held, 0)), donate_argnums=donated
        )
        self.store = jax.jit(self._over(loop.store, (held, 0), (held, 0)), donate_argnums=0)
        self.no_tally = hasty(self._over(loop.no_tally, (0, held)))
        self.summarise = jax.jit(self._over(partial(loop.summarise, rounds=rounds), (0, held, 0)))
        self.refresh = hasty(self._over(loop.agent.refresh, 0))
        self.maps = hasty(self._over(loop.maps, 0))
        self.split = jax.jit(self._over(lambda key: tuple(jax.random.split(key)), 0))
        self.fold = jax.jit(self._over(jax.random.fold_in, (0, None)))
        self.part = jax.jit(lambda keys: tuple(keys.reshape(-1)))

    def leaves(self, agent: Any) -> Leaves:
        """An agent's state taken apart."""
        return tuple(jax.tree.leaves(agent))

    def whole(self, leaves: Leaves) -> Any:
        """An agent's state put together again."""
        return jax.tree.unflatten(self._structure, leaves)

    def _over(self, function: Callable[..., Any], inputs: Any, outputs: Any = 0) -> Any:
        return function if self.single else jax.vmap(function, in_axes=inputs, out_axes=outputs)

    def _act_flat(self, agent: Leaves, *inputs: Any) -> Any:
        return self.loop.act(self.whole(agent), *inputs)

    def _act(
        self, agent: Leaves, memory: Any, obs: Array, first: Array, key: PRNGKeyArray
    ) -> tuple[Array, Any, PRNGKeyArray, tuple[PRNGKeyArray, ...]]:
        """Decisions of all seeds; the last value has a key for each seed's environments."""
        action, memory, key, env_keys = self._act_seeds(agent, memory, obs, first, key)
        return action, memory, key, (env_keys,) if self.single else tuple(env_keys)

    def _learn(
        self, agent: Leaves, held: Held, tally: Tally, rows: Rows
    ) -> tuple[Leaves, Held, Tally]:
        taught, held, tally = self.loop.learn(self.whole(agent), held, tally, rows)
        return self.leaves(taught), held, tally
