"""Classic RND: what it normalises, and what it pays."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tiny import SPECS, changed_leaves, fresh, registered, shaken, some_batch

KEY = jax.random.key(0)


@cache
def one_update(kind):
    """An agent, a batch of large observations, and the states around an update on it."""
    agent = registered("rnd-classic", kind)
    batch = some_batch(2, agent.spec)
    if kind == "continuous":
        batch = batch._replace(next_obs=batch.next_obs * jnp.asarray([1.0, 50.0, 1.0]) + 7)
    state, start = shaken(1, fresh(agent)), fresh(agent)
    state = state._replace(seen=start.seen, returns=start.returns)
    after, _ = jax.jit(agent.update)(state, batch, KEY)
    return agent, batch, state, after


def test_target_and_predictor_see_normalised_and_clipped_observations() -> None:
    agent, far, _, after = one_update("continuous")
    np.testing.assert_allclose(after.seen.mean, far.next_obs.mean(axis=0), rtol=1e-4)
    view = np.asarray(agent.view(after, far.next_obs))
    np.testing.assert_allclose(view.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(view.std(axis=0), 1, rtol=1e-3)
    assert np.abs(agent.view(after, far.next_obs * 1e4)).max() == 5.0
    # so the unit in which an entry is told does not change its novelty
    moved = after._replace(seen=after.seen._replace(mean=after.seen.mean + 3))
    there, here = agent.novelty(moved, far.next_obs + 3), agent.novelty(after, far.next_obs)
    np.testing.assert_allclose(there, here, rtol=1e-3)


@pytest.mark.parametrize("kind", SPECS)
def test_intrinsic_target_pays_at_the_successor_in_units_of_the_spread_of_returns(kind) -> None:
    agent = registered("rnd-classic", kind)
    state, batch = shaken(1, fresh(agent)), some_batch(2, agent.spec)
    seen = jnp.float32(24.0)
    before = state.returns._replace(number=seen, mean=jnp.float32(1.0), variance=jnp.float32(9.0))
    state = state._replace(returns=before, seen=fresh(agent).seen)
    after, target = jax.jit(agent.intrinsic_target)(state, batch, KEY)

    explorer = state.explorer.actor.net
    ahead, _ = explorer.expect(batch.next_obs, KEY, state.intrinsic_value_target)
    raw = agent.novelty(state, batch.next_obs) + 0.8 * batch.discount * ahead * 3.0
    np.testing.assert_allclose(target, raw / after.returns.std, rtol=1e-3, atol=1e-5)
    expected = 0.5 * (9.0 + np.var(raw)) + 0.25 * (np.mean(raw) - 1.0) ** 2
    np.testing.assert_allclose(after.returns.variance, expected, rtol=1e-3)


@pytest.mark.parametrize("kind", SPECS)
def test_update_changes_all_that_learns_and_never_the_random_target(kind) -> None:
    _, _, state, after = one_update(kind)
    parts = {name.split(".")[1].split("[")[0] for name in changed_leaves(state, after)}
    still = {"prior"} | ({"seen"} if kind == "discrete" else set())
    assert parts == set(state._fields) - still


@pytest.mark.parametrize("kind", SPECS)
def test_explorer_maximises_scaled_task_value_plus_weighted_intrinsic_value(kind) -> None:
    agent = registered("rnd-classic", kind, intrinsic_weight=1.7)
    state = shaken(1, fresh(agent))
    state = state._replace(value_scale=state.value_scale._replace(low=-1.0, high=3.0))
    obs, action, *_ = some_batch(2, agent.spec)
    judge = jax.jit(lambda net: net(obs, action))
    expected = judge(state.task.task_value.net) / 4.0 + 1.7 * judge(state.intrinsic_value.net)
    found = jax.jit(agent.optimistic_value)(state, obs, action)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
