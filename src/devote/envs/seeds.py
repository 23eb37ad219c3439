"""Seeds for generators outside JAX."""

import jax
import numpy as np
from jaxtyping import PRNGKeyArray


def seeds_of(key: PRNGKeyArray, count: int) -> list[int]:
    """Different non-negative seeds, a function of the key alone."""
    words = np.asarray(jax.random.key_data(key)).reshape(-1).tolist()
    return [int(word >> 1) for word in np.random.SeedSequence(words).generate_state(count)]
