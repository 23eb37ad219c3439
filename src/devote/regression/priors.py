"""Settings of the priors that correctors learn to cancel, and the networks drawn from them."""

from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from devote.core.errors import UserError
from devote.nets.fourier import FourierNet

Readout = Literal["ones", "normal", "uniform"]
Trains = Literal["all", "readout"]
Init = Literal["fan_in", "fan_out"]


class Perceptron(eqx.Module):
    """Affine layers with ReLU between them and one output: no norm, no squashing."""

    weights: tuple[Float[Array, "in out"], ...]
    biases: tuple[Float[Array, "out"], ...]

    def __call__(self, x: Float[Array, "rows inputs"]) -> Float[Array, "rows"]:
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = jax.nn.relu(x @ weight + bias)
        return (x @ self.weights[-1] + self.biases[-1])[:, 0]


@dataclass(frozen=True)
class RFN:
    """Randomized Fourier Network: approximately a draw from a GP with an RBF kernel."""

    length_scale: float | Literal["auto"] = 0.25
    """In the units of the inputs; "auto" chooses it from the training data (`length_scale.py`)."""
    features: int = 1024  # paper
    readout: Readout = "ones"
    """Ones (paper) or "normal", variance 1; "uniform" (authors' code), variance 1/3."""
    trains: Trains = "all"
    """What the corrector trains: everything, or only the readout, as in the authors' code."""

    def __post_init__(self) -> None:
        if isinstance(self.length_scale, str):
            _check(self.length_scale == "auto", 'a positive number or "auto"', self.length_scale)
        else:
            number = isinstance(self.length_scale, Real)
            positive = number and 0 < self.length_scale < float("inf")
            _check(positive, "a positive, finite length scale", self.length_scale)
        _check(at_least(1, self.features), "at least one feature", self.features)
        _check(self.readout in get_args(Readout), f"one of {get_args(Readout)}", self.readout)
        _check(self.trains in get_args(Trains), f"one of {get_args(Trains)}", self.trains)

    def draw(self, generator: np.random.Generator, members: int, inputs: int) -> FourierNet:
        """Fresh networks along a leading member axis, drawn by NumPy: compiling JAX's generator for
        every new shape took longer than short fits."""
        if isinstance(self.length_scale, str):
            raise UserError("a chosen length scale", "auto", "call `choose_length_scale` first")
        shape = (members, self.features)
        frequencies = generator.normal(size=(members, inputs, self.features)) / self.length_scale
        phases = generator.uniform(0.0, 2 * np.pi, shape)
        bias = None
        if self.readout == "ones":
            weights = np.ones(shape)
        elif self.readout == "normal":
            weights = generator.normal(size=shape)
        else:
            # a linear layer of m inputs and one output, initialised by fan-out
            weights = generator.uniform(-1.0, 1.0, shape)
            bias = generator.uniform(-1.0, 1.0, members) * self.features**-0.5
        return _single(FourierNet(frequencies, phases, weights, bias))  # type: ignore[arg-type]

    def trained(self, net: FourierNet) -> FourierNet:
        """True on the trained parameters of a corrector."""
        entry = self.trains == "all"
        bias = None if net.bias is None else True
        return FourierNet(entry, entry, True, bias)  # type: ignore[arg-type]


@dataclass(frozen=True)
class MLP:
    """Randomly initialised ReLU network, the usual prior."""

    width: int = 100  # paper
    depth: int = 2  # paper
    init: Init = "fan_in"
    """The usual uniform initialisation, or "fan_out", the transposed one of the authors' code."""

    def __post_init__(self) -> None:
        whole = at_least(1, self.width) and at_least(1, self.depth)
        _check(whole, "whole width and depth of at least 1", self)
        _check(self.init in get_args(Init), f"one of {get_args(Init)}", self.init)

    def draw(self, generator: np.random.Generator, members: int, inputs: int) -> Perceptron:
        """Fresh networks along a leading member axis; weights are uniform in +-1/sqrt(fan), biases
        in +-1/sqrt(fan-in)."""
        weights, biases = [], []
        for size_in, size_out in pairwise((inputs, *[self.width] * self.depth, 1)):
            fan = size_in if self.init == "fan_in" else size_out
            weights.append(generator.uniform(-1.0, 1.0, (members, size_in, size_out)) * fan**-0.5)
            biases.append(generator.uniform(-1.0, 1.0, (members, size_out)) * size_in**-0.5)
        return _single(Perceptron(tuple(weights), tuple(biases)))

    def trained(self, net: Perceptron) -> Perceptron:
        """True on every parameter."""
        return jax.tree.map(lambda _: True, net)


Prior = RFN | MLP
Net = FourierNet | Perceptron


def at_least(least: int, value: object) -> bool:
    """Whether it is a whole number from `least` to 2^31."""
    return isinstance(value, Integral) and least <= int(value) < 2**31


def _single(net: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), net)


def _check(good: bool, expected: str, got: object) -> None:
    if not good:
        raise UserError(expected, repr(got), "change the prior's settings")
