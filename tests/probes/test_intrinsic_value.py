"""With an ensemble that never learns, SOMBRL's intrinsic value is the discounted disagreement that
its explorer will meet; its task value is that of the rewards."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from mdps import DISCOUNT, PROBE_SAC, SPECS, Row, both_sides, train

from devote.agents.sombrl import Sombrl, SombrlSettings
from tiny import UNCERTAINTY, fresh

CHAIN = (  # 0 -> 1 -> 2 -> over, and 3 for ever
    Row(0.0, 1, False),
    Row(0.0, 2, False),
    Row(1.0, 2, True),
    Row(0.0, 3, False),
)
SETTINGS = SombrlSettings(
    sac=PROBE_SAC,
    uncertainty=replace(UNCERTAINTY, model_rate=0.0),
    slow_explorer_polyak=0.0,  # the slow copy stays what the explorer was
)
AGENT = Sombrl(SETTINGS, SPECS["discrete"])


def discounted(reward, probs) -> np.ndarray:
    """The value of a policy by its equations, (state, action)."""
    values = np.zeros((4, 2))
    for _ in range(200):
        ahead = (probs * values).sum(axis=1)
        following = np.array([0.0 if r.terminated else ahead[r.successor] for r in CHAIN])
        values = reward + DISCOUNT * following[:, None]
    return values


@pytest.mark.slow
def test_values_are_of_the_rewards_and_of_the_disagreement_that_the_explorer_meets() -> None:
    state = train(AGENT, fresh(AGENT), 1000, CHAIN)
    obs, action = (np.concatenate(x) for x in zip(*map(where, range(4)), strict=True))

    @jax.jit
    def seen(state):
        actors = (state.explorer.actor.net, state.slow_explorer)
        return (
            AGENT.uncertainty(state.beliefs, obs, action),
            state.intrinsic_value.net(obs, action),
            state.task.task_value.net(obs, action),
            *(actor._probs(obs[::2]) for actor in actors),
        )

    reward, found, task, probs, slow = map(np.asarray, seen(state))
    reward, found = reward.reshape(4, 2), found.reshape(4, 2)
    of_rewards = np.array([DISCOUNT**2, DISCOUNT, 1.0, 0.0])
    np.testing.assert_allclose(task.reshape(4, 2), of_rewards[:, None].repeat(2, 1), atol=0.15)
    wanted = discounted(reward, probs)
    others = {
        "slow copy": discounted(reward, slow),
        "reward of the successor": discounted(reward[[r.successor for r in CHAIN]], probs),
        "reward of another row": discounted(np.roll(reward, 1, axis=0), probs),
    }
    np.testing.assert_allclose(found, wanted, atol=0.15)
    for name, other in others.items():  # or the probe could not tell them apart
        assert np.abs(other - wanted).max() > 0.3, name


def where(number: int):
    """A state with both of its actions."""
    return both_sides(SPECS["discrete"], number)
