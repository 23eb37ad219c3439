"""Policies: densities by numerical integration and by SciPy, expectations by explicit sums."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.stats

from devote.core.types import Box, Choice, Vector
from devote.nets.actor import UNIFORM_MIX, actor, target_entropy
from devote.nets.encoder import Encoder
from tiny import SPECS, shaken

LINE = Encoder(Vector((-1.0,) * 2, (1.0,) * 2))


def squashed_normal(size: int, seed: int = 0):
    return shaken(seed, built(LINE, Box(size)))


def categorical():
    spec = SPECS["discrete"]
    return shaken(1, built(Encoder(spec.observation), Choice(3)), by=1.0)


def built(encoder, kind):
    return jax.jit(lambda key: actor(key, encoder, kind, (16,)))(jax.random.key(9))


@jax.jit
def expected(policy, obs, key):
    return policy.expect(obs, key, lambda _, a: jnp.moveaxis(a, -1, 0))


def drawn(policy, obs, key):
    """Actions and their log-probabilities."""
    action, entropy = expected(policy, obs, key)
    return np.asarray(action, np.float64), -np.asarray(entropy, np.float64)


@pytest.mark.parametrize("seed", range(3))
def test_density_integrates_to_one(seed) -> None:
    obs = jnp.broadcast_to(jnp.array([0.5, -1.0]), (100_000, 2))
    (action,), log_prob = drawn(squashed_normal(1, seed), obs, jax.random.key(seed))
    order = np.argsort(action)
    assert np.trapezoid(np.exp(log_prob[order]), action[order]) == pytest.approx(1.0, abs=5e-3)


def test_log_probability_is_scipy_s_by_change_of_variables() -> None:
    policy = squashed_normal(3)
    obs = jax.random.normal(jax.random.key(3), (200, 2))
    action, log_prob = drawn(policy, obs, jax.random.key(4))
    mean, std = (np.asarray(x, np.float64).T for x in policy._moments(obs))
    normal = scipy.stats.norm(mean, std).logpdf(np.arctanh(action))
    inner = np.abs(action).max(axis=0) < 0.99  # arctanh of a float32 is exact enough here
    assert inner.sum() > 50
    np.testing.assert_allclose(
        log_prob[inner], (normal - np.log1p(-(action**2))).sum(axis=0)[inner], atol=1e-3
    )


def test_far_out_actions_have_finite_log_probability_and_slope() -> None:
    policy = squashed_normal(1)
    object.__setattr__(policy.body.out, "bias", jnp.array([40.0, 0.0]))
    obs = jnp.ones((4, 2))

    def entropy(net):
        return net.expect(obs, jax.random.key(0), lambda _, a: a[:, 0])[1].sum()

    value, slope = jax.jit(jax.value_and_grad(entropy))(policy)
    assert np.isfinite(value)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slope))


def test_sample_and_expect_draw_the_same_action_from_the_same_key() -> None:
    policy, obs, key = squashed_normal(2), jnp.ones((5, 2)), jax.random.key(7)
    action, _ = drawn(policy, obs, key)
    np.testing.assert_allclose(policy.sample(obs, key).T, action, rtol=1e-6)


def test_categorical_expectation_is_the_explicit_sum_and_entropy_is_exact() -> None:
    policy, obs = categorical(), jnp.arange(12)
    logits = np.asarray(policy.body(obs), np.float64)
    probs = (1 - UNIFORM_MIX) * scipy.special.softmax(logits, axis=-1) + UNIFORM_MIX / 3
    table = np.random.default_rng(0).normal(size=(2, 12, 3))  # two epistemic indices

    def value(o, a):
        return jnp.einsum("zoa,oa->zo", table[:, o], a)

    mean, entropy = jax.jit(lambda p: p.expect(obs, jax.random.key(0), value))(policy)
    np.testing.assert_allclose(mean, (probs * table).sum(-1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(entropy, scipy.stats.entropy(probs, axis=-1), rtol=1e-4)
    assert np.ptp(entropy) > 0.05  # the law was tried on different distributions


def test_categorical_draws_one_hot_choices_with_its_probabilities() -> None:
    policy = categorical()
    obs = jnp.full(20_000, 5)
    chosen = np.asarray(jax.jit(lambda p: p.sample(obs, jax.random.key(0)))(policy))
    assert set(np.unique(chosen)) == {0.0, 1.0}
    assert (chosen.sum(-1) == 1).all()
    probs, _ = drawn(policy, obs[:1], jax.random.key(0))
    np.testing.assert_allclose(chosen.mean(0), probs[:, 0], atol=0.02)
    assert chosen.mean(0).argmax() == jax.jit(lambda p: p.mode(obs[:1]))(policy)[0].argmax()


def test_categorical_draws_hopeless_choices_by_its_uniform_share() -> None:
    policy = categorical()
    object.__setattr__(policy.body.out, "bias", jnp.array([0.0, 40.0, 0.0]))
    chosen = jax.jit(lambda p: p.sample(jnp.full(60_000, 5), jax.random.key(0)))(policy)
    drawn = np.asarray(chosen).sum(axis=0)[[0, 2]]  # by the softmax alone, never
    mean = 60_000 * UNIFORM_MIX / 3
    np.testing.assert_allclose(drawn, mean, atol=5 * mean**0.5)


def test_target_entropy_counts_dimensions_or_a_share_of_the_maximum() -> None:
    assert target_entropy(Box(6), -0.5, 0.75) == -3.0
    assert target_entropy(Choice(4), -0.5, 0.75) == pytest.approx(0.75 * np.log(4))


@pytest.mark.parametrize("boltzmann", [False, True])
def test_both_ways_of_learning_end_at_the_softmax_of_values(boltzmann) -> None:
    """But only one of them gets there from a policy that was sure of something worse."""
    space, temperature = Encoder(SPECS["discrete"].observation), 0.5
    policy = actor(jax.random.key(0), space, Choice(3), (16,), boltzmann)
    obs, values = jnp.arange(12), jnp.array([0.3, -0.2, 0.6])
    optimiser = optax.adam(1e-2)

    def loss(net):
        return net.loss(obs, jax.random.key(0), lambda _, a: a @ values, temperature)[0]

    @jax.jit
    def learned(policy):
        def step(carry, _):
            net, moments = carry
            updates, moments = optimiser.update(jax.grad(loss)(net), moments, net)
            return (optax.apply_updates(net, updates), moments), None

        start = (policy, optimiser.init(policy))
        (net, _), _ = jax.lax.scan(step, start, length=1500)
        return net._probs(obs)

    wanted = scipy.special.softmax(values / temperature)
    np.testing.assert_allclose(learned(policy), np.tile(wanted, (12, 1)), atol=0.02)
    object.__setattr__(policy.body.out, "bias", jnp.array([0.0, 25.0, 0.0]))
    off = np.abs(learned(policy) - wanted).max()
    assert off < 0.02 if boltzmann else off > 0.5
