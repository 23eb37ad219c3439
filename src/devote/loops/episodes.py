"""Complete episodes: their running sums in training, playing them, and what is reported of them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from devote.core.trees import where
from devote.core.types import Agent, Env, EnvSpec, Metrics, Observation, Outcome

Decide = Callable[[Any, Observation, Array, PRNGKeyArray], tuple[Array, Any]]
"""(memory, observations, whether they are the first of an episode, key) -> (actions, memory)"""


class Episodes(NamedTuple):
    """Running sums of the current episodes."""

    length: Int[Array, "envs"]
    reward: Float[Array, "envs"]
    success: Bool[Array, "envs"]
    """Whether any step so far solved the task."""
    terms: dict[str, Array]

    @classmethod
    def start(cls, spec: EnvSpec, num_envs: int) -> "Episodes":
        """Before the first step."""
        return cls(
            length=jnp.zeros(num_envs, jnp.int32),
            reward=jnp.zeros(num_envs),
            success=jnp.zeros(num_envs, bool),
            terms={name: jnp.zeros(num_envs) for name in spec.terms},
        )

    def add(self, outcome: Outcome) -> "Episodes":
        """After one more step of every environment."""
        return Episodes(
            length=self.length + 1,
            reward=self.reward + outcome.reward,
            success=self.success | outcome.success,
            terms={name: total + outcome.terms[name] for name, total in self.terms.items()},
        )


class Finished(NamedTuple):
    """Sums over the episodes that ended."""

    episodes: Float[Array, ""]
    length: Float[Array, ""]
    reward: Float[Array, ""]
    success: Float[Array, ""]
    terms: dict[str, Array]


def follow(
    episodes: Episodes,
    outcome: Outcome,
    done: Bool[Array, "envs"],
    valid: Bool[Array, "envs"] | None = None,
) -> tuple[Episodes, Finished]:
    """Sums after a step, back at 0 where an episode ended; steps that are not valid are skipped."""
    longer = episodes.add(outcome)
    if valid is not None:
        longer = where(valid, longer, episodes)
    begun = jax.tree.map(lambda x: jnp.where(done, jnp.zeros_like(x), x), longer)
    return begun, ended(longer, done & (longer.length > 0))


def ended(episodes: Episodes, done: Bool[Array, "envs"]) -> Finished:
    """Sums over the environments whose episode ended."""

    def total(x: Array) -> Array:
        return jnp.sum(jnp.where(done, x, 0), dtype=jnp.float32)

    return Finished(total(jnp.ones_like(done)), *jax.tree.map(total, episodes))


def episode_metrics(total: Finished, spec: EnvSpec) -> Metrics:
    """Means over the episodes that ended in training; NaN if none did."""
    found = {
        "rollout/ep_rew_mean": total.reward / total.episodes,
        "rollout/ep_len_mean": total.length / total.episodes,
    }
    return found | _solved("rollout", total, spec)


def evaluation_metrics(sums: Episodes, spec: EnvSpec) -> Metrics:
    """Means over one complete episode in each environment."""
    total = ended(sums, jnp.ones_like(sums.success))
    return {
        "eval/mean_reward": sums.reward.mean(),
        "eval/std_reward": sums.reward.std(),
        "eval/mean_ep_length": sums.length.mean(),
    } | _solved("eval", total, spec)


def _solved(prefix: str, total: Finished, spec: EnvSpec) -> Metrics:
    """Success rate and parts of the return, for tasks that report them."""
    found = {f"{prefix}/term/{name}": total.terms[name] / total.episodes for name in spec.terms}
    if spec.says_success:
        found[f"{prefix}/success_rate"] = total.success / total.episodes
    return found


def play(
    env: Env,
    decide: Decide,
    memory: Any,
    episodes: int,
    key: PRNGKeyArray,
    keep: Callable[[Any], Any] = lambda worlds: (),
) -> tuple[Episodes, Any]:
    """Play episodes side by side: their sums, and `keep(worlds)` of every step.

    An episode's own steps are those from the start, 0, up to its length.
    """
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
    """Play the exploitation actor; every episode counts once, whenever it ends."""

    def decide(memory: Any, obs: Observation, first: Array, key: Any) -> tuple[Array, Any]:
        return agent.exploit(state, obs), memory

    return evaluation_metrics(play(env, decide, (), episodes, key)[0], env.spec)


def env_keys(key: PRNGKeyArray, num_envs: int) -> tuple[PRNGKeyArray, PRNGKeyArray]:
    """For every environment a key for its step, and one for the episode that may follow."""
    step_key, start_key = jax.random.split(key)
    return jax.random.split(step_key, num_envs), jax.random.split(start_key, num_envs)
