"""S, the robust spread of the task value."""

import jax.numpy as jnp
import numpy as np
import pytest

from devote.epistemic.tud import ValueScale, value_scale


def test_one_step_goes_one_hundredth_of_the_way_to_the_percentiles() -> None:
    values = np.random.default_rng(0).normal(3.0, 40.0, size=1001).astype(np.float32)
    low, high = np.percentile(values, [5, 95])
    scale = ValueScale(jnp.float32(1.0), jnp.float32(2.0)).follow(jnp.asarray(values))
    assert scale.low == pytest.approx(0.99 * 1.0 + 0.01 * low, rel=1e-4)
    assert scale.high == pytest.approx(0.99 * 2.0 + 0.01 * high, rel=1e-4)


def test_divisor_is_the_spread_but_never_below_one() -> None:
    assert ValueScale(jnp.float32(-3.0), jnp.float32(4.0)).divisor == 7
    assert ValueScale(jnp.float32(0.2), jnp.float32(0.4)).divisor == 1
    assert value_scale().divisor == 1
