"""The plain ReLU network of the calibration experiments: no norm, no squashing."""

from typing import Literal

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

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
    key: PRNGKeyArray, inputs: int, width: int, depth: int, init: Init = "fan_in"
) -> Perceptron:
    """A fresh network: weights uniform in +-1/sqrt(fan-in), or by fan-out as in the authors' code.

    Biases are uniform in +-1/sqrt(fan-in) in both.
    """
    sizes = (inputs, *[width] * depth, 1)
    weights, biases = [], []
    for layer_key, size_in, size_out in zip(
        jax.random.split(key, depth + 1), sizes[:-1], sizes[1:], strict=True
    ):
        weight_key, bias_key = jax.random.split(layer_key)
        fan = size_in if init == "fan_in" else size_out
        weight = jax.random.uniform(weight_key, (size_in, size_out), minval=-1.0) * fan**-0.5
        weights.append(weight)
        biases.append(jax.random.uniform(bias_key, (size_out,), minval=-1.0) * size_in**-0.5)
    return Perceptron(tuple(weights), tuple(biases))
