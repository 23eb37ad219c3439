"""Which prior a corrector has to cancel, as settings."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Literal, get_args

import jax
import numpy as np

from devote.core.errors import UserError
from devote.regression.perceptron import Init, Perceptron, perceptron
from devote.regression.waves import Readout, Waves, waves

Trains = Literal["all", "readout"]
Net = Waves | Perceptron


@dataclass(frozen=True)
class RFN:
    """A Randomized Fourier Network: approximately a draw from a GP with an RBF kernel."""

    length_scale: float | Literal["auto"] = 0.25
    """In the units of the inputs; "auto" chooses from the training data (`length_scale.py`)."""
    features: int = 1024  # paper
    readout: Readout = "ones"
    """Ones (paper) or "normal", variance 1; "uniform" (authors' code), variance 1/3."""
    trains: Trains = "all"
    """What of the corrector learns: everything, or the readout alone as in the authors' code."""

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

    def draw(self, generator: np.random.Generator, members: int, inputs: int) -> Waves:
        """Fresh networks."""
        if isinstance(self.length_scale, str):
            raise UserError("a chosen length scale", "auto", "call `choose_length_scale` first")
        return waves(generator, members, inputs, self.features, self.length_scale, self.readout)

    def trained(self, net: Waves) -> Waves:
        """True on the parameters of a corrector that learn."""
        everything = jax.tree.map(lambda _: self.trains == "all", net)
        bias = None if net.bias is None else True
        return Waves(everything.frequencies, everything.phases, True, bias)  # type: ignore[arg-type]


@dataclass(frozen=True)
class MLP:
    """A randomly initialised ReLU network, the customary prior."""

    width: int = 100  # paper
    depth: int = 2  # paper
    init: Init = "fan_in"
    """The usual uniform initialisation, or "fan_out", the transposed one of the authors' code."""

    def __post_init__(self) -> None:
        whole = at_least(1, self.width) and at_least(1, self.depth)
        _check(whole, "whole width and depth of at least 1", self)
        _check(self.init in get_args(Init), f"one of {get_args(Init)}", self.init)

    def draw(self, generator: np.random.Generator, members: int, inputs: int) -> Perceptron:
        """Fresh networks."""
        return perceptron(generator, members, inputs, self.width, self.depth, self.init)

    def trained(self, net: Perceptron) -> Perceptron:
        """True on every parameter."""
        return jax.tree.map(lambda _: True, net)


Prior = RFN | MLP


def at_least(least: int, value: object) -> bool:
    """Whether it is a whole number and not smaller."""
    return isinstance(value, Integral) and int(value) >= least


def _check(good: bool, expected: str, got: object) -> None:
    if not good:
        raise UserError(expected, repr(got), "change the prior's settings")
