"""One gradient step and the optimisers that take it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from devote.core.learning import Optimiser
from devote.core.trees import interpolate, where
from devote.nets.critic import Critic, Scalar
from devote.nets.encoder import Encoder
from tiny import SPECS, devote, named_leaves, shaken


def flat_loss(net):
    """A loss without slope, so that only weight decay moves anything."""
    return sum(0.0 * leaf.sum() for leaf in jax.tree.leaves(net)), {}


@pytest.mark.parametrize("kind", SPECS)
def test_weight_decay_shrinks_matrices_and_nothing_else(kind) -> None:
    spec = SPECS[kind]
    fresh = Critic(jax.random.key(0), Encoder(spec.observation), spec.action, (8, 8), Scalar())
    before = shaken(1, fresh)
    optimiser = Optimiser(rate=0.1, weight_decay=0.5)
    after = jax.jit(lambda net: optimiser.descend(optimiser.start(net), flat_loss)[0].net)(before)
    old, new = named_leaves(before), named_leaves(after)
    kept = {name for name in old if name.endswith((".bias", ".scale"))}
    assert len(kept) == 5
    for name, value in old.items():
        shrunk = value if name in kept else (1 - 0.1 * 0.5) * value
        np.testing.assert_allclose(new[name], shrunk, rtol=1e-6, err_msg=name)


def test_corrector_is_not_decayed() -> None:
    assert devote("continuous").corrector_optimiser.weight_decay == 0


def test_descend_differentiates_its_first_argument_only() -> None:
    optimiser = Optimiser(rate=0.01)

    def loss(x, y):
        return jnp.sum((x - y) ** 2), {"seen": y.sum()}

    learner, metrics = optimiser.descend(
        optimiser.start(jnp.zeros(2)), loss, jnp.array([3.0, -3.0])
    )
    np.testing.assert_allclose(learner.net, [0.01, -0.01], rtol=1e-4)  # Adam's first step
    assert metrics["seen"] == 0


@pytest.mark.parametrize("kind", ["adam", "laprop"])
def test_both_optimisers_reach_the_bottom_of_a_bowl(kind) -> None:
    optimiser = Optimiser(rate=0.05, kind=kind)

    def step(learner, _):
        return optimiser.descend(learner, lambda x: (jnp.sum((x - 2.0) ** 2), {}))[0], None

    start = optimiser.start(jnp.ones(3))
    learner, _ = jax.jit(lambda s: jax.lax.scan(step, s, length=3000))(start)
    np.testing.assert_allclose(learner.net, 2.0, atol=0.02)


def test_interpolate_is_exact_at_both_ends_and_between() -> None:
    old, new = {"a": jnp.array([1.0, 2.0])}, {"a": jnp.array([5.0, -2.0])}
    assert interpolate(old, new, 0.0)["a"].tolist() == [1, 2]
    assert interpolate(old, new, 1.0)["a"].tolist() == [5, -2]
    assert interpolate(old, new, 0.25)["a"].tolist() == [2, 1]


def test_where_picks_along_the_leading_axis_of_every_leaf() -> None:
    chosen = (jnp.ones((2, 3)), jnp.ones(2))
    mixed = where(jnp.array([True, False]), chosen, jax.tree.map(jnp.zeros_like, chosen))
    assert mixed[0].tolist() == [[1, 1, 1], [0, 0, 0]]
    assert mixed[1].tolist() == [1, 0]
