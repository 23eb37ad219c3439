"""Heads and critics: what is encoded is what is read, and a fresh critic knows nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from devote.nets.critic import Critic, Scalar, TwoHot
from devote.nets.encoder import Encoder
from tiny import SPECS, some_batch

HEAD = TwoHot()
LARGEST = float(np.expm1(20.0))


@jax.jit
def coded(x):
    return HEAD.decode(jnp.log(HEAD.encode(x)))


def round_trip(x) -> np.ndarray:
    return np.asarray(coded(np.asarray(x, np.float32)))


def test_decode_of_encode_is_the_identity() -> None:
    magnitudes = np.concatenate([np.geomspace(1e-4, 0.9 * LARGEST, 500), np.linspace(0, 30, 301)])
    x = np.concatenate([magnitudes, -magnitudes])
    np.testing.assert_allclose(round_trip(x), x, rtol=2e-5, atol=1e-6)


def test_zero_and_bin_edges_come_back() -> None:
    assert round_trip([0.0])[0] == 0.0
    np.testing.assert_allclose(round_trip(HEAD.bins()), HEAD.bins(), rtol=1e-5)


def test_values_beyond_the_limit_come_back_as_the_limit() -> None:
    found = round_trip([2 * LARGEST, -5 * LARGEST])
    np.testing.assert_allclose(found, [LARGEST, -LARGEST], rtol=1e-5)


def test_code_has_two_neighbouring_weights_that_sum_to_one() -> None:
    codes = np.asarray(HEAD.encode(jnp.array([-7.3, 0.0, 0.01, 250.0])))
    assert (codes >= 0).all()
    np.testing.assert_allclose(codes.sum(-1), 1.0, rtol=1e-6)
    for code in codes:
        used = np.flatnonzero(code)
        assert len(used) <= 2
        assert used.max() - used.min() <= 1


def test_bins_are_symexp_of_an_even_spacing() -> None:
    even = np.linspace(-20, 20, 255)
    np.testing.assert_allclose(
        HEAD.bins(), np.sign(even) * np.expm1(abs(even)), rtol=1e-5, atol=1e-5
    )


def test_two_hot_loss_is_least_at_the_code_of_the_target() -> None:
    target = jnp.array([3.7])
    code = HEAD.encode(target)
    slope = jax.grad(lambda logits: HEAD.loss(logits, target).sum())(jnp.log(code + 1e-9))
    np.testing.assert_allclose(slope, 0.0, atol=1e-5)
    assert HEAD.loss(jnp.log(code + 1e-9), target) < HEAD.loss(jnp.zeros((1, 255)), target)


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("head", [Scalar(), TwoHot()])
def test_fresh_critic_predicts_exactly_zero(kind, head) -> None:
    spec = SPECS[kind]
    batch = some_batch(1, spec)

    @jax.jit
    def predicted(key):
        critic = Critic(key, Encoder(spec.observation), spec.action, (16, 16), head)
        return critic(batch.obs, batch.action)

    assert (predicted(jax.random.key(0)) == 0).all()


def test_discrete_action_chooses_its_output() -> None:
    spec = SPECS["discrete"]
    critic = Critic(jax.random.key(0), Encoder(spec.observation), spec.action, (16,), Scalar())
    noise = jax.random.normal(jax.random.key(1), critic.body.out.weight.shape)
    object.__setattr__(critic.body.out, "weight", noise)
    obs = jnp.arange(12)
    for choice in range(3):
        action = jax.nn.one_hot(jnp.full(12, choice), 3)
        np.testing.assert_allclose(critic(obs, action), critic.body(obs)[:, choice], rtol=1e-5)
