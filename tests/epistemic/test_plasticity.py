"""Dormant neurons as in the paper: s_i <= tau, over the whole network."""

import jax.numpy as jnp
import pytest

from devote.epistemic.tud import dormant_fraction


def test_counts_units_of_all_layers_relative_to_their_layer() -> None:
    # strengths 1, 1, 0, 0.01 (mean 0.5025: the last two are dormant) and 100, 4 (mean 52: the
    # last is above 0.05 times it); signs cancel in the mean but not in the mean magnitude
    first = jnp.array([[1.0, -1.0, 0.0, 0.01], [-1.0, 1.0, 0.0, 0.01]])
    second = jnp.array([[100.0, 4.0], [100.0, 4.0]])
    assert dormant_fraction([first, second]) == pytest.approx(2 / 6)


def test_threshold_is_five_hundredths_and_inclusive() -> None:
    # d = 2: a unit of strength x beside one of 2 - x has s = x
    assert dormant_fraction([jnp.array([[1.951, 0.049]])]) == 0.5
    assert dormant_fraction([jnp.array([[1.949, 0.051]])]) == 0.0
    assert dormant_fraction([jnp.array([[1.0, 1.0]])], threshold=1.0) == 1.0


def test_a_dead_layer_is_all_dormant() -> None:
    assert dormant_fraction([jnp.zeros((3, 5)), jnp.ones((3, 5))]) == 0.5
