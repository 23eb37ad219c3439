"""Several length scales in one prior, and the one that suits the first data."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from devote.agents.devote import Devote, DevoteSettings
from devote.build import build_agent
from devote.core.errors import UserError
from devote.core.settings import check_ranges, with_texts
from devote.core.types import EnvSpec, Index, Transition, Vector
from devote.epistemic.lengths import length_of, suited
from tiny import DEVOTE, SPECS, changed_leaves, fresh, some_batch

SPEC = SPECS["continuous"]
SEVERAL = replace(DEVOTE, num_indices=4, num_features=512, length_scales=(0.5, 4.0))


def steps_at(obs, actions=1) -> Transition:
    """Steps through these observations, in their order."""
    none = jnp.zeros(len(obs))
    return Transition(obs, jnp.zeros((len(obs), actions)), none, none, obs, none)


def walk(spacing: float, dims: int = 2, actions: int = 1) -> Transition:
    """First around the origin, then half of it as before and half farther and farther away."""
    random = np.random.default_rng(0)
    home = random.normal(size=(450, dims)) * spacing * 2
    away = np.linspace(0, 8, 150)[:, None] * spacing + np.zeros((150, dims))
    later = np.concatenate([home[300:], away])
    every = np.concatenate([home[:300], random.permutation(later)])
    return steps_at(jnp.asarray(every, jnp.float32), actions)


def test_indices_take_the_lengths_in_turn() -> None:
    state = fresh(Devote(SEVERAL, SPEC))
    for net in (state.prior, state.corrector.net, state.corrector_target):
        (rows,) = jax.tree.leaves(net.members.phase.obs)
        found = 1 / np.sqrt(np.mean(np.square(rows), axis=(1, 2)))
        np.testing.assert_allclose(found, [0.5, 4, 0.5, 4], rtol=0.1)
    one = fresh(Devote(replace(SEVERAL, length_scales=(1.0,)), SPEC))
    assert not changed_leaves(one, fresh(Devote(replace(SEVERAL, length_scales=()), SPEC)))


@pytest.mark.parametrize(("spacing", "best"), [(1.0, 2.0), (8.0, 16.0), (0.1, 0.2)])
def test_the_chosen_length_scales_with_the_data(spacing: float, best: float) -> None:
    space = Vector((-1e3,) * 2, (1e3,) * 2)
    candidates = tuple(best * factor for factor in (1 / 32, 1, 32))
    assert suited(walk(spacing), space, candidates, False) == pytest.approx(best)
    assert suited(walk(spacing), space, candidates[::-1], True) == pytest.approx(best)


def test_one_hot_states_are_told_apart_by_short_lengths() -> None:
    places = jnp.asarray(np.random.default_rng(1).integers(0, 400, 600))
    assert suited(steps_at(places), Index(400), (1.0, 2.5, 5.0, 7.5), False) == 1


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
def test_it_is_chosen_once_before_the_first_update(kind: str) -> None:
    spec = SPECS[kind]
    chooses = replace(SEVERAL, length_scales=(2.0, 5.0), choose_length=True)
    agent = build_agent("devote", chooses, spec)
    state, key, valid = fresh(agent), jax.random.key(0), jnp.ones(200, bool)
    batch = some_batch(1, spec)
    many = jax.tree.map(lambda x: jnp.resize(x, (200, *x.shape[1:])), batch)
    few = jax.tree.map(lambda x: x[:8], many)
    assert not changed_leaves(state, agent.observe(state, few, None, key, jnp.int32(0)))
    after = agent.observe(state, many, valid, key, jnp.int32(0))
    inner = after.agent if kind == "discrete" else after
    found = float(agent.diagnose(after, batch)["epistemic/length_scale"])
    assert min(abs(found - 2), abs(found - 5)) < 0.3
    np.testing.assert_allclose(length_of(inner.corrector_target), found, rtol=0.1)
    learned, _ = agent.update(after, batch, key)
    assert not changed_leaves(learned, agent.observe(learned, many, None, key, jnp.int32(9)))


def test_normalised_observations_are_judged_in_the_units_of_the_first_update() -> None:
    endless = Vector((-np.inf,) * 2, (np.inf,) * 2, own_units=True)
    spec = EnvSpec("endless", endless, SPEC.action, 10)
    lengths = (0.01, 0.05, 0.25, 1.0)
    chooses = replace(SEVERAL, length_scales=lengths, choose_length=True)
    agent = build_agent("devote", chooses, spec)
    found = []
    for spacing in (1.0, 1000.0):
        state = agent.observe(
            fresh(agent), walk(spacing, actions=2), None, jax.random.key(0), jnp.int32(0)
        )
        found.append(float(length_of(state.agent.prior)))
    assert found[0] == found[1]
    assert 0.02 < found[0] < 0.5


def test_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UserError, match="length_scales to choose from; got none"):
        DevoteSettings(choose_length=True)
    with pytest.raises(UserError, match="a corrector that is trained, for length_scales"):
        replace(SEVERAL, corrector="exact")
    with pytest.raises(UserError, match="length_scales above 0"):
        check_ranges(with_texts(DevoteSettings(), {"length_scales": "1+0"}))
