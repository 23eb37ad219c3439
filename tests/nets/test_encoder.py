"""What networks see of an observation."""

import jax.numpy as jnp
import numpy as np

from devote.core.types import Vector
from devote.nets.encoder import Encoder

SPACE = Vector((0.0, -10.0), (40.0, 10.0))


def test_raw_by_default() -> None:
    obs = jnp.array([[3.0, -7.0]])
    assert Encoder(SPACE)(obs).tolist() == obs.tolist()


def test_scaling_maps_the_range_to_minus_one_and_one() -> None:
    obs = jnp.array([SPACE.low, (20.0, 0.0), SPACE.high])
    np.testing.assert_allclose(
        Encoder(SPACE, scaled=True)(obs), [[-1, -1], [0, 0], [1, 1]], atol=1e-6
    )


def test_features_follow_the_inputs_and_have_the_rbf_kernel_of_their_length() -> None:
    encoder = Encoder(SPACE, scaled=True, features=20_000, length=3.0)
    obs = np.array([[20.0, 0.0], [22.0, 1.0], [30.0, -5.0]], np.float32)
    seen = np.asarray(encoder(jnp.asarray(obs)))
    assert seen.shape == (3, encoder.size) == (3, 20_002)
    np.testing.assert_allclose(seen[:, :2], Encoder(SPACE, scaled=True)(jnp.asarray(obs)))
    squares = np.square(obs[:, None] - obs).sum(-1)
    found = 2 * seen[:, 2:] @ seen[:, 2:].T / 20_000
    np.testing.assert_allclose(found, np.exp(-squares / (2 * 3.0**2)), atol=0.04)


def test_features_are_the_same_in_every_run() -> None:
    obs = jnp.ones((1, 2))
    one, other = (Encoder(SPACE, features=8)(obs) for _ in range(2))
    assert one.tolist() == other.tolist()
