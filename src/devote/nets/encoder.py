"""How a stored observation becomes the input of a network."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from devote.core.types import Index, Observation, Vector
from devote.nets.functions import cos, symlog


@dataclass(frozen=True)
class Encoder:
    """Raw values by default; optionally scaled to [-1, 1] and joined by fixed Fourier features.

    RMS norm after a first layer without bias removes the length of its input, so a raw position
    in the plane keeps only its angle. Scaling and features (nothing learned, the same in every
    run) give small networks a usable view; the prior never sees them.
    """

    space: Vector | Index
    scaled: bool = False
    features: int = 0
    length: float = 1.0
    """Length scale of the features, in the units of the observation."""
    squashed: bool = False
    """Whether all of it goes through symlog, as in a world model."""

    @property
    def size(self) -> int:
        """How many numbers come out; rows of the lookup table for an index."""
        return self.space.size + (self.features if isinstance(self.space, Vector) else 0)

    def __call__(self, obs: Observation) -> Float[Array, "*batch size"]:
        """The network's view of vector observations."""
        assert isinstance(self.space, Vector)
        parts = [self._scale(obs) if self.scaled else obs]
        if self.features:
            frequencies, phases = self._frequencies()
            parts.append(cos(obs @ frequencies + phases))
        view = jnp.concatenate(parts, axis=-1)
        return symlog(view) if self.squashed else view

    def _scale(self, obs: Array) -> Array:
        assert isinstance(self.space, Vector)
        low, high = np.asarray(self.space.low), np.asarray(self.space.high)
        return (2 * (obs - low) / (high - low) - 1).astype(jnp.float32)

    def _frequencies(self) -> tuple[np.ndarray, np.ndarray]:
        generator = np.random.default_rng(0)
        frequencies = generator.normal(size=(self.space.size, self.features)) / self.length
        phases = generator.uniform(0, 2 * np.pi, size=self.features)
        return frequencies.astype(np.float32), phases.astype(np.float32)
