"""Evaluation counts complete episodes, each once."""

import jax
import numpy as np
import pytest
from scripted import LIMIT, SUCCESS, Counter, Scripted

from devote.core.types import Box, EnvSpec, Outcome, Vector
from devote.core.worker import Worker
from devote.loops.episodes import evaluate
from devote.loops.host import HostEvaluation
from on_host import OnHost


def test_early_successes_bias_nothing_and_nothing_counts_after_the_end() -> None:
    found = evaluate(Scripted(), Counter(), {}, 400, jax.random.key(0))
    won = float(found["eval/mean_reward"])  # 1 per success, though the world would go on paying
    assert won == pytest.approx(0.5, abs=0.1)
    assert won * 400 == pytest.approx(round(won * 400), abs=1e-3)
    length = SUCCESS * won + LIMIT * (1 - won)
    assert found["eval/mean_ep_length"] == pytest.approx(length, rel=1e-5)
    assert found["eval/success_rate"] == found["eval/term/prize"] == found["eval/mean_reward"]
    ages = sum(range(SUCCESS + 1)) * won + sum(range(LIMIT + 1)) * (1 - won)
    assert found["eval/term/age"] == pytest.approx(ages, rel=1e-5)
    assert found["eval/std_reward"] == pytest.approx((won * (1 - won)) ** 0.5, rel=1e-4)


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

    spec = Clock.spec

    def exploit(self, state, obs, key=None):
        return np.zeros((len(obs), 1), np.float32)


@pytest.mark.parametrize(("num_envs", "each"), [(4, 1), (2, 2), (1, 4)])
def test_the_host_reports_what_the_compiled_evaluation_does(num_envs, each) -> None:
    worker, env, key = Worker(0), Clock(), jax.random.key(0)
    compiled = evaluate(Idle(), env, (), 4, key)
    player = HostEvaluation(
        Idle(), lambda n: OnHost(env, n), num_envs, (0,), worker, each, patience=2
    )
    host = player.run((), key)
    worker.close()
    assert host == compiled
    assert (host["eval/term/wage"], host["eval/term/tax"]) == (10.0, -5.0)
    assert (host["eval/mean_reward"], host["eval/success_rate"]) == (5.0, 1.0)
