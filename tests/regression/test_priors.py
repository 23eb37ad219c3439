"""The RFN on plain arrays: the library's own, its gradient, its kernel."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from devote.core.types import Vector
from devote.nets.encoder import Encoder
from devote.nets.fourier import Fourier
from devote.nets.layers import Entry, Weight
from devote.regression.priors import MLP, RFN, FourierNet


def one(nets: FourierNet, member: int = 0) -> FourierNet:
    return jax.tree.map(lambda leaf: leaf[member], nets)


def test_equals_the_fourier_network_of_the_library() -> None:
    net = one(RFN(0.5, 32, "normal").draw(np.random.default_rng(0), 1, 3))
    space = Encoder(Vector((0.0,) * 3, (1.0,) * 3))
    entry = Entry(Weight(net.frequencies), None, net.phases, space, 1.0)
    x = np.random.default_rng(1).uniform(size=(20, 3)).astype(np.float32)
    expected = Fourier(entry, net.readout, squash=False)(x)
    np.testing.assert_allclose(net(x), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("readout", ["ones", "uniform"])
def test_gradient_is_that_of_the_formula(readout: str) -> None:
    net = one(RFN(0.5, 16, readout).draw(np.random.default_rng(0), 1, 3))
    x = jnp.asarray(np.random.default_rng(1).uniform(size=(20, 3)), jnp.float32)

    def plain(net: FourierNet, x: jax.Array) -> jax.Array:
        value = np.sqrt(2 / 16) * jnp.cos(x @ net.frequencies + net.phases) @ net.readout
        return jnp.sum(jnp.sin(value + (0 if net.bias is None else net.bias)))

    ours = jax.grad(lambda net, x: jnp.sum(jnp.sin(net(x))), argnums=(0, 1))(net, x)
    expected = jax.grad(plain, argnums=(0, 1))(net, x)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("readout", "variance"), [("ones", 1), ("normal", 1), ("uniform", 1 / 3)])
def test_covariance_is_the_kernel(readout: str, variance: float) -> None:
    nets = RFN(0.7, 64, readout).draw(np.random.default_rng(0), 4000, 2)
    x = jnp.asarray([[0.2, 0.3], [0.6, 0.1], [0.9, 1.0]])
    values = np.asarray(jax.vmap(lambda net: net(x))(nets))
    distance = np.sum((x[:, None] - x) ** 2, axis=-1)
    expected = variance * np.exp(-distance / (2 * 0.7**2))
    np.testing.assert_allclose(np.cov(values.T), expected, atol=0.07 * variance + 0.005)


def test_transposed_initialisation_scales_by_the_outputs() -> None:
    usual = MLP(100, 2).draw(np.random.default_rng(0), 5, 1)
    transposed = MLP(100, 2, "fan_out").draw(np.random.default_rng(0), 5, 1)
    assert 0.95 < np.abs(usual.weights[0]).max() <= 1.0
    assert 0.095 < np.abs(transposed.weights[0]).max() <= 0.1
    assert 0.095 < np.abs(usual.weights[2]).max() <= 0.1
    assert 0.95 < np.abs(transposed.weights[2]).max() <= 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"length_scale": 0.0}, "length scale"),
        ({"length_scale": -1.0}, "length scale"),
        ({"length_scale": float("nan")}, "length scale"),
        ({"length_scale": "long"}, "auto"),
        ({"length_scale": None}, "length scale"),
        ({"length_scale": np.array([1.0, 2.0])}, "length scale"),
        ({"features": 0}, "feature"),
        ({"features": 2.5}, "feature"),
        ({"readout": "twos"}, "ones"),
    ],
)
def test_impossible_priors_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RFN(**settings)


@pytest.mark.parametrize("settings", [(2.5, 1), (8, 1.5), (0, 1), ("8", 1)])
def test_impossible_sizes_are_refused(settings: tuple) -> None:
    with pytest.raises(ValueError, match="width and depth"):
        MLP(*settings)
