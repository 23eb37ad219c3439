"""DEVOTE, one line of Algorithm 1 at a time."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from devote.core.trees import interpolate
from devote.epistemic.tud import residual
from tiny import (
    SAC,
    SPECS,
    assert_close,
    changed_leaves,
    devote,
    fresh,
    registered,
    shaken,
    shared,
    some_batch,
)


@cache
def one_update(kind):
    agent = devote(kind)
    state = shaken(1, fresh(agent))
    after, metrics = jax.jit(agent.update)(state, some_batch(2, agent.spec), jax.random.key(0))
    return state, after, metrics


@jax.jit
def parts(state, obs, action):
    """Task value, novelty value and signed residual at some actions."""
    local = residual(state.corrector.net, state.prior, obs, action)
    return state.task.task_value.net(obs, action), state.novelty_value.net(obs, action), local


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize(
    ("learner", "target", "rate"),
    [("corrector", "corrector_target", 0.005), ("novelty_value", "novelty_value_target", 0.1)],
)
def test_targets_are_polyak_averages_of_the_new_parameters(kind, learner, target, rate) -> None:
    before, after, _ = one_update(kind)
    old, new = shared(getattr(before, target)), shared(getattr(after, learner).net)
    expected = interpolate(old, new, rate)
    assert_close(shared(getattr(after, target)), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", SPECS)
def test_update_changes_all_that_learns_and_never_the_prior(kind) -> None:
    before, after, _ = one_update(kind)
    parts = {name.split(".")[1].split("[")[0] for name in changed_leaves(before, after)}
    assert parts == set(before._fields) - {"prior", "resets"}


@pytest.mark.parametrize(("probability", "learns"), [(0.0, False), (1.0, True)])
def test_only_given_transitions_teach_the_corrector_and_the_novelty_value(
    probability, learns
) -> None:
    sac = replace(SAC, critic_weight_decay=0.0)
    agent = devote("continuous", sac=sac, bootstrap_probability=probability)
    state, batch = shaken(1, fresh(agent)), some_batch(2, agent.spec)
    after, _ = jax.jit(agent.update)(state, batch, jax.random.key(0))
    for part in ("corrector", "novelty_value"):
        changed = changed_leaves(getattr(state, part).net, getattr(after, part).net)
        assert bool(changed) == learns, part
    assert changed_leaves(state.task.task_value.net, after.task.task_value.net)


@pytest.mark.parametrize("kind", SPECS)
def test_fresh_novelty_value_is_exactly_zero(kind) -> None:
    batch = some_batch(2, SPECS[kind])
    _, ahead, _ = parts(fresh(devote(kind)), batch.obs, batch.action)
    assert (ahead == 0).all()


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("propagation", ["magnitude", "signed"])
def test_novelty_target_looks_ahead_with_the_explorer_and_target_networks(
    kind, propagation
) -> None:
    agent = devote(kind, propagation=propagation)
    state, batch, key = shaken(1, fresh(agent)), some_batch(2, agent.spec), jax.random.key(0)

    def ahead(obs, action):
        local = residual(state.corrector_target, state.prior, obs, action)
        local = jnp.abs(local) if propagation == "magnitude" else local
        return local + state.novelty_value_target(obs, action)

    @jax.jit
    def target(policy):
        value, _ = policy.actor.net.expect(batch.next_obs, key, ahead)
        return 0.8 * batch.discount * value

    found = jax.jit(agent.novelty_target)(state, batch, key)
    np.testing.assert_allclose(found, target(state.explorer), rtol=1e-4, atol=1e-5)
    assert not np.allclose(found, target(state.task.policy), atol=1e-2)


@pytest.mark.parametrize("kind", SPECS)
def test_optimistic_value_is_scaled_value_plus_beta_times_mean_bonus(kind) -> None:
    agent = devote(kind, optimism=1.7)
    state = shaken(1, fresh(agent))
    state = state._replace(value_scale=state.value_scale._replace(low=-1.0, high=3.0))
    obs, action, *_ = some_batch(2, agent.spec)
    task, ahead, local = parts(state, obs, action)
    expected = task / 4.0 + 1.7 * (ahead + np.abs(local)).mean(axis=0)
    found = jax.jit(agent.optimistic_value)(state, obs, action)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["devote", "devote-no-tud"])
def test_sigma_q_is_the_spread_over_indices_of_the_whole_value(name) -> None:
    agent = registered(name, "discrete")
    state, batch = shaken(1, fresh(agent)), some_batch(2, agent.spec)
    task, ahead, local = parts(state, batch.obs, batch.action)
    expected = np.std(task + ahead + local, axis=0).mean()
    found = jax.jit(agent.diagnose)(state, batch)["epistemic/sigma_q"]
    assert expected > 0.1
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_without_optimism_the_explorer_s_objective_is_sac_s() -> None:
    agent = devote("continuous", optimism=0.0)
    state = shaken(1, fresh(agent))
    state = state._replace(value_scale=state.value_scale._replace(low=-1.0, high=3.0))
    obs, action, *_ = some_batch(2, agent.spec)
    task, _, _ = parts(state, obs, action)
    found = jax.jit(agent.optimistic_value)(state, obs, action)
    np.testing.assert_allclose(found, task / 4.0, rtol=1e-5)
    plain = state._replace(value_scale=state.value_scale._replace(low=0.0, high=1.0))
    key = jax.random.key(0)
    explorer, _ = jax.jit(agent.improve_explorer)(plain, obs, key)
    value = plain.task.task_value.net
    exploiter, _ = jax.jit(lambda p: agent.sac.improve(p, obs, value, key))(plain.explorer)
    assert_close(explorer.explorer.actor.net, exploiter.actor.net, rtol=1e-4, atol=1e-6)


def test_prior_sees_raw_observations_whatever_the_networks_see() -> None:
    agent = devote("continuous")
    changed = devote("continuous", sac=agent.settings.sac.__class__(scale_inputs=True))
    obs, action, *_ = some_batch(2, agent.spec)
    one, other = (
        jax.jit(lambda key, a=a: a.build_prior(key, True)(obs, action))(jax.random.key(0))
        for a in (agent, changed)
    )
    np.testing.assert_array_equal(one, other)


def test_prior_and_corrector_are_independent_draws() -> None:
    state, batch = fresh(devote("continuous")), some_batch(2, SPECS["continuous"])
    obs, action, *_ = batch
    values = jax.jit(
        lambda s: jnp.concatenate([f(obs, action) for f in (s.prior, s.corrector.net)])
    )(state)
    correlation = np.corrcoef(values) - np.eye(6)
    assert np.abs(correlation).max() < 0.8
