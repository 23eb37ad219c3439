"""Functions of single numbers: a cosine that vectorises on CPUs, and a logarithm of both signs."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array


def _coefficients(terms: int = 8) -> tuple[float, ...]:
    """Least-squares fit at Chebyshev nodes of cos(2 pi t) by powers of t squared, |t| <= 1/2."""
    nodes = 0.25 * (1 + np.cos(np.pi * (np.arange(400) + 0.5) / 400))
    squares = nodes**2
    powers = squares[:, None] ** np.arange(terms)
    return tuple(np.linalg.lstsq(powers, np.cos(2 * np.pi * nodes), rcond=None)[0])


_POLYNOMIAL = _coefficients()


def cos(angle: Array) -> Array:
    """Cosine to about 1e-6 by range reduction and a polynomial; its derivative follows suit.

    XLA's own cosine is a library call per element on CPUs: see docs/decisions.md for the figure.
    """
    turns = angle * (0.5 / np.pi)
    turns = turns - jnp.round(turns)
    square = turns * turns
    value = jnp.full_like(square, _POLYNOMIAL[-1])
    for coefficient in reversed(_POLYNOMIAL[:-1]):
        value = value * square + coefficient
    return value


def symlog(x: Array) -> Array:
    """sign(x) log(1 + |x|)."""
    return jnp.sign(x) * jnp.log1p(jnp.abs(x))


def symexp(x: Array) -> Array:
    """The inverse of `symlog`."""
    return jnp.sign(x) * jnp.expm1(jnp.abs(x))
