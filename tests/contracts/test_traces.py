"""What agents promise that can be seen without running them."""

from functools import cache, partial

import jax
import pytest
from every import EVERY, TRACED, loop

from devote.loops.host import HostLoop, blank_rows


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


@pytest.mark.parametrize(("name", "task"), EVERY)
def test_every_agent_fits_the_loop_on_the_host(name, task) -> None:
    compiled = loop(name, task)
    host = HostLoop(compiled.agent, compiled.env.spec, compiled.settings)
    agent, memory, held, key = jax.eval_shape(host.init, jax.random.key(0))
    rows = blank_rows(host.spec, (host.round.vector_steps, host.settings.num_envs))
    obs, first = rows.transition.obs[0], rows.transition.first[0]
    action, after, *_ = jax.eval_shape(host.act, agent, memory, obs, first, key)
    assert action.shape == rows.transition.action[0].shape
    assert after == memory
    tally = jax.eval_shape(host.no_tally, agent, held)
    assert jax.eval_shape(host.learn, agent, held, tally, rows) == (agent, held, tally)
    found = jax.eval_shape(partial(host.summarise, rounds=1), agent, held, tally)
    assert found == traced(name, task)[2]
