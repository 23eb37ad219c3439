"""Seeds for generators outside JAX."""

import jax
import numpy as np
from jaxtyping import PRNGKeyArray


def seed_of(key: PRNGKeyArray) -> int:
    """A non-negative seed, a function of the key alone."""
    words = np.asarray(jax.random.key_data(key)).reshape(-1).tolist()
    return int(np.random.SeedSequence(words).generate_state(1)[0] >> 1)
