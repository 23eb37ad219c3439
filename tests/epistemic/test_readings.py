"""DEVOTE's bonus and the upper confidence bound's, read off one critic."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from devote.epistemic.tud import residual
from tiny import SPECS, devote, fresh, shaken, some_batch


@pytest.mark.parametrize("kind", SPECS)
def test_both_bonuses_read_one_critic(kind) -> None:
    mean, spread = devote(kind), devote(kind, bonus="std")
    state = shaken(1, fresh(mean))
    obs, action, *_ = some_batch(2, mean.spec)
    value = np.asarray(state.novelty_value.net(obs, action))
    local = np.asarray(residual(state.corrector.net, state.prior, obs, action))
    expected = (value + np.abs(local)).mean(axis=0)
    np.testing.assert_allclose(mean.bonus(state, obs, action), expected, rtol=1e-4, atol=1e-5)
    expected = (value + local).std(axis=0)
    np.testing.assert_allclose(spread.bonus(state, obs, action), expected, rtol=1e-4, atol=1e-4)


def test_spread_of_equal_values_has_a_finite_slope() -> None:
    agent = devote("continuous", bonus="std", bonus_has_novelty=False)
    state = fresh(agent)  # every index predicts exactly 0
    obs, action, *_ = some_batch(2, agent.spec)
    slope = jax.grad(lambda a: agent.bonus(state, obs, a).sum())(action)
    assert jnp.isfinite(slope).all()
