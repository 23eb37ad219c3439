"""Networks, priors and optimisers that come as objects from Python."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jaxtyping import Array

from corridor import SHORT, TINY, Corridor, observations, stacked
from devote import Devote, DevotePlus, Sac, Thompson
from devote.core.errors import UserError
from devote.saved import saved_run


def network(key: Any, inputs: int, outputs: int) -> eqx.nn.MLP:
    return eqx.nn.MLP(inputs, outputs, 8, 1, activation=jnp.tanh, key=key)


class Waves(eqx.Module):
    """A prior that knows how its values look."""

    weights: Array

    def __init__(self, key: Any, inputs: int, outputs: int):
        self.weights = 3 * jax.random.normal(key, (inputs, outputs))

    def __call__(self, x: Array) -> Array:
        return 0.5 + 0.1 * jnp.sin(x @ self.weights)


def own(**more: Any) -> Devote:
    parts = {"network": network, "prior": Waves, "optimiser": optax.sgd(1e-3)}
    settings = {n: v for n, v in SHORT.items() if not n.endswith(("_width", "_depth", "features"))}
    return Devote(Corridor, seed=3, **settings | parts | more)


def test_objects_take_the_place_of_settings() -> None:
    agent = own().learn(160, progress_bar=False)
    state = agent.state.agent  # behind the normalisation of observations
    prior = state.prior(jnp.zeros((4, 10)), jnp.zeros((4, 2)))
    assert ((prior > 0.39) & (prior < 0.61)).all(), "the prior is not the given one"
    shapes = [leaf.shape for leaf in jax.tree.leaves(state.task.policy.actor.net)]
    assert shapes == [(8, 18), (8,), (2, 8), (2,)]
    assert not jax.tree.leaves(state.task.task_value.moments), "sgd has no moments"
    actions = agent.predict(stacked(observations(5)))
    assert all(Corridor.action_space.contains(action) for action in actions)


def test_an_index_is_seen_as_one_hot() -> None:
    small = {n: v for n, v in TINY.items() if not n.endswith(("_width", "_depth", "features"))}
    agent = Devote("deep_sea", size=4, network=network, prior=Waves, **small)
    agent.learn(160, progress_bar=False)
    assert agent.predict(np.arange(5)).shape == (5,)


def test_what_no_file_can_hold_must_be_given_again(tmp_path: Path) -> None:
    first = own(directory=tmp_path / "run").learn(160, progress_bar=False)
    again = own(directory=tmp_path / "run")
    batch = stacked(observations(9))
    np.testing.assert_array_equal(first.predict(batch), again.predict(batch))
    with pytest.raises(UserError, match=r"own.prior: saved \"\w+.Waves\", asked nothing"):
        Devote(Corridor, directory=tmp_path / "run", **SHORT).learn(160)
    with pytest.raises(UserError, match=r"use it from Python, with the same objects"):
        saved_run(tmp_path / "run")
    first.save(tmp_path / "model")
    with pytest.raises(UserError, match=r"give load the objects .* prior=MyPrior\(\)"):
        Devote.load(tmp_path / "model")
    parts: dict[str, Any] = {"network": network, "prior": Waves, "optimiser": optax.sgd(1e-3)}
    loaded = Devote.load(tmp_path / "model", Corridor, **parts)
    np.testing.assert_array_equal(first.predict(batch), loaded.predict(batch))


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (Devote, {"prior": 7}, r"prior to be a function of \(key, inputs, outputs\)"),
        (Devote, {"optimiser": 1e-3}, r"optax.GradientTransformation.*for example optax.adam"),
        (Devote, {"prior": Waves, "length_scale": 2.0}, "no length_scale beside prior"),
        (Devote, {"network": lambda key, i, o: jnp.tanh}, "arrays are floats"),
        (Devote, {"network": lambda key, i, o: Waves(key, i, 9)}, r"outputs of shape \(2,\)"),
        (
            Devote,
            {"network": lambda key, i, o: eqx.nn.MLP(i, o, 8, 1, activation=lambda x: x, key=key)},
            "one structure at every call",
        ),
        (Sac, {"prior": Waves}, "an agent that trains a corrector"),
        (DevotePlus, {"prior": Waves}, "an agent that trains a corrector"),
        (Thompson, {"network": network}, "sac or a kind of devote"),
    ],
)
def test_what_cannot_be_is_refused(kind: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        _ = kind(Corridor, **given).state
