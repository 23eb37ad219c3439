"""Evaluation: a fixed number of complete episodes with the exploitation actor."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from devote.core import Agent, Env, Metrics


def evaluate(agent: Agent, env: Env, state: Any, episodes: int, key: PRNGKeyArray) -> Metrics:
    """Mean return and length; every episode counts, whenever it ends."""
    reset_key, run_key = jax.random.split(key)
    worlds = jax.vmap(env.reset)(jax.random.split(reset_key, episodes))

    def step(carry: Any, step_key: PRNGKeyArray) -> tuple[Any, None]:
        worlds, alive, reward, length = carry
        action = agent.greedy(state, jax.vmap(env.observe)(worlds))
        worlds, outcome = jax.vmap(env.step)(worlds, action, jax.random.split(step_key, episodes))
        reward = reward + jnp.where(alive, outcome.reward, 0.0)
        return (worlds, alive & ~outcome.terminated, reward, length + alive), None

    start = (worlds, jnp.ones(episodes, bool), jnp.zeros(episodes), jnp.zeros(episodes, jnp.int32))
    keys = jax.random.split(run_key, env.spec.episode_length)
    (_, _, reward, length), _ = jax.lax.scan(step, start, keys)
    return {
        "eval/mean_reward": reward.mean(),
        "eval/std_reward": reward.std(),
        "eval/mean_ep_length": length.mean(),
    }
