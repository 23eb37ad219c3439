"""SAC, one equation at a time."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from devote.agents.sac import temperature_loss
from devote.core.trees import interpolate
from tiny import SPECS, assert_close, fresh, sac, shaken, shared, some_batch


@cache
def one_update(kind):
    """States before and after an update."""
    agent = sac(kind)
    state = shaken(1, fresh(agent))
    after, metrics = jax.jit(agent.update)(state, some_batch(2, agent.spec), jax.random.key(0))
    return state, after, metrics


@pytest.mark.parametrize("kind", SPECS)
def test_target_is_the_polyak_average_of_the_new_parameters(kind) -> None:
    before, after, _ = one_update(kind)
    old, new = shared(before.task_value_target), shared(after.task_value.net)
    expected = interpolate(old, new, 0.1)
    assert_close(shared(after.task_value_target), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", SPECS)
def test_target_stops_at_terminations_and_discounts_once(kind) -> None:
    agent = sac(kind)
    state, batch, key = shaken(1, fresh(agent)), some_batch(2, agent.spec), jax.random.key(0)
    ahead, _ = state.policy.actor.net.expect(batch.next_obs, key, state.task_value_target)
    expected = batch.reward + 0.8 * jnp.where(batch.discount > 0, ahead, 0.0)
    np.testing.assert_allclose(agent.task_target(state, batch, key), expected, rtol=1e-5, atol=1e-6)
    assert 0 < batch.discount.sum() < 24
    assert jnp.abs(ahead).min() > 1e-6


def test_temperature_falls_with_too_much_entropy_and_rises_with_too_little() -> None:
    slope = jax.grad(lambda x, surplus: temperature_loss(x, surplus)[0])
    assert slope(jnp.float32(0.3), jnp.float32(0.5)) > 0  # descending lowers it
    assert slope(jnp.float32(0.3), jnp.float32(-0.5)) < 0


@pytest.mark.parametrize(("wanted", "sign"), [(-50.0, -1), (50.0, 1)])
def test_update_moves_the_temperature_towards_the_wanted_entropy(wanted, sign) -> None:
    agent = sac("continuous", target_entropy_per_dimension=wanted)
    state = fresh(agent)
    after, _ = jax.jit(agent.update)(state, some_batch(2, agent.spec), jax.random.key(0))
    moved = after.policy.log_temperature.net - state.policy.log_temperature.net
    assert sign * moved > 0


def test_actor_climbs_the_value_and_the_entropy() -> None:
    agent = sac("continuous", learning_rate=1e-4)
    policy = shaken(1, fresh(agent)).policy
    obs, key = some_batch(2, agent.spec).obs, jax.random.key(0)

    def value(o, a):
        return 3 * a[:, 0]

    def objective(net):
        expected, entropy = net.expect(obs, key, value)
        return jnp.mean(expected + jnp.exp(policy.log_temperature.net) * entropy)

    improved, _ = jax.jit(lambda p: agent.improve(p, obs, value, key))(policy)
    assert objective(improved.actor.net) > objective(policy.actor.net) + 1e-4


def test_fresh_target_is_the_fresh_critic() -> None:
    state = fresh(sac("continuous"))
    assert_close(state.task_value_target, state.task_value.net, rtol=0)
