"""What is written for speed gives what JAX's own functions give."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from devote.nets.functions import normal
from devote.nets.layers import THIN, product


@pytest.mark.parametrize("shape", [(), (3,), (256, 6), (5, 2)])
def test_normal_draws_are_those_of_jax(shape: tuple[int, ...]) -> None:
    key = jax.random.key(3)
    mine, theirs = (jax.jit(f, static_argnums=1)(key, shape) for f in (normal, jax.random.normal))
    np.testing.assert_allclose(mine, theirs, rtol=1e-6)


@pytest.mark.parametrize("inputs", [1, THIN, THIN + 1])
@pytest.mark.parametrize("mapped", [(None, None), (None, 0), (0, None), (0, 0)])
def test_product_and_its_gradient_are_those_of_a_plain_one(
    inputs: int, mapped: tuple[int | None, int | None]
) -> None:
    keys = jax.random.split(jax.random.key(0), 3)
    lead = [() if axis is None else (3,) for axis in mapped]
    x = jax.random.normal(keys[0], (*lead[0], 7, inputs))
    matrix = jax.random.normal(keys[1], (*lead[1], inputs, 5))
    slope = jax.random.normal(keys[2], (7, 5))

    def results(multiply):
        def weighed(x, matrix):
            return jnp.sum(slope * multiply(x, matrix))

        value, both = multiply, jax.grad(weighed, argnums=(0, 1))
        if mapped != (None, None):
            value = jax.vmap(multiply, mapped)
            both = jax.grad(lambda x, m: jax.vmap(weighed, mapped)(x, m).sum(), argnums=(0, 1))
        return value(x, matrix), *both(x, matrix)

    for mine, plain in zip(results(product), results(jnp.matmul), strict=True):
        np.testing.assert_allclose(mine, plain, rtol=1e-4, atol=1e-5)
