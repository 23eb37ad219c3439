"""Networks, priors and an optimiser that a user gives as objects instead of settings."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from devote.core.errors import UserError
from devote.core.types import Index, Observation
from devote.nets.encoder import Encoder
from devote.nets.layers import Mlp

Build = Callable[[PRNGKeyArray, int, int], Callable[[Array], Array]]
"""`build(key, inputs, outputs)`: a callable pytree from one vector to another."""


@dataclass(frozen=True)
class Own:
    """Parts of an agent in place of those its settings describe; None leaves it to the settings."""

    network: Build | None = None
    """Body of every actor and critic."""
    prior: Build | None = None
    """g(s, a, z), one draw per index; the corrector is another draw, which learns."""
    optimiser: optax.GradientTransformation | None = None
    """Optimiser of every network."""

    def __post_init__(self) -> None:
        for name in ("network", "prior"):
            if not (getattr(self, name) is None or callable(getattr(self, name))):
                fix = "see docs/parts.md"
                expected = f"{name} to be a function of (key, inputs, outputs)"
                raise UserError(expected, f"{getattr(self, name)!r:.80}", fix)
        if not (self.optimiser is None or isinstance(self.optimiser, optax.GradientTransformation)):
            expected = "optimiser to be an optax.GradientTransformation"
            raise UserError(expected, f"{self.optimiser!r:.80}", "for example optax.adam(1e-3)")

    def names(self) -> dict[str, str]:
        """What was given, as a run directory and a model file record it."""
        given = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {name: _name(part) for name, part in given.items() if part is not None}


class OwnNet(eqx.Module):
    """A user's network behind the inputs of ours: the encoded observation, then the action."""

    arrays: Any
    rest: Any = eqx.field(static=True)
    encoder: Encoder = eqx.field(static=True)
    reads_action: bool = eqx.field(static=True)
    action_gain: float = eqx.field(static=True)

    def __init__(
        self,
        key: PRNGKeyArray,
        build: Build,
        encoder: Encoder,
        action_size: int,
        size_out: int,
        action_gain: float = 1.0,
    ):
        size_in = encoder.size + action_size
        net = build(key, size_in, size_out)
        leaves, structure = jax.tree.flatten(net)
        floats = [eqx.is_inexact_array(leaf) for leaf in leaves]
        arrays = [leaf for leaf, is_float in zip(leaves, floats, strict=True) if is_float]
        self.arrays = tuple(arrays)
        others = [None if is_float else leaf for leaf, is_float in zip(leaves, floats, strict=True)]
        self.rest = structure, tuple(others)
        self.encoder, self.action_gain = encoder, action_gain
        self.reads_action = action_size > 0
        if not arrays or any(eqx.is_array(leaf) for leaf in self.rest[1]):
            fix = "return a pytree such as an equinox Module whose arrays are all weights"
            raise UserError("a network whose arrays are floats", f"{net!r:.80}", fix)
        found = jax.eval_shape(net, jnp.zeros(size_in)).shape
        if found != (size_out,):
            fix = f"return a callable from a vector of {size_in} to one of {size_out} numbers"
            raise UserError(f"outputs of shape ({size_out},)", found, fix)

    def hidden(self, obs: Observation, action: Array | None = None) -> list[Array]:
        """Nothing: which activations a user's network has is not known."""
        return []

    def __call__(self, obs: Observation, action: Array | None = None) -> Float[Array, "*batch out"]:
        structure, others = self.rest
        floats = iter(self.arrays)
        leaves = [next(floats) if leaf is None else leaf for leaf in others]
        net = jax.tree.unflatten(structure, leaves)
        if isinstance(self.encoder.space, Index):
            seen = jax.nn.one_hot(obs, self.encoder.size)
        else:
            seen = self.encoder(obs)
        if self.reads_action:
            assert action is not None
            seen = jnp.concatenate([seen, self.action_gain * action], axis=-1)
        return jnp.vectorize(net, signature="(i)->(o)")(seen)


class OwnPrior(eqx.Module):
    """A user's prior or corrector: one number for each observation and action."""

    net: OwnNet

    def __init__(self, key: PRNGKeyArray, build: Build, encoder: Encoder, action_size: int):
        self.net = OwnNet(key, build, encoder, action_size, 1)

    def __call__(self, obs: Observation, action: Array | None = None) -> Float[Array, "*batch"]:
        return self.net(obs, action)[..., 0]


def body(
    key: PRNGKeyArray,
    encoder: Encoder,
    action_size: int,
    hidden: tuple[int, ...] | Build,
    size_out: int,
    out_gain: float = 0.0,
    action_gain: float = 1.0,
) -> Mlp | OwnNet:
    """The body of an actor or a critic: hidden layers of these widths, or a user's network."""
    if callable(hidden):
        return OwnNet(key, hidden, encoder, action_size, size_out, action_gain)
    return Mlp(key, encoder, action_size, hidden, size_out, out_gain, action_gain)


def _name(part: Any) -> str:
    named = part if hasattr(part, "__qualname__") else type(part)
    return f"{named.__module__}.{named.__qualname__}"
