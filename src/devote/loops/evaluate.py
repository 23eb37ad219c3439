"""Evaluation: a fixed number of complete episodes with the exploitation actor."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from devote.core.trees import where
from devote.core.types import Agent, Env, EnvSpec, Metrics
from devote.loops.episodes import Episodes, ended, solved


def evaluate(agent: Agent, env: Env, state: Any, episodes: int, key: PRNGKeyArray) -> Metrics:
    """Mean return and length; every episode counts, whenever it ends."""
    reset_key, run_key = jax.random.split(key)
    worlds = jax.vmap(env.reset)(jax.random.split(reset_key, episodes))

    def step(carry: Any, step_key: PRNGKeyArray) -> tuple[Any, None]:
        worlds, alive, sums = carry
        action = agent.exploit(state, jax.vmap(env.observe)(worlds))
        worlds, outcome = jax.vmap(env.step)(worlds, action, env_keys(step_key, episodes)[0])
        sums = where(alive, sums.add(outcome), sums)
        return (worlds, alive & ~outcome.terminated, sums), None

    start = (worlds, jnp.ones(episodes, bool), Episodes.start(env.spec, episodes))
    keys = jax.random.split(run_key, env.spec.episode_length)
    (_, _, sums), _ = jax.lax.scan(step, start, keys)
    return evaluation_metrics(sums, env.spec)


def env_keys(key: PRNGKeyArray, num_envs: int) -> tuple[PRNGKeyArray, PRNGKeyArray]:
    """For every environment a key for its step, and one for the episode that may follow it."""
    step_key, start_key = jax.random.split(key)
    return jax.random.split(step_key, num_envs), jax.random.split(start_key, num_envs)


def evaluation_metrics(sums: Episodes, spec: EnvSpec) -> Metrics:
    """What is reported of complete episodes, one in each environment."""
    total = ended(sums, jnp.ones_like(sums.success))
    return {
        "eval/mean_reward": sums.reward.mean(),
        "eval/std_reward": sums.reward.std(),
        "eval/mean_ep_length": sums.length.mean(),
    } | solved("eval", total, spec)
