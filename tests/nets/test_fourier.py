"""A Randomized Fourier Network is a draw from a Gaussian process with an RBF kernel."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from devote.core.types import Index, Vector
from devote.nets.encoder import Encoder
from devote.nets.fourier import fourier

DRAWS = 20_000
PLANE = Vector((-1.0, -1.0), (1.0, 1.0))


def covariance(encoder, obs, action, length_scale, readout):
    """Second moments over many draws of the function at some inputs."""

    def draw(key):
        net = fourier(key, encoder, action.shape[-1], 16, length_scale, readout, squash=False)
        return net(obs, action)

    values = jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(0), DRAWS))
    np.testing.assert_allclose(values.mean(axis=0), 0.0, atol=0.03)
    return np.asarray(values.T @ values / DRAWS)


@pytest.mark.parametrize("readout", ["ones", "normal"])
@pytest.mark.parametrize("length_scale", [0.7, 2.0])
def test_covariance_is_the_rbf_kernel_of_observation_and_action(readout, length_scale) -> None:
    rng = np.random.default_rng(1)
    obs, action = rng.normal(size=(6, 2)), rng.uniform(-1, 1, size=(6, 1))
    joined = np.concatenate([obs, action], axis=1)
    squares = np.square(joined[:, None] - joined).sum(-1)
    kernel = np.exp(-squares / (2 * length_scale**2))
    found = covariance(Encoder(PLANE), jnp.asarray(obs), jnp.asarray(action), length_scale, readout)
    np.testing.assert_allclose(found, kernel, atol=0.05)


def test_covariance_of_indices_is_the_kernel_of_one_hot_vectors() -> None:
    cells, action = jnp.arange(4), jnp.zeros((4, 2))
    found = covariance(Encoder(Index(4)), cells, action, 1.5, "ones")
    apart = np.exp(-2 / (2 * 1.5**2))  # distinct one-hot vectors are sqrt(2) apart
    np.testing.assert_allclose(found, apart + (1 - apart) * np.eye(4), atol=0.05)


def test_squash_is_tanh_of_the_same_draw() -> None:
    obs = jax.random.normal(jax.random.key(1), (50, 2))
    raw, squashed = (
        fourier(jax.random.key(2), Encoder(PLANE), 0, 8, 1.0, "normal", s) for s in (0, 1)
    )
    assert float(jnp.abs(raw(obs)).max()) > 1
    np.testing.assert_allclose(squashed(obs), np.tanh(raw(obs)), rtol=1e-6)
