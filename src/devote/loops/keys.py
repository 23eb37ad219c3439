"""How the key of a vector step is parted; both loops do it alike, and so give the same numbers."""

import jax
from jaxtyping import PRNGKeyArray


def env_keys(key: PRNGKeyArray, num_envs: int) -> tuple[PRNGKeyArray, PRNGKeyArray]:
    """For every environment a key for its step, and one for the episode that may follow it."""
    step_key, start_key = jax.random.split(key)
    return jax.random.split(step_key, num_envs), jax.random.split(start_key, num_envs)
