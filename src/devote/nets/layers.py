"""Layers: dense, row lookup, RMS norm, and the multi-layer perceptron made of them."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num, PRNGKeyArray

from devote.core.types import Index, Observation
from devote.nets.encoder import Encoder


def fan_in_normal(key: PRNGKeyArray, shape: tuple[int, ...], fan_in: int) -> Array:
    """Normal, cut at two standard deviations, of standard deviation sqrt(1 / fan_in)."""
    # 0.8796 is the standard deviation of a standard normal cut at +-2.
    return jax.random.truncated_normal(key, -2, 2, shape) * (fan_in**-0.5 / 0.87962566)


THIN = 4
"""Up to so many inputs a product is a sum of scaled rows, which fuses with what follows."""


def product(x: Float[Array, "*batch in"], matrix: Float[Array, "in out"]) -> Array:
    """`x @ matrix`, on CPUs fast also for few inputs."""
    return _thin(x, matrix) if len(matrix) <= THIN else x @ matrix


@jax.custom_vjp
def _thin(x: Array, matrix: Array) -> Array:
    terms = [x[..., i, None] * matrix[i] for i in range(len(matrix))]
    return sum(terms[1:], terms[0])


def _thin_forward(x: Array, matrix: Array) -> tuple[Array, tuple[Array, Array]]:
    return _thin(x, matrix), (x, matrix)


def _thin_backward(saved: tuple[Array, Array], slope: Array) -> tuple[Array, Array]:
    x, matrix = saved
    rows = _per_member(x, matrix).reshape(-1, x.shape[-1])
    return slope @ matrix.T, rows.T @ slope.reshape(-1, slope.shape[-1])


_thin.defvjp(_thin_forward, _thin_backward)


@jax.custom_batching.custom_vmap
def _per_member(x: Array, matrix: Array) -> Array:
    """`x`; under a `vmap` over matrices alone a copy for each, so that products are batched. XLA
    makes one wide product otherwise, and has to transpose the slopes of all members for it."""
    return x


@_per_member.def_vmap
def _per_member_vmap(size: int, mapped: list[bool], x: Array, matrix: Array) -> tuple[Array, bool]:
    x_mapped, matrix_mapped = mapped
    if matrix_mapped and not x_mapped:
        x = jnp.broadcast_to(x, (size, *x.shape))
    return x, x_mapped or matrix_mapped


class Dense(eqx.Module):
    """An affine map of the last axis."""

    weight: Float[Array, "in out"]
    bias: Float[Array, "out"]

    def __init__(self, key: PRNGKeyArray, size_in: int, size_out: int, gain: float = 1.0):
        self.weight = gain * fan_in_normal(key, (size_in, size_out), size_in)
        self.bias = jnp.zeros(size_out)

    def __call__(self, x: Float[Array, "*batch in"]) -> Float[Array, "*batch out"]:
        return x @ self.weight + self.bias


class Weight(eqx.Module):
    """The part of a first layer that reads a vector observation."""

    matrix: Float[Array, "in out"]

    def __call__(self, x: Float[Array, "*batch in"]) -> Float[Array, "*batch out"]:
        return product(x, self.matrix)


class Lookup(eqx.Module):
    """The product of a one-hot vector with a matrix: one of its rows."""

    table: Num[Array, "rows out"]

    def __call__(self, index: Array) -> Num[Array, "*batch out"]:
        return self.table[index]


class Entry(eqx.Module):
    """A first layer over observation and action together."""

    obs: Weight | Lookup
    action: Float[Array, "action out"] | None
    bias: Float[Array, "out"]
    encoder: Encoder = eqx.field(static=True)
    action_gain: float = eqx.field(static=True)

    def __call__(
        self, obs: Observation, action: Float[Array, "*batch action"] | None
    ) -> Float[Array, "*batch out"]:
        seen = obs if isinstance(self.obs, Lookup) else self.encoder(obs)
        x = self.obs(seen) + self.bias
        if self.action is not None:
            assert action is not None
            x = x + product(self.action_gain * action, self.action)
        return x


def entry(
    key: PRNGKeyArray, encoder: Encoder, action_size: int, width: int, action_gain: float = 1.0
) -> Entry:
    """A first layer at its usual initialisation; `action_size` 0 leaves the action out."""
    obs_key, action_key = jax.random.split(key)
    fan_in = encoder.size + action_size
    rows = fan_in_normal(obs_key, (encoder.size, width), fan_in)
    return Entry(
        obs=Lookup(rows) if isinstance(encoder.space, Index) else Weight(rows),
        action=fan_in_normal(action_key, (action_size, width), fan_in) if action_size else None,
        bias=jnp.zeros(width),
        encoder=encoder,
        action_gain=action_gain,
    )


class RmsNorm(eqx.Module):
    """Division by the root mean square of the last axis, and a learned scale."""

    scale: Float[Array, "width"]

    def __call__(self, x: Float[Array, "*batch width"]) -> Float[Array, "*batch width"]:
        return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-4) * self.scale


class Mlp(eqx.Module):
    """A first layer and dense layers, RMS norm and an activation between them."""

    first: Entry
    layers: tuple[Dense, ...]
    norms: tuple[RmsNorm, ...]
    out: Dense
    relu: bool = eqx.field(static=True)

    def __init__(
        self,
        key: PRNGKeyArray,
        encoder: Encoder,
        action_size: int,
        hidden: tuple[int, ...],
        size_out: int,
        out_gain: float = 0.0,
        action_gain: float = 1.0,
        relu: bool = False,
    ):
        first_key, out_key, *keys = jax.random.split(key, 1 + len(hidden))
        pairs = zip(keys, hidden[:-1], hidden[1:], strict=True)
        self.first = entry(first_key, encoder, action_size, hidden[0], action_gain)
        self.layers = tuple(Dense(layer_key, a, b) for layer_key, a, b in pairs)
        self.norms = tuple(RmsNorm(jnp.ones(width)) for width in hidden)
        self.out = Dense(out_key, hidden[-1], size_out, out_gain)
        self.relu = relu

    def hidden(self, obs: Observation, action: Array | None = None) -> list[Array]:
        """Activations of every hidden layer; dormancy is counted on these."""
        activate = jax.nn.relu if self.relu else jax.nn.silu
        activations = [activate(self.norms[0](self.first(obs, action)))]
        for layer, norm in zip(self.layers, self.norms[1:], strict=True):
            activations.append(activate(norm(layer(activations[-1]))))
        return activations

    def __call__(self, obs: Observation, action: Array | None = None) -> Array:
        return self.out(self.hidden(obs, action)[-1])
