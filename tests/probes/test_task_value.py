"""Task values reach the analytic values, and exploitation takes the rewarded action."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from mdps import PROBE_SAC, REWARDED_ACTION, SPECS, VALUES, both_sides, observe, train

from devote.agents.devote import Devote
from devote.agents.sac import Sac
from tiny import DEVOTE, fresh

CASES = [("sac", head, kind) for kind in SPECS for head in ("scalar", "two_hot")]
CASES += [("devote", "two_hot", "continuous"), ("devote", "scalar", "discrete")]
UPDATES = 1500


@cache
def trained(name, head, kind):
    """An agent, its SAC, and the SAC's state after training; once per process."""
    sac = replace(PROBE_SAC, value_head=head)
    if name == "sac":
        agent = Sac(sac, SPECS[kind])
        state = train(agent, fresh(agent), UPDATES)
        return agent, state, state
    agent = Devote(replace(DEVOTE, sac=sac, num_indices=2, num_features=16), SPECS[kind])
    state = train(agent, fresh(agent), UPDATES)
    return agent, state, state.task


@pytest.mark.parametrize(("agent", "head", "kind"), CASES)
class TestTaskValue:
    @pytest.mark.parametrize("probe", VALUES)
    def test_reaches_the_analytic_value(self, agent, head, kind, probe) -> None:
        _, _, task = trained(agent, head, kind)
        for state, value in VALUES[probe].items():
            found = task.task_value.net(*both_sides(SPECS[kind], state))
            np.testing.assert_allclose(found, value, atol=0.1, err_msg=f"state {state}")

    def test_knows_the_rewarded_action(self, agent, head, kind) -> None:
        _, _, task = trained(agent, head, kind)
        found = task.task_value.net(*both_sides(SPECS[kind], REWARDED_ACTION))
        np.testing.assert_allclose(found, [-1.0, 1.0], atol=0.2)

    def test_exploitation_takes_the_rewarded_action(self, agent, head, kind) -> None:
        learner, state, _ = trained(agent, head, kind)
        action = learner.greedy(state, observe(SPECS[kind], [REWARDED_ACTION]))[0]
        assert action[-1] > 0.5  # near +1, or the one-hot of the choice +1
