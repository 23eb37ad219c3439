"""What agents with a second actor promise: it behaves, it climbs, and it is not evaluated."""

from dataclasses import replace
from functools import cache
from itertools import cycle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from devote.build import AGENTS
from tiny import SAC, UNCERTAINTY, fresh, registered, shaken, slow_but, some_batch

SLOW = {"sac": replace(SAC, learning_rate=1e-4)}
OWN = {"sombrl": {"uncertainty": UNCERTAINTY}}
KEYS = jax.random.split(jax.random.key(7), 32)


@cache
def agent_and_state(name: str, kind: str):
    agent = registered(name, kind, **SLOW, **OWN.get(name, {}))
    return agent, shaken(1, fresh(agent))


# true counts are of coverage bins, which the tiny tasks do not have; an evaluator has one policy
OTHERS = ("sac", "thompson", "true-counts", "evaluator")
EXPLORERS = [name for name in AGENTS if name not in OTHERS]
# an agent has one kind of task, in turn, and DEVOTE both
KINDS = dict(zip(EXPLORERS, cycle(("discrete", "continuous")), strict=False))
CASES = [*KINDS.items(), ("devote", "continuous")]


@pytest.mark.parametrize("name", slow_but(("devote",), EXPLORERS))
def test_explorer_behaves_and_exploiter_is_evaluated(name) -> None:
    agent, state = agent_and_state(name, "discrete")
    obs, key = some_batch(2, agent.spec).obs, jax.random.key(0)
    action, memory = jax.jit(agent.act)(state, (), obs, jnp.zeros(24, bool), key)
    np.testing.assert_array_equal(action, state.explorer.actor.net.sample(obs, key))
    assert memory == ()
    best = state.task.policy.actor.net.mode(obs)
    np.testing.assert_array_equal(jax.jit(agent.exploit)(state, obs), best)
    assert not np.array_equal(best, state.explorer.actor.net.mode(obs))


@pytest.mark.parametrize(("name", "kind"), slow_but(CASES[:1], CASES))
def test_an_update_moves_the_explorer_up_its_objective(name, kind) -> None:
    agent, state = agent_and_state(name, kind)
    cold = state.explorer.log_temperature._replace(
        net=jnp.float32(-30.0)
    )  # so that entropy is none
    state = state._replace(explorer=state.explorer._replace(log_temperature=cold))
    batch = some_batch(2, agent.spec)
    after, _ = jax.jit(agent.update)(state, batch, jax.random.key(0))

    def objective(actor):
        def one(key):
            value, _ = actor.expect(
                batch.obs, key, lambda o, a: agent.optimistic_value(after, o, a)
            )
            return value.mean()

        return jax.vmap(one)(KEYS).mean()

    new, old = map(jax.jit(objective), (after.explorer.actor.net, state.explorer.actor.net))
    assert new > old


@pytest.mark.parametrize("name", slow_but(("devote",), EXPLORERS))
def test_what_is_new_gets_a_value(name) -> None:
    agent, _ = agent_and_state(name, KINDS[name])
    batch, update = some_batch(2, agent.spec), jax.jit(agent.update)
    state = fresh(agent)
    for key in KEYS[:3]:
        state, _ = update(state, batch, key)
    fields = state._fields
    value = state.intrinsic_value if "intrinsic_value" in fields else state.novelty_value
    found = jax.jit(lambda net: net(batch.obs, batch.action))(value.net)
    # novelty is positive, so its value rises from 0; a signed residual has either sign
    signed = "no-tud" in name
    assert np.abs(found).max() > 0 if signed else np.mean(found) > 0
