"""The laws of a corrector in closed form, against Gaussian process regression in NumPy."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from devote.core.types import Choice, Index, Vector
from devote.epistemic.exact import ExactCorrector
from tiny import SPECS

RIDGE = 0.5
KINDS = SPECS | {"choice": replace(SPECS["continuous"], action=Choice(3))}
"""Vectors with continuous actions, an index with discrete ones, and vectors with discrete ones."""


def corrector(kind="continuous", noisy=False, solve_interval=1, indices=6, basis=40):
    return ExactCorrector(KINDS[kind], indices, True, basis, 1.0, RIDGE, noisy, solve_interval)


def steps(kind, number, seed=0):
    """Observations and actions anywhere in the space."""
    spec, draw = KINDS[kind], np.random.default_rng(seed)
    obs, action = draw.uniform(-2, 2, (number, 3)), draw.uniform(-1, 1, (number, 2))
    if isinstance(spec.action, Choice):
        action = np.eye(spec.action.size)[draw.integers(spec.action.size, size=number)]
    if isinstance(spec.observation, Index):
        return jnp.asarray(draw.integers(12, size=number)), jnp.asarray(action, jnp.float32)
    return jnp.asarray(obs, jnp.float32), jnp.asarray(action, jnp.float32)


def features(exact, state, obs, action):
    """phi in double precision, one row per step."""
    if not isinstance(exact.spec.observation, Index):
        return np.asarray(state.features.features(obs, action), np.float64)
    both = np.asarray(obs) * 3 + np.asarray(action).argmax(1)
    return np.eye(36)[both]


def prior_weights(exact, state):
    if not isinstance(exact.spec.observation, Index):
        return np.asarray(state.prior, np.float64)
    return np.asarray(state.prior.table, np.float64).reshape(36, exact.num_indices)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noisy", [False, True])
def test_the_residual_is_the_gaussian_process_posterior_given_zeros(kind, noisy) -> None:
    exact = corrector(kind, noisy)
    state, key = exact.init(jax.random.key(1)), jax.random.key(2)
    data, asked = steps(kind, 25), steps(kind, 9, seed=1)
    noise = np.asarray(jax.random.normal(key, (25, exact.num_indices)), np.float64)
    phi, there = features(exact, state, *data), features(exact, state, *asked)
    weights = prior_weights(exact, state)
    # Matheron's rule: a draw of the prior, minus what it and its noise say at the data
    zeros_missed_by = phi @ weights - np.sqrt(RIDGE) * noise * noisy
    inverse = np.linalg.inv(phi @ phi.T + RIDGE * np.eye(25))
    expected = there @ weights - there @ phi.T @ inverse @ zeros_missed_by
    after = exact.observe(state, *data, None, key)
    found = exact.residual(after, *asked)
    np.testing.assert_allclose(found, expected.T, atol=2e-5)


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
@pytest.mark.parametrize(("noisy", "power"), [(False, 1.0), (True, 0.5)])
def test_the_residual_falls_as_one_over_n_or_as_its_square_root(kind, noisy, power) -> None:
    exact = corrector(kind, noisy, indices=600)
    obs, action = steps(kind, 1)
    size = []
    for n in (100, 1600):
        many = jnp.repeat(obs, n, 0), jnp.repeat(action, n, 0)
        state = exact.observe(exact.init(jax.random.key(1)), *many, None, jax.random.key(2))
        size.append(np.sqrt(np.mean(np.square(exact.residual(state, obs, action)))))
    assert np.log(size[0] / size[1]) / np.log(16) == pytest.approx(power, abs=0.05)
    if noisy:  # the standard deviation of the posterior, as k(x, x) is 1 or nearly so
        assert size[1] == pytest.approx(np.sqrt(RIDGE / (1600 + RIDGE)), rel=0.1)


def test_order_and_rounds_change_nothing_but_rounding() -> None:
    exact = corrector()
    obs, action = steps("continuous", 60)
    start = exact.init(jax.random.key(1))
    whole = exact.observe(start, obs, action, None, jax.random.key(2))
    parts = start
    for chosen in np.random.default_rng(0).permutation(60).reshape(6, 10):
        parts = exact.observe(parts, obs[chosen], action[chosen], None, jax.random.key(2))
    np.testing.assert_allclose(whole.left, parts.left, atol=1e-5)


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
@pytest.mark.parametrize("noisy", [False, True])
def test_steps_that_are_not_valid_do_not_count(kind, noisy) -> None:
    exact = corrector(kind, noisy)
    obs, action = steps(kind, 10)
    start, key = exact.init(jax.random.key(1)), jax.random.key(2)
    none = exact.observe(start, obs, action, jnp.zeros(10, bool), key)
    np.testing.assert_allclose(
        exact.residual(none, obs, action), exact.residual(start, obs, action), atol=1e-5
    )
    some = exact.observe(start, obs, action, jnp.arange(10) < 5, key)
    assert not np.allclose(
        exact.residual(some, obs, action), exact.residual(start, obs, action), atol=0.1
    )


def test_between_two_solves_what_is_left_stands_still() -> None:
    exact = corrector(solve_interval=3)
    obs, action = steps("continuous", 20)
    states = [exact.init(jax.random.key(1))]
    for number in (1, 2, 3):
        states.append(exact.observe(states[-1], obs, action, None, jax.random.key(2), number))
    np.testing.assert_array_equal(states[0].left, states[2].left)
    every = replace(exact, solve_interval=1)
    np.testing.assert_allclose(states[3].left, every.solve(states[3]), atol=1e-6)
    assert not np.allclose(states[0].left, states[3].left)


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
def test_novelty_of_states_alone_is_blind_to_the_action(kind) -> None:
    exact = replace(corrector(kind), sees_action=False)
    obs, action = steps(kind, 10)
    state = exact.observe(exact.init(jax.random.key(1)), obs, action, None, jax.random.key(2))
    found = exact.residual(state, obs, action)
    np.testing.assert_array_equal(found, exact.residual(state, obs, jnp.roll(action, 1, axis=0)))
    before = exact.residual(exact.init(jax.random.key(1)), obs, action)
    assert np.abs(found).mean() < 0.7 * np.abs(before).mean()


def test_vectors_of_integers_are_counted_one_by_one() -> None:
    spec = replace(KINDS["choice"], observation=Vector((-1.0,) * 3, (1.0,) * 3, integers=True))
    exact = replace(corrector("choice"), spec=spec)
    state = exact.init(jax.random.key(0))
    obs = jnp.stack(jnp.meshgrid(*[jnp.linspace(-1, 1, 9)] * 3), axis=-1).reshape(-1, 3)
    first = jnp.broadcast_to(jax.nn.one_hot(0, 3), obs.shape)
    prior = exact.residual(state, obs, first)
    seen = exact.observe(state, obs[::2], first[::2], None, jax.random.key(1))
    seen = exact.observe(seen, obs[::2], first[::2], None, jax.random.key(1))
    # rounding moves no observation; a few share their row
    share = exact.residual(seen, obs * (1 + 1e-7), first) / prior
    assert np.isclose(share[:, ::2], RIDGE / (2 + RIDGE)).mean() > 0.99
    assert np.isclose(share[:, 1::2], 1).mean() > 0.99
    assert len(np.unique(prior[0])) > 600
    other = jnp.broadcast_to(jax.nn.one_hot(1, 3), obs.shape)
    same = exact.residual(seen, obs, other) == exact.residual(state, obs, other)
    assert same.mean() > 0.99
    fresh = exact.residual(exact.forget(seen), obs, first)
    np.testing.assert_allclose(fresh, prior)
