"""Trains all members of all splits in one compiled program."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any, Literal, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from devote.core import trees
from devote.core.errors import UserError
from devote.regression.priors import at_least

Layout = Literal["auto", "loop", "vmap"]

_BLOCK = 512
"""Rows evaluated at once: the features of a block stay in cache."""
_CHUNK = 25
"""Most epochs in one call of the compiled program; checkpoints are written between calls."""


@dataclass(frozen=True)
class FitSettings:
    """Adam on minibatches, as in the paper's appendix."""

    epochs: int = 500  # paper
    batch_size: int = 256  # paper
    rate: float = 1e-3  # paper
    layout: Layout = "auto"
    """Networks one after another (in a CPU's cache) or in parallel (accelerators)."""

    def __post_init__(self) -> None:
        counts = at_least(1, self.epochs) and at_least(1, self.batch_size)
        if not (counts and isinstance(self.rate, Real) and 0 < self.rate < float("inf")):
            expected = "whole epochs and batch_size of at least 1 and a positive, finite rate"
            raise UserError(expected, self, "change the training")


class PaddedInputs(NamedTuple):
    """The padded inputs of several splits, and how many rows of each are real."""

    x: Float[Array, "splits rows inputs"]
    real: tuple[int, ...]

    @property
    def length(self) -> int:
        """Rows including padding."""
        return self.x.shape[1]


class Targets(NamedTuple):
    """Regression targets of every network, and weights of the rows."""

    value: Float[Array, "splits members rows"]
    weight: Float[Array, "splits members rows"]


class Checkpoint(Protocol):
    """Saves the state of a fit so that a later process can resume it."""

    def restore(self, state: Any) -> tuple[Any, int]:
        """The state to start from, and its number of epochs."""

    def save(self, state: Any, done: int, total: int) -> None:
        """Save the state after `done` epochs."""


class _Lane(NamedTuple):
    """One network in training: its trained part and its optimiser's moments."""

    trained: Any
    moments: Any


class _Batch(NamedTuple):
    """Data of one step; `live` is False on padding."""

    x: Array
    value: Array
    weight: Array
    live: Array


def pad(values: Sequence[np.ndarray], length: int) -> Float[np.ndarray, "splits length ..."]:
    """Arrays stacked along a new first axis and padded with zeros."""
    stacked = np.zeros((len(values), length, *values[0].shape[1:]), np.float32)
    for row, value in zip(stacked, values, strict=True):
        row[: len(value)] = value
    return stacked


def pad_inputs(inputs: Sequence[np.ndarray], batch_size: int) -> PaddedInputs:
    """All splits padded to whole batches, or below one batch to a power of two, so that few
    programs are compiled."""
    longest = max(len(x) for x in inputs)
    length = min(batch_size, 1 << max(longest - 1, 1).bit_length())
    if longest >= batch_size:
        length = -(-longest // batch_size) * batch_size
    return PaddedInputs(jnp.asarray(pad(inputs, length)), tuple(len(x) for x in inputs))


def train(
    nets: Any,
    trained: Any,
    rows: PaddedInputs,
    targets: Targets,
    seeds: Sequence[int],
    settings: FitSettings,
    weight_decay: float = 0.0,
    checkpoint: Checkpoint | None = None,
) -> Any:
    """Fit networks stacked over (splits, members) by weighted least squares.

    `trained` is True on the trained leaves. The members of a split see the same batches, in an
    order that depends on the split's seed only.
    """
    parts, frozen = eqx.partition(nets, trained)
    lanes, behind = _start(parts), 0
    if checkpoint:
        lanes, behind = checkpoint.restore(lanes)
    generators = [np.random.default_rng([seed, 3]) for seed in seeds]
    batch = min(settings.batch_size, rows.length)
    ragged = len({-(-count // batch) for count in rows.real}) > 1
    epochs = next(n for n in range(_CHUNK, 0, -1) if settings.epochs % n == 0)
    for done in range(epochs, settings.epochs + 1, epochs):
        # drawn for finished epochs too: later orders depend on how many were drawn
        orders = batch_orders(generators, rows, epochs)
        if done <= behind:
            continue
        given = (rows.x, targets, jnp.asarray(orders), jnp.asarray(rows.real))
        lanes = _run(lanes, frozen, *given, settings, weight_decay, ragged)
        if checkpoint:
            checkpoint.save(jax.block_until_ready(lanes), done, settings.epochs)
    return eqx.combine(lanes.trained, frozen)


def batch_orders(
    generators: Sequence[np.random.Generator], rows: PaddedInputs, epochs: int
) -> Int[np.ndarray, "splits epochs rows"]:
    """Random orders of the real rows, followed by the padding; made on the host, because sorting
    random numbers on a CPU device costs more to compile and to run."""
    orders = np.tile(np.arange(rows.length, dtype=np.int32), (len(generators), epochs, 1))
    for split, generator, count in zip(orders, generators, rows.real, strict=True):
        generator.permuted(split[:, :count], axis=1, out=split[:, :count])
    return orders


def _optimiser(rate: float, weight_decay: float) -> optax.GradientTransformation:
    # L2 decay is added to the gradient before Adam scales it, as in torch.optim.Adam
    return optax.chain(
        optax.add_decayed_weights(weight_decay), optax.scale_by_adam(), optax.scale(-rate)
    )


@jax.jit
def _start(trained: Any) -> _Lane:
    # Adam's initial moments do not depend on rate and decay
    return _Lane(trained, jax.vmap(jax.vmap(_optimiser(1.0, 0.0).init))(trained))


def each(function: Callable[..., Any], layout: Layout) -> Callable[..., Any]:
    """Map `function` over the leading axis of all arguments, in the given layout."""
    if layout == "auto":
        layout = "loop" if jax.default_backend() == "cpu" else "vmap"
    if layout == "vmap":
        return jax.vmap(function)
    return lambda *inputs: jax.lax.map(lambda given: function(*given), inputs)


@partial(jax.jit, static_argnums=(6, 7, 8), donate_argnums=0)
def _run(
    lanes: _Lane,
    frozen: Any,
    x: Float[Array, "splits rows inputs"],
    targets: Targets,
    orders: Int[Array, "splits epochs rows"],
    real: Int[Array, "splits"],
    settings: FitSettings,
    weight_decay: float,
    ragged: bool,
) -> _Lane:
    """Train every split for some epochs."""
    batch = min(settings.batch_size, x.shape[1])
    optimiser = _optimiser(settings.rate, weight_decay)

    def split(
        lanes: _Lane, frozen: Any, x: Array, targets: Targets, orders: Array, real: Array
    ) -> _Lane:
        live = (jnp.arange(x.shape[0]) < real).reshape(-1, batch)

        def epoch(lanes: _Lane, order: Array) -> tuple[_Lane, None]:
            batches = x[order].reshape(-1, batch, x.shape[1])

            def member(lane: _Lane, frozen: Any, value: Array, weight: Array) -> _Lane:
                value, weight = (a[order].reshape(-1, batch) for a in (value, weight))

                def step(lane: _Lane, now: _Batch) -> tuple[_Lane, None]:
                    return _descend(optimiser, lane, frozen, now, ragged), None

                return jax.lax.scan(step, lane, _Batch(batches, value, weight, live))[0]

            return each(member, settings.layout)(lanes, frozen, *targets), None

        return jax.lax.scan(epoch, lanes, orders)[0]

    return each(split, settings.layout)(lanes, frozen, x, targets, orders, real)


def _descend(
    optimiser: optax.GradientTransformation,
    lane: _Lane,
    frozen: Any,
    batch: _Batch,
    ragged: bool,
) -> _Lane:
    """One Adam step on the mean loss of a batch's real rows; none if it has no real rows."""
    rows = jnp.sum(batch.live)

    def loss(trained: Any) -> Array:
        error = eqx.combine(trained, frozen)(batch.x) - batch.value
        weighted = jnp.where(batch.live, batch.weight * error**2, 0.0)
        return jnp.sum(weighted) / jnp.maximum(rows, 1)

    updates, moments = optimiser.update(jax.grad(loss)(lane.trained), lane.moments, lane.trained)
    moved = _Lane(optax.apply_updates(lane.trained, updates), moments)
    return trees.where(rows > 0, moved, lane) if ragged else moved


def evaluate(
    nets: Any, inputs: Sequence[np.ndarray], layout: Layout = "auto"
) -> list[Float[np.ndarray, "members rows"]]:
    """Outputs of every split's networks at its inputs, computed in whole blocks, so that a row's
    output does not depend on the other rows."""
    length = -(-max(len(x) for x in inputs) // _BLOCK) * _BLOCK
    outputs = np.asarray(_evaluate(nets, jnp.asarray(pad(inputs, length)), layout))
    return [values[:, : len(x)] for values, x in zip(outputs, inputs, strict=True)]


@partial(jax.jit, static_argnums=2)
def _evaluate(nets: Any, x: Array, layout: Layout) -> Array:
    def split(nets: Any, x: Array) -> Array:
        blocks = x.reshape(-1, _BLOCK, x.shape[-1])

        def member(net: Any) -> Array:
            return jax.lax.map(net, blocks).reshape(-1)

        return each(member, layout)(nets)

    return each(split, layout)(nets, x)
