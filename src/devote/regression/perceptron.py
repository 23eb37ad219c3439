"""The plain ReLU network of the calibration experiments: no norm, no squashing."""

from itertools import pairwise
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

Init = Literal["fan_in", "fan_out"]


class Perceptron(eqx.Module):
    """Affine layers with ReLU between them and one output."""

    weights: tuple[Float[Array, "in out"], ...]
    biases: tuple[Float[Array, "out"], ...]

    def __call__(self, x: Float[Array, "rows inputs"]) -> Float[Array, "rows"]:
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = jax.nn.relu(x @ weight + bias)
        return (x @ self.weights[-1] + self.biases[-1])[:, 0]


def perceptron(
    generator: np.random.Generator,
    members: int,
    inputs: int,
    width: int,
    depth: int,
    init: Init = "fan_in",
) -> Perceptron:
    """Fresh networks along a leading member axis.

    Weights are uniform in +-1/sqrt(fan-in), or by fan-out as in the authors' code; biases are
    uniform in +-1/sqrt(fan-in) in both.
    """
    sizes = (inputs, *[width] * depth, 1)
    weights, biases = [], []
    for size_in, size_out in pairwise(sizes):
        fan = size_in if init == "fan_in" else size_out
        weights.append(generator.uniform(-1.0, 1.0, (members, size_in, size_out)) * fan**-0.5)
        biases.append(generator.uniform(-1.0, 1.0, (members, size_out)) * size_in**-0.5)
    return jax.tree.map(
        lambda a: jnp.asarray(a, jnp.float32), Perceptron(tuple(weights), tuple(biases))
    )
