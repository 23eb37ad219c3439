"""Groups of categorical variables: the stochastic part of a latent state."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Logits = Float[Array, "*batch groups classes"]


def mixed(logits: Logits, uniform: float) -> Logits:
    """Probabilities with a share of the uniform distribution in them, so that none is ever 0."""
    return (1 - uniform) * jax.nn.softmax(logits) + uniform / logits.shape[-1]


def draw(probs: Logits, chance: Float[Array, "*batch groups"]) -> Logits:
    """One-hot draws, by where uniform numbers fall; their gradient is that of the probabilities."""
    # the last class takes what rounding leaves over
    below = jnp.cumsum(probs, axis=-1)[..., :-1] < chance[..., None]
    drawn = jax.nn.one_hot(below.sum(axis=-1), probs.shape[-1])
    return jax.lax.stop_gradient(drawn - probs) + probs


def divergence(probs: Logits, from_probs: Logits) -> Float[Array, "*batch"]:
    """KL(probs || from_probs), summed over the groups."""
    return jnp.sum(probs * (jnp.log(probs) - jnp.log(from_probs)), axis=(-2, -1))
