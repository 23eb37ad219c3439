"""Complete episodes of tasks in JAX, played for an evaluation or a film."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from devote.core.trees import where
from devote.core.types import Agent, Env, EnvSpec, Metrics, Observation
from devote.loops.episodes import Episodes, ended, solved

Decide = Callable[[Any, Observation, Array, PRNGKeyArray], tuple[Array, Any]]
"""(memory, observations, whether episodes open, key) -> (actions, memory)"""


def play(
    env: Env,
    decide: Decide,
    memory: Any,
    episodes: int,
    key: PRNGKeyArray,
    keep: Callable[[Any], Any] = lambda worlds: (),
) -> tuple[Episodes, Any]:
    """Sums of complete episodes side by side, and what `keep` takes of the worlds at every time,
    the start included; an episode's own are those up to its length."""
    reset_key, run_key = jax.random.split(key)
    worlds = jax.vmap(env.reset)(jax.random.split(reset_key, episodes))

    def step(carry: Any, step_key: PRNGKeyArray) -> tuple[Any, Any]:
        worlds, memory, alive, sums = carry
        obs, first = jax.vmap(env.observe)(worlds), sums.length == 0
        action, memory = decide(memory, obs, first, jax.random.fold_in(step_key, 0))
        after, outcome = jax.vmap(env.step)(worlds, action, env_keys(step_key, episodes)[0])
        sums = where(alive, sums.add(outcome), sums)
        return (after, memory, alive & ~outcome.terminated, sums), keep(worlds)

    start = (worlds, memory, jnp.ones(episodes, bool), Episodes.start(env.spec, episodes))
    keys = jax.random.split(run_key, env.spec.episode_length)
    (last, _, _, sums), kept = jax.lax.scan(step, start, keys)
    return sums, jax.tree.map(lambda x, y: jnp.concatenate([x, y[None]]), kept, keep(last))


def evaluate(agent: Agent, env: Env, state: Any, episodes: int, key: PRNGKeyArray) -> Metrics:
    """Mean return and length of the exploitation actor; every episode counts, whenever it ends."""

    def decide(memory: Any, obs: Observation, first: Array, key: Any) -> tuple[Array, Any]:
        return agent.exploit(state, obs), memory

    return evaluation_metrics(play(env, decide, (), episodes, key)[0], env.spec)


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
