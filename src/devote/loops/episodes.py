"""Running sums of episodes, and what is reported of those that ended."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from devote.core.trees import where
from devote.core.types import EnvSpec, Metrics, Outcome


class Episodes(NamedTuple):
    """Running sums of the episodes under way."""

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
        """One more step of every environment."""
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
    """Sums after a step; those of ended episodes are set to 0, a step not valid adds nothing."""
    longer = episodes.add(outcome)
    if valid is not None:
        longer = where(valid, longer, episodes)
    begun = jax.tree.map(lambda x: jnp.where(done, jnp.zeros_like(x), x), longer)
    return begun, ended(longer, done & (longer.length > 0))


def ended(episodes: Episodes, done: Bool[Array, "envs"]) -> Finished:
    """Sums over the environments whose episode has just ended."""

    def total(x: Array) -> Array:
        return jnp.sum(jnp.where(done, x, 0), dtype=jnp.float32)

    return Finished(
        total(jnp.ones_like(done)), *(jax.tree.map(total, values) for values in episodes)
    )


def episode_metrics(total: Finished, spec: EnvSpec) -> Metrics:
    """Means over the episodes that ended in training; NaN when none did."""
    found = {
        "rollout/ep_rew_mean": total.reward / total.episodes,
        "rollout/ep_len_mean": total.length / total.episodes,
    }
    return found | solved("rollout", total, spec)


def solved(prefix: str, total: Finished, spec: EnvSpec) -> Metrics:
    """Share of successes, and the parts of the return, where the task tells them."""
    found = {f"{prefix}/term/{name}": total.terms[name] / total.episodes for name in spec.terms}
    if spec.says_success:
        found[f"{prefix}/success_rate"] = total.success / total.episodes
    return found
