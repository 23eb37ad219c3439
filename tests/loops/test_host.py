"""The host loop: the compiled loop's numbers, exact transitions, seeds, overlap."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hosts import ENVS, SETTINGS, Faulty, Resting, Telling, blown_up, counters, program
from scripted import Counter, Scripted

from devote.loops.fused import FusedLoop, FusedProgram
from devote.loops.loop import Program
from tiny import changed_leaves


def played(run: Program, chunks: int = 1) -> tuple[Any, Any]:
    """State and metrics after some chunks with all that happens between them."""
    state, metrics = run.chunk(run.prefill(run.init()))
    for _ in range(chunks - 1):
        state, metrics = run.chunk(run.refresh(state))
    return state, metrics | run.evaluate(state)


def plain(state: Any) -> Any:
    """All that both loops have."""
    return state._replace(worlds=())


@pytest.mark.parametrize(("seeds", "exploit_share"), [((0,), 0.3), ((5, 0), 0.0)])
def test_both_loops_give_the_same_numbers(seeds, exploit_share) -> None:
    settings = replace(SETTINGS, exploit_share=exploit_share)
    fused, fused_metrics = played(
        FusedProgram(FusedLoop(Scripted(), Counter(), settings), seeds), 2
    )
    host, host_metrics = played(program(seeds=seeds, exploit_share=exploit_share), 2)
    assert not changed_leaves(plain(fused), plain(host))
    assert fused_metrics.keys() == host_metrics.keys()
    for name, value in fused_metrics.items():
        np.testing.assert_allclose(host_metrics[name], value, rtol=1e-6, err_msg=name)


def test_names_of_metrics_are_known_beforehand() -> None:
    fused = FusedProgram(FusedLoop(Scripted(), Counter(), SETTINGS), (0,))
    host = program()
    assert host.metric_names(host.shape()) == fused.metric_names(fused.shape())


def test_a_seed_among_others_is_the_seed_alone() -> None:
    both, _ = played(program(seeds=(0, 7)))
    alone, _ = played(program(seeds=(7,)))
    of_seven = jax.tree.map(lambda x: x[1], both._replace(clock=(), worlds=(), key=()))
    assert not changed_leaves(of_seven, alone._replace(clock=(), worlds=(), key=()))


@pytest.fixture(scope="module")
def rested() -> tuple[Any, Any]:
    return played(program(Resting))


@pytest.mark.parametrize("env", range(ENVS))
def test_steps_in_which_nothing_happened_are_not_stored(rested, env) -> None:
    state, _ = rested
    length, steps = env + 2, 40
    stored = steps - steps // (length + 1)  # one step in length + 1 is a reset
    assert state.worlds.written[env] == stored
    column = jax.tree.map(lambda x: np.asarray(x)[:stored, env], state.replay)
    count = np.arange(stored) % length
    np.testing.assert_array_equal(column.obs, np.stack([count, 0 * count + env], axis=1))
    np.testing.assert_array_equal(column.next_obs[:, 0], count + 1)
    np.testing.assert_array_equal(column.reward, count + 1)
    np.testing.assert_array_equal(column.first, count == 0)
    terminal = (count == length - 1) & (env % 2 == 0)
    np.testing.assert_array_equal(column.discount, ~terminal)
    np.testing.assert_array_equal(np.asarray(state.replay.next_obs)[stored:, env], 0)


def test_steps_in_which_nothing_happened_are_in_no_episode(rested) -> None:
    _, metrics = rested
    ends = [(t, env + 2) for env in range(ENVS) for t in range(env + 2, 41, env + 3)]
    lengths = [length for t, length in ends if t > 4]  # after the prefill
    assert metrics["rollout/ep_len_mean"] == pytest.approx(np.mean(lengths), rel=1e-5)
    assert metrics["eval/mean_ep_length"] == pytest.approx(np.mean(np.arange(20) + 2), rel=1e-5)


def test_a_lost_episode_leaves_its_sound_steps_and_starts_again() -> None:
    run = program(partial(Faulty, at=7, what=blown_up))
    state, _ = run.chunk(run.prefill(run.init()))
    assert np.asarray(state.worlds.written).tolist() == [40, 39, *[40] * (ENVS - 2)]
    column = jax.tree.map(lambda x: np.asarray(x)[:39, 1], state.replay)
    assert np.isfinite(column.next_obs).all()
    assert column.first[6]  # the lost step would have been the seventh
    assert column.discount[5] == 1


def test_one_round_old_agents_act_beside_learning_and_the_newest_in_turn() -> None:
    for overlap, updates in ((False, [*range(18)]), (True, [0, *range(17)])):
        run = program(agent=Telling(), overlap=overlap, updates_per_step=1 / 12)
        state, _ = run.chunk(run.prefill(run.init()))
        told = np.asarray(state.replay.action)[4:, :, 0] * 1e3  # after the prefill
        rounds = told.round().reshape(18, 2 * ENVS)  # of two vector steps and one update
        np.testing.assert_array_equal(rounds, np.broadcast_to(np.c_[updates], rounds.shape))


def test_overlap_changes_nothing_from_run_to_run_nor_at_a_resume() -> None:
    one, other, third = (program(agent=Telling(), overlap=True) for _ in range(3))
    whole, _ = played(one, chunks=2)
    again, _ = other.chunk(other.prefill(other.init()))
    saved = jax.tree.map(jnp.copy, other.snapshot(again))
    again, _ = other.chunk(other.refresh(again))
    assert not changed_leaves(plain(whole), plain(again))
    resumed, how = third.resume(saved)
    assert "exactly" in how
    resumed, _ = third.chunk(third.refresh(resumed))
    assert not changed_leaves(plain(whole), plain(resumed))


def test_evaluation_leaves_training_alone_and_environments_are_closed() -> None:
    made = []
    run = program(lambda n: made.append(counters(n)) or made[-1])
    state = run.prefill(run.init())
    before = run.snapshot(state).worlds
    run.evaluate(state)
    assert not changed_leaves(before, run.snapshot(state).worlds)
    run.close()
    assert [env.num_envs for env in made] == [ENVS, 20]
    assert all(env.closed for env in made)
