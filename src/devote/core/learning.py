"""One gradient step, and the optimisers that take it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array

Said = TypeVar("Said")
"""What a loss says besides its value: metrics, for most."""


class Learner(NamedTuple):
    """A network and the moments of its optimiser."""

    net: Any
    moments: optax.OptState


@dataclass(frozen=True)
class Optimiser:
    """Adam as in the paper, or the authors' LaProp with adaptive clipping and warm-up."""

    rate: float
    weight_decay: float = 0.0
    """Decoupled; on matrices only, never on biases, norm scales or Fourier features."""
    kind: Literal["adam", "laprop"] = "adam"

    def transform(self) -> optax.GradientTransformation:
        """The optax chain."""
        decay = optax.add_decayed_weights(self.weight_decay, mask=_matrices)
        if self.kind == "adam":
            return optax.chain(optax.scale_by_adam(), decay, optax.scale(-self.rate))
        return optax.chain(
            _clip_adaptively(0.3),
            optax.scale_by_rms(decay=0.999, eps=1e-20, bias_correction=True, eps_in_sqrt=False),
            optax.ema(0.9, debias=True),
            decay,
            optax.scale_by_schedule(lambda count: -self.rate * jnp.minimum(count / 1000.0, 1.0)),
        )

    def start(self, net: Any) -> Learner:
        """A network with fresh moments."""
        return Learner(net, self.transform().init(net))

    def descend(
        self, learner: Learner, loss: Callable[..., tuple[Array, Said]], *inputs: Any
    ) -> tuple[Learner, Said]:
        """One step down the gradient of `loss` in its first argument."""
        gradient, said = jax.grad(loss, has_aux=True)(learner.net, *inputs)
        updates, moments = self.transform().update(gradient, learner.moments, learner.net)
        return Learner(optax.apply_updates(learner.net, updates), moments), said


def _matrices(net: Any) -> Any:
    """True on weight matrices: leaves called `weight`, `matrix` or `table`, and action columns."""
    decayed = {"weight", "matrix", "table", "action"}

    return jax.tree_util.tree_map_with_path(lambda path, _: _name(path) in decayed, net)


def _name(path: tuple[Any, ...]) -> str:
    """The name of a leaf."""
    return str(path[-1]).strip(".") if path else ""


def _clip_adaptively(limit: float) -> optax.GradientTransformation:
    """Gradient norm of each tensor at most `limit` times the tensor's own norm.

    Of a lookup table only rows with a gradient count: others may be padding (`nets.rows`).
    """

    def clip(path: tuple[Any, ...], gradient: Array, parameter: Array) -> Array:
        if _name(path) == "table":
            parameter = jnp.where((gradient != 0).any(axis=-1, keepdims=True), parameter, 0)
        allowed = limit * jnp.maximum(1e-3, jnp.linalg.norm(parameter))
        return gradient * jnp.minimum(1.0, allowed / (jnp.linalg.norm(gradient) + 1e-12))

    def update(gradients: Any, state: Any, parameters: Any = None) -> tuple[Any, Any]:
        return jax.tree_util.tree_map_with_path(clip, gradients, parameters), state

    return optax.GradientTransformation(lambda _: optax.EmptyState(), update)
