"""The bonus falls where we have been and stays high where not."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mdps import NUM_STATES, PROBE_SAC, SPECS, Row, both_sides, train

from devote.agents.devote import Devote
from tiny import DEVOTE, fresh

HOME = (Row(0.0, 1, False), Row(0.0, 2, False), Row(0.0, 3, False), Row(0.0, 0, False))
SETTINGS = replace(
    DEVOTE, sac=PROBE_SAC, num_indices=8, num_features=128, corrector_rate=1e-2, length_scale=0.5
)


@pytest.mark.parametrize("kind", SPECS)
def test_bonus_starts_positive_falls_at_home_and_stays_high_abroad(kind) -> None:
    agent = Devote(SETTINGS, SPECS[kind])

    def bonus(state):
        each = [agent.bonus(state, *both_sides(agent.spec, s)) for s in range(NUM_STATES)]
        return jnp.array(each).mean(axis=1)

    start = fresh(agent)
    before, after = (jax.jit(bonus)(s) for s in (start, train(agent, start, 600, HOME)))
    home, abroad = np.arange(4), np.arange(4, NUM_STATES)
    assert (before > 0).all()
    assert after[home].max() < 0.3 * before[home].mean()
    assert after[abroad].mean() > 0.6 * before[abroad].mean()
    assert after[abroad].min() > 2 * after[home].max()
