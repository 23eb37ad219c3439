"""Evaluation on the host: complete episodes in environments of their own."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from devote.core.errors import UserError
from devote.core.types import Agent, HostEnv, Metrics
from devote.core.worker import Worker
from devote.loops.collect import Seeds
from devote.loops.episodes import Episodes
from devote.loops.evaluate import evaluation_metrics
from devote.loops.host import blank_rows


class HostEvaluation:
    """The exploitation actor in `episodes` environments, built when they are first needed."""

    def __init__(
        self,
        agent: Agent,
        make: Callable[[int], HostEnv],
        episodes: int,
        seeds: tuple[int, ...],
        worker: Worker,
    ) -> None:
        self.agent, self.make, self.episodes, self.seeds = agent, make, episodes, seeds
        self.worker = worker
        self.tasks: Seeds | None = None
        self._exploit = jax.jit(self._decide)
        self._keys = jax.jit(self._key_of_everything)
        self._one = jax.jit(lambda tree, i: jax.tree.map(lambda x: x[i], tree))

    def _decide(self, agent: Any, obs: Array, keys: Array, t: int) -> tuple[Array, Array]:
        return self.agent.exploit(agent, obs), keys[t]

    def _key_of_everything(self, key: PRNGKeyArray) -> tuple[Array, Array]:
        reset_key, run_key = jax.random.split(jax.random.fold_in(key, 1))
        return reset_key, jax.random.split(run_key, self.agent.spec.episode_length)

    def names(self) -> list[str]:
        """What is reported."""
        spec = self.agent.spec
        return list(jax.eval_shape(lambda: evaluation_metrics(Episodes.start(spec, 1), spec)))

    def compile(self, agent: Any, key: PRNGKeyArray) -> None:
        """Compile decisions; no environment is needed for that."""
        if len(self.seeds) > 1:
            agent, key = self._one((agent, key), 0)
        obs = blank_rows(self.agent.spec, (self.episodes,)).transition.obs
        self._exploit.lower(agent, obs, self._keys(key)[1], 0).compile()

    def run(self, agent: Any, key: PRNGKeyArray) -> Metrics:
        """Metrics, with a seed axis if there are several."""
        if len(self.seeds) == 1:
            return self._play(agent, key)
        found = [self._play(*self._one((agent, key), i)) for i in range(len(self.seeds))]
        return {name: jnp.stack([each[name] for each in found]) for name in found[0]}

    def close(self) -> None:
        """Let the environments go."""
        if self.tasks is not None:
            self.tasks.close()
            self.tasks = None

    def _play(self, agent: Any, key: PRNGKeyArray) -> Metrics:
        if self.tasks is None:
            self.tasks = Seeds((self.make(self.episodes),), ["an evaluation"], self.worker)
        spec = self.agent.spec
        reset_key, keys = self._keys(key)
        obs = self.tasks.reset((reset_key,))[0]
        sums = jax.tree.map(np.array, Episodes.start(spec, self.episodes))
        alive = np.ones(self.episodes, bool)
        for t in range(spec.episode_length):
            action, step_key = self._exploit(agent, obs, keys, t)
            step = self.tasks.step(0, np.asarray(action), step_key, t)
            counted = alive & step.valid
            sums = Episodes(
                length=sums.length + counted,
                reward=sums.reward + np.where(counted, step.reward, np.float32(0)),
                success=sums.success | (counted & step.success),
                terms={
                    name: total + np.where(counted, step.terms[name], np.float32(0))
                    for name, total in sums.terms.items()
                },
            )
            alive &= ~(step.terminated | step.truncated)
            obs = step.obs
            if not alive.any():
                return evaluation_metrics(jax.tree.map(jnp.asarray, sums), spec)
        raise UserError(
            f"every episode of {spec.name} to end within {spec.episode_length} steps",
            f"{alive.sum()} of {self.episodes} still going on in an evaluation",
            "end them, or state the true episode length",
        )
