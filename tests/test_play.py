"""Complete episodes in a task on the host, as `evaluate` counts them."""

import jax
import numpy as np

from devote.core.types import Box, EnvSpec, Outcome, Vector
from devote.play import evaluate
from on_host import OnHost

LENGTH = 4


class Clock:
    """Counts to four; pays its count, and takes away half of it, in two terms."""

    spec = EnvSpec(
        name="clock",
        observation=Vector((0.0,), (float(LENGTH),)),
        action=Box(1),
        episode_length=LENGTH,
        terms=("wage", "tax"),
        says_success=True,
    )

    def reset(self, key):
        return jax.numpy.int32(0)

    def observe(self, world):
        return world[None].astype(jax.numpy.float32)

    def step(self, world, action, key):
        after = world + 1
        wage = after.astype(jax.numpy.float32)
        terms = {"wage": wage, "tax": -wage / 2}
        return after, Outcome(wage / 2, after == LENGTH, after == 2, terms)

    def bin_of(self, world):
        return jax.numpy.int32(-1)


class Idle:
    """An agent without a choice."""

    def exploit(self, state, obs, key=None):
        return np.zeros((len(obs), 1), np.float32)


def test_the_host_reports_what_the_compiled_evaluation_does() -> None:
    agent, env = Idle(), Clock()
    compiled = evaluate(agent, env, (), agent.exploit, 4, seed=0)
    host = evaluate(agent, OnHost(env, 2), (), agent.exploit, 4, seed=0)
    assert host == compiled
    assert (host["term/wage"], host["term/tax"]) == (10.0, -5.0)
    assert (host["mean_reward"], host["success_rate"], host["episodes"]) == (5.0, 1.0, 4.0)
