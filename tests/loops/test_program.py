"""Several seeds as one program."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from devote.build import build_program
from devote.loops.fused import FusedProgram
from devote.loops.loop import split_seeds
from devote.presets import smoke

Pair = tuple[FusedProgram, FusedProgram]


@pytest.fixture(scope="module")
def programs() -> Pair:
    run = smoke("deep_sea", "devote")
    return build_program(replace(run, seed=3, seeds=2)), build_program(replace(run, seed=4))


def test_a_seed_in_a_batch_is_the_seed_alone(programs: Pair) -> None:
    both, alone = programs
    batch, batch_metrics = both.chunk(both.prefill(both.init()))
    single, single_metrics = alone.chunk(alone.prefill(alone.init()))
    np.testing.assert_array_equal(batch.visits[1], single.visits)
    for name, value in split_seeds(single_metrics, 1)[0].items():
        np.testing.assert_allclose(
            split_seeds(batch_metrics, 2)[1][name], value, rtol=1e-3, atol=1e-5, err_msg=name
        )


def test_seeds_differ_in_weights_prior_and_behaviour(
    programs: Pair,
) -> None:
    both, _ = programs
    state = both.prefill(both.init())
    for tree in (state.agent.agent.prior, state.agent.agent.explorer.actor.net, state.visits):
        assert any(bool((x[0] != x[1]).any()) for x in jax.tree.leaves(tree))


def test_the_clock_is_shared(programs: Pair) -> None:
    both, _ = programs
    assert both.init().clock.vector_steps.shape == ()
