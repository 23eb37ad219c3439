"""Regression of many small networks in one compiled program: all members, all splits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from devote.core import trees
from devote.core.errors import UserError
from devote.regression.rows import Rows, stack

Layout = Literal["auto", "loop", "vmap"]
Progress = Callable[[int, int], None]
"""Told how many epochs are done, of how many."""

_BLOCK = 512
"""Rows evaluated at once: the features of a block stay in cache."""


@dataclass(frozen=True)
class Training:
    """Adam on minibatches, as in the paper's appendix."""

    epochs: int = 500  # paper
    batch_size: int = 256  # paper
    rate: float = 1e-3  # paper
    layout: Layout = "auto"
    """Networks after one another (they stay in a CPU's cache) or side by side (accelerators)."""

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1 or not self.rate > 0:
            raise UserError("positive epochs, batch_size and rate", self, "change the training")


class Targets(NamedTuple):
    """What the networks of every split regress on, and how much each row counts."""

    value: Float[Array, "splits members rows"]
    weight: Float[Array, "splits members rows"]


class _Lane(NamedTuple):
    """One network while it learns: its trained part and the moments of its optimiser."""

    trained: Any
    moments: Any


def train(
    nets: Any,
    trained: Any,
    rows: Rows,
    targets: Targets,
    keys: PRNGKeyArray,
    settings: Training,
    weight_decay: float = 0.0,
    progress: Progress | None = None,
) -> Any:
    """Networks stacked over (splits, members), fitted by weighted least squares.

    `trained` is True on the leaves that learn; members of a split see the same batches.
    """
    lane_parts, frozen = eqx.partition(nets, trained)
    optimiser = _optimiser(settings.rate, weight_decay)
    lanes = _Lane(lane_parts, jax.vmap(jax.vmap(optimiser.init))(lane_parts))
    done, chunk = 0, max(1, settings.epochs // 20) if progress else settings.epochs
    while done < settings.epochs:
        count = min(chunk, settings.epochs - done)
        epochs = jnp.arange(done, done + count)
        lanes = _run(
            lanes, frozen, rows, targets, keys, epochs, settings=settings, weight_decay=weight_decay
        )
        done += count
        if progress:
            jax.block_until_ready(lanes)
            progress(done, settings.epochs)
    return eqx.combine(lanes.trained, frozen)


def _optimiser(rate: float, weight_decay: float) -> optax.GradientTransformation:
    # The decay joins the gradient before Adam scales it, as in the optimiser called "Adam".
    return optax.chain(
        optax.add_decayed_weights(weight_decay), optax.scale_by_adam(), optax.scale(-rate)
    )


def each(function: Callable[..., Any], layout: Layout) -> Callable[..., Any]:
    """`function` over the leading axis of all its arguments, in the wanted layout."""
    if layout == "auto":
        layout = "loop" if jax.default_backend() == "cpu" else "vmap"
    if layout == "vmap":
        return jax.vmap(function)
    return lambda *inputs: jax.lax.map(lambda given: function(*given), inputs)


@partial(jax.jit, static_argnames=("settings", "weight_decay"), donate_argnums=0)
def _run(
    lanes: _Lane,
    frozen: Any,
    rows: Rows,
    targets: Targets,
    keys: PRNGKeyArray,
    epochs: Array,
    *,
    settings: Training,
    weight_decay: float,
) -> _Lane:
    """Some epochs of every split."""
    batch = min(settings.batch_size, rows.batch_limit)
    optimiser = _optimiser(settings.rate, weight_decay)

    def split(
        lanes: _Lane, frozen: Any, x: Array, count: Array, targets: Targets, key: PRNGKeyArray
    ) -> _Lane:
        def epoch(lanes: _Lane, number: Array) -> tuple[_Lane, None]:
            order = _shuffled(jax.random.fold_in(key, number), x.shape[0], count)
            batches = x[order].reshape(-1, batch, x.shape[1])
            live = (jnp.arange(order.size) < count).reshape(-1, batch)

            def member(lane: _Lane, frozen: Any, value: Array, weight: Array) -> _Lane:
                value, weight = (a[order].reshape(-1, batch) for a in (value, weight))

                def step(lane: _Lane, now: tuple[Array, ...]) -> tuple[_Lane, None]:
                    return _descend(optimiser, lane, frozen, *now), None

                return jax.lax.scan(step, lane, (batches, value, weight, live))[0]

            return each(member, settings.layout)(lanes, frozen, *targets), None

        return jax.lax.scan(epoch, lanes, epochs)[0]

    return each(split, settings.layout)(lanes, frozen, *rows, targets, keys)


def _descend(
    optimiser: optax.GradientTransformation,
    lane: _Lane,
    frozen: Any,
    x: Array,
    value: Array,
    weight: Array,
    live: Array,
) -> _Lane:
    """One Adam step on the mean over the real rows of a batch; none where there are no rows."""
    rows = jnp.sum(live)

    def loss(trained: Any) -> Array:
        error = eqx.combine(trained, frozen)(x) - value
        return jnp.sum(jnp.where(live, weight * error**2, 0.0)) / jnp.maximum(rows, 1)

    updates, moments = optimiser.update(jax.grad(loss)(lane.trained), lane.moments, lane.trained)
    moved = _Lane(optax.apply_updates(lane.trained, updates), moments)
    return trees.where(rows > 0, moved, lane)


def _shuffled(key: PRNGKeyArray, length: int, count: Array) -> Array:
    """A random order of the real rows, then the padding."""
    ranks = jax.random.uniform(key, (length,))
    return jnp.argsort(jnp.where(jnp.arange(length) < count, ranks, 2.0))


def evaluate(nets: Any, inputs: Sequence[np.ndarray], layout: Layout = "auto") -> list[np.ndarray]:
    """Outputs `(members, rows)` of every split's networks at that split's inputs."""
    stacked = stack(inputs, _BLOCK)
    outputs = np.asarray(_evaluate(nets, stacked.x, layout=layout))
    return [values[:, : len(x)] for values, x in zip(outputs, inputs, strict=True)]


@partial(jax.jit, static_argnames="layout")
def _evaluate(nets: Any, x: Array, layout: Layout) -> Array:
    block = min(_BLOCK, x.shape[1])

    def split(nets: Any, x: Array) -> Array:
        blocks = x.reshape(-1, block, x.shape[-1])

        def member(net: Any) -> Array:
            return jax.lax.map(net, blocks).reshape(-1)

        return each(member, layout)(nets)

    return each(split, layout)(nets, x)
