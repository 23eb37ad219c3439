"""Layers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from devote.core.types import Index, Vector
from devote.nets.encoder import Encoder
from devote.nets.layers import Lookup, Mlp, RmsNorm, Weight, entry, fan_in_normal

SPACE = Vector((-1.0,) * 4, (1.0,) * 4)


@pytest.mark.parametrize("size", [0.1, 1.0, 1e4])
def test_rms_norm_gives_rows_of_root_mean_square_one_times_its_scale(size) -> None:
    x = size * jax.random.normal(jax.random.key(0), (5, 256))
    plain = RmsNorm(jnp.ones(256))(x)
    np.testing.assert_allclose(np.sqrt(np.square(plain).mean(-1)), 1.0, rtol=1e-2)
    np.testing.assert_allclose(plain / x, (plain / x)[:, :1] * np.ones(256), rtol=1e-4)
    scale = jnp.arange(256.0)
    np.testing.assert_allclose(RmsNorm(scale)(x), plain * scale, rtol=1e-5)


def test_rms_norm_of_nothing_is_nothing() -> None:
    assert (RmsNorm(jnp.ones(8))(jnp.zeros((2, 8))) == 0).all()


def test_initial_weights_keep_the_variance_and_stay_within_the_cut() -> None:
    weights = np.asarray(fan_in_normal(jax.random.key(0), (400, 500), 400))
    assert weights.std() == pytest.approx(400**-0.5, rel=0.01)
    assert np.abs(weights).max() <= 2 / 0.8796 * 400**-0.5 * 1.001


def test_lookup_is_the_product_with_a_one_hot_vector() -> None:
    table = jax.random.normal(jax.random.key(0), (7, 3))
    index = jnp.array([[0, 6], [3, 3]])
    dense = Weight(table)(jax.nn.one_hot(index, 7))
    np.testing.assert_allclose(Lookup(table)(index), dense, rtol=1e-6)


def test_first_layer_is_affine_in_observation_and_gained_action() -> None:
    layer = entry(jax.random.key(0), Encoder(SPACE), 2, 5, action_gain=3.0)
    obs, action = jnp.ones((1, 4)), jnp.array([[0.5, -0.25]])
    by_hand = obs @ layer.obs.matrix + 3.0 * action @ layer.action + layer.bias
    np.testing.assert_allclose(layer(obs, action), by_hand, rtol=1e-5)
    assert isinstance(entry(jax.random.key(0), Encoder(Index(9)), 0, 5).obs, Lookup)


@pytest.mark.parametrize("relu", [False, True])
def test_mlp_is_norm_then_activation_layer_by_layer(relu) -> None:
    net = Mlp(jax.random.key(0), Encoder(SPACE), 0, (8, 6, 5), 2, out_gain=1.0, relu=relu)
    obs = jax.random.normal(jax.random.key(1), (10, 4))
    hidden = net.hidden(obs)
    assert [h.shape[-1] for h in hidden] == [8, 6, 5]
    activate = jax.nn.relu if relu else jax.nn.silu
    x = hidden[1] @ net.layers[1].weight
    by_hand = activate(x / np.sqrt(np.square(x).mean(-1, keepdims=True) + 1e-4))
    np.testing.assert_allclose(hidden[2], by_hand, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(net(obs), hidden[2] @ net.out.weight + net.out.bias, rtol=1e-5)
