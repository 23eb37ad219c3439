"""Running moments are those of all values together."""

import jax.numpy as jnp
import numpy as np

from devote.epistemic.moments import moments


def test_batches_of_any_size_give_the_moments_of_everything() -> None:
    rng = np.random.default_rng(0)
    batches = [
        rng.normal(shift, 1 + abs(shift), (size, 3)) for shift, size in ((0, 5), (4, 50), (-2, 1))
    ]
    running = moments((3,))
    for batch in batches:
        running = running.follow(jnp.asarray(batch))
    everything = np.concatenate(batches)
    np.testing.assert_allclose(running.mean, everything.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(running.std, everything.std(axis=0), rtol=1e-5)
    assert running.number == 56


def test_constant_values_have_a_deviation_that_can_divide() -> None:
    still = moments().follow(jnp.ones(7))
    assert still.mean == 1
    assert 0 < still.std < 1e-3
