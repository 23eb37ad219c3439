"""The polynomial cosine against NumPy's."""

import jax
import jax.numpy as jnp
import numpy as np

from devote.nets.functions import cos

ANGLES = np.concatenate(
    [np.linspace(-40, 40, 20_001), np.pi * np.arange(-12, 13), np.pi * (np.arange(-12, 13) + 0.5)]
).astype(np.float32)


def test_value_is_numpy_s() -> None:
    np.testing.assert_allclose(
        cos(jnp.asarray(ANGLES)), np.cos(ANGLES, dtype=np.float64), atol=1e-5
    )


def test_derivative_is_minus_sine() -> None:
    slopes = jax.vmap(jax.grad(cos))(jnp.asarray(ANGLES))
    np.testing.assert_allclose(slopes, -np.sin(ANGLES, dtype=np.float64), atol=3e-5)
