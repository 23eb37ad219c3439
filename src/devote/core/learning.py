"""One gradient step, and the optimisers that take it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array

ADAM_BETAS, ADAM_EPS = (0.9, 0.999), 1e-8

Said = TypeVar("Said")
"""What a loss says besides its value: metrics, for most."""


class Learner(NamedTuple):
    """A network and the moments of its optimiser."""

    net: Any
    moments: optax.OptState

    @property
    def adam(self) -> optax.ScaleByAdamState:
        """The count and the two moments of Adam, which comes first in its chain."""
        return self.moments[0]


@dataclass(frozen=True)
class Optimiser:
    """Adam as in the paper, or the authors' LaProp with adaptive clipping and warm-up."""

    rate: float
    weight_decay: float = 0.0
    """Decoupled; on matrices only, never on biases, norm scales or Fourier features."""
    kind: Literal["adam", "laprop"] | optax.GradientTransformation = "adam"
    """A user's own transformation needs neither rate nor decay."""

    def transform(self) -> optax.GradientTransformation:
        """The optax chain."""
        if isinstance(self.kind, optax.GradientTransformation):
            return self.kind
        decay = optax.add_decayed_weights(self.weight_decay, mask=_matrices)
        if self.kind == "adam":
            adam = optax.scale_by_adam(*ADAM_BETAS, ADAM_EPS)
            return optax.chain(adam, decay, optax.scale(-self.rate))
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


class Learned(NamedTuple):
    """A part of an agent's state that every update moves: how, and what follows it.

    The target takes its Polyak step towards the new parameters, as everywhere here.
    """

    learner: Callable[[Any], Learner]
    """Where it is in the state."""
    optimiser: Optimiser
    target: Callable[[Any], Any] | None = None
    """Where its target network is."""
    rate: float = 0.0
    """Polyak rate of the target."""

    def within(self, part: Callable[[Any], Any]) -> "Learned":
        """The same in a state of which `part` is the state that was meant."""
        target = self.target
        return self._replace(
            learner=lambda state: self.learner(part(state)),
            target=None if target is None else lambda state: target(part(state)),
        )


def _matrices(net: Any) -> Any:
    """True on weight matrices: leaves called `weight`, `matrix` or `table`, and action columns."""
    decayed = {"weight", "matrix", "table", "action"}

    def decays(path: tuple[Any, ...], _: Any) -> bool:
        return bool(path) and str(path[-1]).strip(".") in decayed

    return jax.tree_util.tree_map_with_path(decays, net)


def _clip_adaptively(limit: float) -> optax.GradientTransformation:
    """Gradient norm of each tensor at most `limit` times the tensor's own norm."""

    def clip(gradient: Array, parameter: Array) -> Array:
        allowed = limit * jnp.maximum(1e-3, jnp.linalg.norm(parameter))
        return gradient * jnp.minimum(1.0, allowed / (jnp.linalg.norm(gradient) + 1e-12))

    def update(gradients: Any, state: Any, parameters: Any = None) -> tuple[Any, Any]:
        return jax.tree.map(clip, gradients, parameters), state

    return optax.GradientTransformation(lambda _: optax.EmptyState(), update)
