"""A task in JAX behind the protocol of tasks on the host."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from devote.core.trees import where
from devote.core.types import Env, EnvSpec, HostStep
from devote.loops.episodes import env_keys

Bins = Callable[[np.ndarray], np.ndarray]


class OnHost:
    """As the compiled loop would step it: the same keys, time limits and restarts."""

    def __init__(self, env: Env, num_envs: int, bins: Bins | None = None, saves: bool = True):
        self.env, self.num_envs, self.bins, self.saves = env, num_envs, bins, saves
        self.spec: EnvSpec = env.spec if bins else replace(env.spec, grid=None)
        self.worlds: Any = None
        self.length: Any = None
        self.closed = False
        self._start, self._go = jax.jit(self._starts), jax.jit(self._goes)

    def reset(self, key: jax.Array) -> np.ndarray:
        self.worlds, self.length, obs = self._start(key)
        return np.array(obs)

    def step(self, action: np.ndarray, key: jax.Array) -> HostStep:
        self.worlds, self.length, step = self._go(self.worlds, self.length, action, key)
        return jax.tree.map(np.array, step)

    def bin_of(self, obs: np.ndarray) -> np.ndarray:
        assert self.bins is not None
        return self.bins(obs)

    def save(self) -> dict[str, np.ndarray] | None:
        if not self.saves:
            return None
        leaves = jax.tree.leaves((self.worlds, self.length))
        return {str(i): np.array(leaf) for i, leaf in enumerate(leaves)}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        shape = jax.eval_shape(self._starts, jax.random.key(0))[:2]
        leaves = [saved[str(i)] for i in range(len(saved))]
        self.worlds, self.length = jax.tree.unflatten(jax.tree.structure(shape), leaves)

    def close(self) -> None:
        self.closed = True

    def _starts(self, key: jax.Array) -> tuple[Any, jax.Array, jax.Array]:
        worlds = jax.vmap(self.env.reset)(jax.random.split(key, self.num_envs))
        return worlds, jnp.zeros(self.num_envs, jnp.int32), jax.vmap(self.env.observe)(worlds)

    def _goes(self, worlds: Any, length: Any, action: Any, key: Any) -> tuple[Any, Any, HostStep]:
        step_keys, start_keys = env_keys(key, self.num_envs)
        after, outcome = jax.vmap(self.env.step)(worlds, action, step_keys)
        limited = ~outcome.terminated & (length + 1 >= self.spec.episode_length)
        done = outcome.terminated | limited
        here = where(done, jax.vmap(self.env.reset)(start_keys), after)
        step = HostStep(
            next_obs=jax.vmap(self.env.observe)(after),
            obs=jax.vmap(self.env.observe)(here),
            reward=outcome.reward,
            terminated=outcome.terminated,
            truncated=limited,
            success=jnp.broadcast_to(outcome.success, done.shape),
            terms=outcome.terms,
            valid=jnp.ones_like(done),
        )
        return here, jnp.where(done, 0, length + 1), step
