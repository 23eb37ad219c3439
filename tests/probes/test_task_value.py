"""Task values reach the analytic values, and exploitation takes the rewarded action."""

from dataclasses import replace
from functools import cache
from itertools import cycle

import numpy as np
import pytest
from mdps import PROBE_SAC, REWARDED_ACTION, SPECS, VALUES, both_sides, observe, train

from devote.agents.joint_td import JointTd
from devote.agents.sac import Sac
from devote.agents.thompson import Thompson
from devote.build import AGENTS
from tiny import DEVOTE, fresh, slow_but

# either agent has either head and either kind of action, and together every pair of them
CASES = [("sac", "scalar", "continuous"), ("sac", "two_hot", "discrete")]
CASES += [("devote", "two_hot", "continuous"), ("devote", "scalar", "discrete")]
UPDATES = 1500
LEAK = {"devote-no-tud": 0.2}
"""Under joint TD parts make good each other's errors: the sum is noisier, b has only a share."""


def built(name, head, kind):
    """A small agent of the registry."""
    sac = replace(PROBE_SAC, value_head=head)
    settings = AGENTS[name].like(replace(DEVOTE, sac=sac, num_indices=2, num_features=16))
    return AGENTS[name].build(settings, SPECS[kind])


def rivals():
    """Each further kind of agent once, with two-hot continuous and scalar discrete in turn."""
    kinds = {entry.build: name for name, entry in reversed(AGENTS.items())}
    names = [name for name in kinds.values() if name not in ("sac", "devote")]
    turns = cycle([("two_hot", "continuous"), ("scalar", "discrete")])
    cases = [(name, *turn) for name, turn in zip(names, turns, strict=False)]
    # SOMBRL has a probe of its own, with a world model that is small enough; an evaluator's policy
    # does not improve
    return [case for case in cases if case[0] not in ("sombrl", "evaluator")]


CASES += rivals()


@cache
def trained(name, head, kind):
    """An agent and its state after training; once per process."""
    agent = built(name, head, kind)
    return agent, train(agent, fresh(agent), UPDATES)


def task_value(name, head, kind, number):
    """What the agent believes of both sides of a state; by member or index where it has them."""
    agent, state = trained(name, head, kind)
    where = both_sides(SPECS[kind], number)
    if isinstance(agent, Thompson | JointTd):
        return agent.value(state, *where)
    task = state if isinstance(agent, Sac) else state.task
    return task.task_value.net(*where)


@pytest.mark.parametrize(("agent", "head", "kind"), slow_but(CASES[1:3], CASES))
class TestTaskValue:
    @pytest.mark.parametrize("probe", VALUES)
    def test_reaches_the_analytic_value(self, agent, head, kind, probe) -> None:
        for state, value in VALUES[probe].items():
            found = task_value(agent, head, kind, state)
            np.testing.assert_allclose(
                found, value, atol=0.1 + LEAK.get(agent, 0.0), err_msg=f"state {state}"
            )

    def test_knows_the_rewarded_action(self, agent, head, kind) -> None:
        found = task_value(agent, head, kind, REWARDED_ACTION)
        np.testing.assert_allclose(
            found, np.broadcast_to([-1.0, 1.0], found.shape), atol=0.2 + LEAK.get(agent, 0.0)
        )

    def test_exploitation_takes_the_rewarded_action(self, agent, head, kind) -> None:
        learner, state = trained(agent, head, kind)
        action = learner.exploit(state, observe(SPECS[kind], [REWARDED_ACTION] * 2))
        least = 0.5 if agent not in LEAK else 0.1
        assert (action[:, -1] > least).all()  # near +1, or the one-hot of the choice +1
