"""How keys are parted; both loops do it alike, and so give the same numbers."""

import jax
from jaxtyping import PRNGKeyArray


def run_keys(key: PRNGKeyArray) -> tuple[PRNGKeyArray, PRNGKeyArray, PRNGKeyArray]:
    """The keys of a run: its fresh agent's, its first episodes', and that of all that follows."""
    agent_key, reset_key, run_key = jax.random.split(key, 3)
    return agent_key, reset_key, run_key


def env_keys(key: PRNGKeyArray, num_envs: int) -> tuple[PRNGKeyArray, PRNGKeyArray]:
    """For every environment a key for its step, and one for the episode that may follow it."""
    step_key, start_key = jax.random.split(key)
    return jax.random.split(step_key, num_envs), jax.random.split(start_key, num_envs)
