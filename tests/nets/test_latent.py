"""Codes of categorical variables: draws, their gradient, and a floor under every chance."""

import jax
import jax.numpy as jnp
import numpy as np

from devote.nets.rssm import divergence, draw, mixed

PROBS = jnp.asarray([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])


def test_draws_are_one_hot_and_as_frequent_as_their_probabilities() -> None:
    chance = jax.random.uniform(jax.random.key(0), (20_000, 2))
    drawn = np.asarray(jax.vmap(lambda c: draw(PROBS, c))(chance))
    np.testing.assert_allclose(np.sort(drawn, axis=-1)[..., :2], 0, atol=1e-6)
    np.testing.assert_allclose(drawn.sum(axis=-1), 1, atol=1e-6)
    np.testing.assert_allclose(drawn.mean(axis=0), PROBS, atol=0.015)


def test_groups_are_drawn_by_numbers_of_their_own() -> None:
    drawn = np.asarray(draw(PROBS, jnp.asarray([0.6, 0.15])))
    np.testing.assert_allclose(drawn, [[0, 1, 0], [0, 1, 0]], atol=1e-6)


def test_gradients_pass_through_a_draw_as_if_it_were_the_probabilities() -> None:
    weights = jnp.asarray([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])
    slope = jax.grad(lambda p: jnp.sum(weights * draw(p, jnp.asarray([0.6, 0.15]))))(PROBS)
    np.testing.assert_allclose(slope, weights, atol=1e-6)


def test_no_class_has_less_than_its_share_of_the_uniform_part() -> None:
    probs = np.asarray(mixed(jnp.asarray([[50.0, 0.0, 0.0, 0.0]]), 0.01))
    np.testing.assert_allclose(probs, [[0.9925, 0.0025, 0.0025, 0.0025]], atol=1e-6)


def test_divergence_is_summed_over_groups() -> None:
    other = jnp.full((2, 3), 1 / 3)
    p = np.asarray(PROBS)
    np.testing.assert_allclose(divergence(PROBS, other), (p * np.log(3 * p)).sum(), rtol=1e-5)
    np.testing.assert_allclose(divergence(PROBS, PROBS), 0, atol=1e-6)
