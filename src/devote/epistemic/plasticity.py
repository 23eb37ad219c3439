"""Plasticity: dormant neurons. Soft resets are `core.trees.interpolate` towards fresh networks."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def dormant_fraction(
    activations: list[Float[Array, "batch width"]], threshold: float = 0.05
) -> Float[Array, ""]:
    """Share of hidden units, over all layers, whose mean |activation| is at most `threshold` times
    the mean of their layer (paper, appendix D.4)."""
    dormant, units = jnp.zeros(()), 0
    for layer in activations:
        strength = jnp.abs(layer).mean(axis=0)
        dormant += jnp.sum(strength <= threshold * strength.mean())
        units += strength.size
    return dormant / units
