"""What agents promise that can be seen without running them."""

from functools import cache

import jax
import pytest
from every import PAIRS, TRACED, loop

from devote.loops.host import HostProgram, empty_steps
from on_host import OnHost


def kinds(tree):
    return jax.tree.map(lambda x: (x.shape, x.dtype), tree)


@cache
def traced(name, task):
    """The run's state before and after a chunk, and what a chunk reports."""
    program = loop(name, task)
    start = jax.eval_shape(program.init, jax.random.key(0))
    return start, *jax.eval_shape(lambda s: program.chunk(program.prefill(s)), start)


@pytest.mark.parametrize(("name", "task"), TRACED)
def test_a_chunk_and_a_soft_reset_keep_shapes_and_types(name, task) -> None:
    start, state, metrics = traced(name, task)
    assert kinds(state) == kinds(start)
    # a state with a weak type would compile everything again
    assert not [leaf for leaf in jax.tree.leaves(state.agent) if leaf.weak_type]
    assert all(value.shape == () for value in metrics.values())
    fresh = jax.eval_shape(loop(name, task).refresh, state)
    assert kinds(fresh) == kinds(state)


EITHER = sorted({name: (name, task) for name, task in (*TRACED, *PAIRS)}.values())
"""Every agent once."""


@pytest.mark.parametrize(("name", "task"), EITHER)
def test_every_agent_fits_the_loop_on_the_host(name, task) -> None:
    compiled = loop(name, task)
    envs = OnHost(compiled.env, compiled.settings.num_envs)
    host = HostProgram(compiled.agent, (envs,), lambda _: envs, compiled.settings, (0,))
    state = jax.eval_shape(host._init, jax.random.key(0))[0]
    steps = empty_steps(host.spec, (host.loop.round.vector_steps, host.settings.num_envs))
    obs, first = steps.transition.obs[0], steps.transition.first[0]
    agent = tuple(jax.tree.leaves(state.agent))
    action, after, *_ = jax.eval_shape(host.act, agent, state.memory, obs, first, state.key)
    assert action.shape == steps.transition.action[0].shape
    assert after == state.memory
    device = state._replace(memory=())
    tally = jax.eval_shape(host.no_tally, device)
    learner = (agent, device._replace(agent=()), tally)
    assert jax.eval_shape(host.learn, *learner, steps) == learner
    assert jax.eval_shape(host._summarise, device, tally) == traced(name, task)[2]
    host.close()
