"""What agents promise that can be seen without running them: for the pairs that are not played."""

import jax
import pytest
from every import TRACED, loop


def kinds(tree):
    return jax.tree.map(lambda x: (x.shape, x.dtype), tree)


@pytest.mark.parametrize(("name", "task"), TRACED)
def test_a_chunk_and_a_soft_reset_keep_shapes_and_types(name, task) -> None:
    program = loop(name, task)
    start = jax.eval_shape(program.init, jax.random.key(0))
    state, metrics = jax.eval_shape(lambda s: program.chunk(program.prefill(s)), start)
    assert kinds(state) == kinds(start)
    # a state with a weak type would compile everything again
    assert not [leaf for leaf in jax.tree.leaves(state.agent) if leaf.weak_type]
    assert all(value.shape == () for value in metrics.values())
    fresh = jax.eval_shape(program.refresh, state)
    assert kinds(fresh) == kinds(state)
