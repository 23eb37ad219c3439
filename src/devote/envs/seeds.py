"""Seeds for generators outside JAX."""

from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray


def seed_of(key: PRNGKeyArray) -> int:
    """A non-negative seed, a function of the key alone."""
    words = np.asarray(jax.random.key_data(key)).reshape(-1).tolist()
    return int(np.random.SeedSequence(words).generate_state(1)[0] >> 1)


def generator_words(generator: np.random.Generator) -> np.ndarray:
    """All that changes in a generator of NumPy's default kind, as unsigned integers."""
    state: Any = generator.bit_generator.state
    numbers = [state["state"]["state"], state["state"]["inc"]]
    raw = b"".join(number.to_bytes(16, "little") for number in numbers)
    left = np.array([state["has_uint32"], state["uinteger"]], np.uint32)
    return np.append(np.frombuffer(raw, "<u4"), left)


def set_generator(generator: np.random.Generator, words: np.ndarray) -> None:
    """Go on from what `generator_words` gave."""
    state, increment = (
        int.from_bytes(part.astype("<u4").tobytes(), "little") for part in np.split(words[:8], 2)
    )
    generator.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": state, "inc": increment},
        "has_uint32": int(words[8]),
        "uinteger": int(words[9]),
    }
