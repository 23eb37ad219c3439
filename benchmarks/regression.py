"""Training of the ten-member RFN ensemble on ten splits, beside its own matrix products."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jaxtyping import Array

from devote.regression.data import gap
from devote.regression.models import fit_pairs
from devote.regression.priors import RFN, Trains
from devote.regression.training import FitSettings


@dataclass(frozen=True)
class Sizes:
    """A table like concrete by default."""

    rows: int = 1030
    inputs: int = 8
    splits: int = 10
    members: int = 10
    features: int = 1024
    epochs: int = 20
    trains: Trains = "all"
    repeats: int = 5


def best(function: Callable[[], Any], repeats: int) -> float:
    """Fewest CPU seconds of some runs, after one that compiles; other work disturbs these less."""
    jax.block_until_ready(function())
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        jax.block_until_ready(function())
        seconds.append(time.process_time() - start)
    return min(seconds)


def products(sizes: Sizes, batch: int, steps: int) -> Callable[[], Array]:
    """As many steps of the products alone: phases, output, and the gradients of what trains."""
    key = jax.random.key(0)
    x = jax.random.uniform(key, (steps, batch, sizes.inputs + 1))
    frequencies = jax.random.normal(key, (sizes.inputs + 1, sizes.features))
    readout = jax.random.normal(key, (sizes.features,))

    @jax.jit
    def run() -> Array:
        def step(carry: tuple[Array, Array], x: Array) -> tuple[tuple[Array, Array], None]:
            frequencies, readout = carry
            phase = x @ frequencies
            output = phase @ readout
            readout_gradient = output @ phase
            if sizes.trains == "readout":
                return (frequencies, readout + 1e-9 * readout_gradient), None
            gradient = (x * output[:, None]).T @ phase
            return (frequencies + 1e-9 * gradient, readout + 1e-9 * readout_gradient), None

        def net(_: Array) -> Array:
            return jax.lax.scan(step, (frequencies, readout), x)[0][1]

        return jax.lax.map(net, jnp.arange(sizes.splits * sizes.members))

    return run


def main(sizes: Sizes) -> None:
    """Print both times and their ratio."""
    table = np.random.default_rng(0).uniform(size=(sizes.rows, sizes.inputs))
    inputs = [table[gap(table, split)[0]] for split in range(sizes.splits)]
    training = FitSettings(epochs=sizes.epochs)
    batch = min(training.batch_size, 1 << (len(inputs[0]) - 1).bit_length())
    steps = -(-len(inputs[0]) // batch) * sizes.epochs
    prior = RFN(0.25, sizes.features, trains=sizes.trains)

    def fit() -> Any:
        return fit_pairs(prior, inputs, sizes.members, training, range(sizes.splits)).corrector

    alone = best(products(sizes, batch, steps), sizes.repeats)
    whole = best(fit, sizes.repeats)
    again = best(products(sizes, batch, steps), sizes.repeats)
    gemm = min(alone, again)
    per_step = 1e6 / (steps * sizes.splits * sizes.members)
    print(f"training {whole:.2f} s ({whole * per_step:.0f} us per network and step)")
    print(f"products {gemm:.2f} s ({gemm * per_step:.0f} us per network and step)")
    print(f"ratio    {whole / gemm:.2f}")


if __name__ == "__main__":
    main(tyro.cli(Sizes))
