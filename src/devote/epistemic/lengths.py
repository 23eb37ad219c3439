"""Length scales of a Fourier prior: one for each index, or the one that suits the first data."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from devote.core.types import Index, Transition, Vector
from devote.nets.ensemble import Ensemble

FIRST_STEPS = 60
"""Fewest steps from which a length scale is chosen."""
POINTS = 256
"""Most points of each half of the first data that are looked at."""
NOISE = 0.1
"""Standard deviation of the zeros to which the posterior is fitted; a corrector has a floor too."""


def with_lengths(net: Ensemble, lengths: Float[Array, "index"]) -> Ensemble:
    """The same random functions, of length scale 1 before, each with a length scale of its own."""
    phase = net.members.phase
    entries = jax.tree.map(lambda rows: rows / lengths[:, None, None], (phase.obs, phase.action))
    where = lambda n: (n.members.phase.obs, n.members.phase.action)  # noqa: E731
    return eqx.tree_at(where, net, entries, is_leaf=lambda leaf: leaf is None)


def length_of(net: Ensemble) -> Float[Array, ""]:
    """The length scale that the frequencies of its members show."""
    frequencies = jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(net.members.phase.obs)])
    return 1 / jnp.sqrt(jnp.mean(frequencies**2))


def suited(
    steps: Transition, space: Vector | Index, lengths: tuple[float, ...], sees_action: bool
) -> Float[Array, ""]:
    """The length scale with which the earlier half of some steps best predicts what is new in the
    later half.

    For every candidate the exact posterior of a Gaussian process stands in for prior and corrector.
    Of the later points the third farthest from all earlier ones is new, the nearest third known;
    the best candidate leaves most uncertainty on the new beyond that on the known. One that is too
    short is unsure of both, one that is too long of neither. Ties go to the first.
    """
    half = len(steps.reward) // 2
    chosen = np.linspace(0, half - 1, min(half, POINTS)).astype(int)
    early, late = (jax.tree.map(lambda x, i=i: x[i], steps) for i in (chosen, half + chosen))
    among, across = (_squares(early, to, space, sees_action) for to in (early, late))
    order, third = jnp.argsort(across.min(axis=0)), len(chosen) // 3

    def contrast(length: Float[Array, ""]) -> Float[Array, ""]:
        kernel, to = (jnp.exp(-squares / (2 * length**2)) for squares in (among, across))
        factor = jnp.linalg.cholesky(kernel + NOISE**2 * jnp.eye(len(kernel)))
        known = jax.scipy.linalg.solve_triangular(factor, to, lower=True)
        std = jnp.sqrt(jnp.maximum(0.0, 1 - jnp.sum(known**2, axis=0)))[order]
        return std[-third:].mean() - std[:third].mean()

    candidates = jnp.asarray(lengths)
    return candidates[jnp.argmax(jax.lax.map(contrast, candidates))]


def _squares(
    one: Transition, other: Transition, space: Vector | Index, sees_action: bool
) -> Float[Array, "one other"]:
    """Squared distances; indices are one-hot vectors."""

    def between(a: Array, b: Array) -> Array:
        squares = jnp.sum(a**2, axis=-1)[:, None] + jnp.sum(b**2, axis=-1) - 2 * a @ b.T
        return jnp.maximum(0.0, squares)

    if isinstance(space, Index):
        squares = 2.0 * (one.obs[:, None] != other.obs[None])
    else:
        squares = between(one.obs, other.obs)
    return squares + between(one.action, other.action) if sees_action else squares
