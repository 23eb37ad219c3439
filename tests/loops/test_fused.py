"""The compiled loop, on an environment whose observation reveals what happened."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scripted import LIMIT, SUCCESS, Counter, Scripted

from devote.loops.fused import FusedLoop, FusedProgram
from devote.loops.progress import Reporter
from devote.loops.run_dir import Store
from devote.loops.schedule import LoopSettings, Round
from devote.loops.train import Training, columns_of
from tiny import changed_leaves

ENVS, STEPS = 6, 40
SETTINGS = LoopSettings(
    num_envs=ENVS,
    updates_per_step=1 / 3,
    batch_size=8,
    replay_capacity=ENVS * STEPS,
    learning_starts=20,
    log_interval=ENVS * 36,
)
LOOP = FusedLoop(Scripted(), Counter(), SETTINGS)


def play(key):
    """A fresh run, filled (4 vector steps) and played for a chunk (36 vector steps)."""
    start = LOOP.init(key)
    filled = LOOP.prefill(start)
    return start, filled, *LOOP.chunk(filled)


@pytest.fixture(scope="module")
def run():
    """start, filled, played, metrics, and the stored transitions with time first."""
    start, filled, played, metrics = jax.jit(play)(jax.random.key(0))
    return start, filled, played, metrics, jax.tree.map(np.asarray, played.replay)


def test_next_obs_is_the_successor_even_where_an_episode_ends(run) -> None:
    *_, stored = run
    np.testing.assert_array_equal(stored.next_obs[..., 0], stored.obs[..., 0] + 1)
    np.testing.assert_array_equal(stored.next_obs[..., 1], stored.obs[..., 1])
    assert (stored.next_obs[..., 0] == LIMIT).any()  # time limits happened


def test_discount_is_zero_at_terminations_and_only_there(run) -> None:
    *_, stored = run
    success = (stored.obs[..., 1] == 1) & (stored.next_obs[..., 0] == SUCCESS)
    np.testing.assert_array_equal(stored.discount, 1 - success)
    assert 0 < success.sum() < success.size


def test_episodes_start_again_after_their_end_and_say_so(run) -> None:
    *_, stored = run
    count = stored.obs[..., 0]
    np.testing.assert_array_equal(stored.first, count == 0)
    ended = (stored.discount == 0) | (stored.next_obs[..., 0] == LIMIT)
    np.testing.assert_array_equal(stored.first[1:], ended[:-1])
    continued = ~ended[:-1]
    np.testing.assert_array_equal(stored.obs[1:][continued], stored.next_obs[:-1][continued])


def test_episode_statistics_are_those_of_the_stored_episodes(run) -> None:
    *_, metrics, stored = run
    recent = jax.tree.map(lambda x: x[4:], stored)  # the chunk, without the prefill
    won = (recent.discount == 0).sum()
    limited = (recent.next_obs[..., 0] == LIMIT).sum()
    assert won > 5
    assert limited > 5
    expected = (SUCCESS * won + LIMIT * limited) / (won + limited)
    assert metrics["rollout/ep_len_mean"] == pytest.approx(expected, rel=1e-5)
    assert metrics["rollout/ep_rew_mean"] == pytest.approx(won / (won + limited), rel=1e-5)
    assert metrics["rollout/success_rate"] == pytest.approx(won / (won + limited), rel=1e-5)
    assert metrics["rollout/term/prize"] == pytest.approx(won / (won + limited), rel=1e-5)
    ages = (sum(range(SUCCESS + 1)) * won + sum(range(LIMIT + 1)) * limited) / (won + limited)
    assert metrics["rollout/term/age"] == pytest.approx(ages, rel=1e-5)


def test_prefill_stores_enough_experience_and_learns_nothing(run) -> None:
    _, filled, *_ = run
    assert filled.clock.vector_steps == 4  # the least whole number of vector steps above 20 / 6
    assert filled.clock.updates == filled.agent["updates"] == 0
    assert (filled.replay.next_obs[:4, :, 0] > 0).all()
    assert (filled.replay.next_obs[4:] == 0).all()


def test_clock_and_agent_count_the_updates_asked_for(run) -> None:
    _, filled, played, *_ = run
    steps = ENVS * (played.clock.vector_steps - filled.clock.vector_steps)
    assert steps == SETTINGS.log_interval
    assert played.clock.updates == played.agent["updates"] == steps / 3


def test_a_share_of_the_environments_follows_the_exploitation_actor() -> None:
    loop = FusedLoop(Scripted(), Counter(), replace(SETTINGS, exploit_share=0.3))
    played = jax.jit(lambda key: loop.prefill(loop.init(key)))(jax.random.key(0))
    exploits = (np.asarray(played.replay.action[:4]) == 0).all(axis=(0, 2))  # Scripted's is 0
    np.testing.assert_array_equal(exploits, [False] * 4 + [True] * 2)


def test_memory_is_carried(run) -> None:
    _, _, played, *_ = run
    assert played.memory.tolist() == [STEPS] * ENVS


def test_visits_count_every_world_once_starts_when_acted_in(run) -> None:
    _, _, played, _, stored = run
    counts = np.concatenate([stored.next_obs[..., 0].ravel(), stored.obs[..., 0][stored.first]])
    expected = np.bincount(counts.astype(int), minlength=LIMIT + 1)
    expected[1] = 0  # has no bin
    np.testing.assert_array_equal(played.visits, expected)
    assert expected[0] > 20


def test_seeds_decide_everything_and_do_not_share_noise() -> None:
    keys = jnp.stack([jax.random.key(seed) for seed in (0, 1, 0)])
    _, _, played, _ = jax.jit(jax.vmap(play))(keys)
    first, second, again = (jax.tree.map(lambda x, i=i: x[i], played) for i in range(3))
    assert not changed_leaves(jax.tree.map(_plain, first), jax.tree.map(_plain, again))
    assert first.agent["weight"] != second.agent["weight"]
    for name in ("action", "obs"):
        one, other = (np.asarray(getattr(x.replay, name)) for x in (first, second))
        assert not np.array_equal(one, other), name
    actions = np.asarray(first.replay.action).ravel()
    assert len(np.unique(actions)) > 0.99 * len(actions)  # nor do steps and environments


def _plain(leaf):
    return (
        jax.random.key_data(leaf)
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        else leaf
    )


def test_the_realised_ratio_counts_the_first_steps_too() -> None:
    program = FusedProgram(LOOP, (0,))
    training = Training(program, Reporter(1, silent=True), Store())
    training.begin()
    (row,) = training.advance()
    assert row["train/updates_per_step"] == row["train/n_updates"] / row["step"] == 72 / 240
    assert set(row) == set(columns_of(program, program.shape()))


@pytest.mark.parametrize(
    ("num_envs", "wanted", "vector_steps", "updates"),
    [
        (1, 1.0, 1, 1),
        (32, 1.0, 1, 32),
        (32, 1 / 32, 1, 1),
        (8, 1 / 16, 2, 1),
        (4, 0.5, 1, 2),
        (1, 0.1, 10, 1),
        (128, 1 / 512, 4, 1),
        (3, 2.0, 1, 6),
    ],
)
def test_round_realises_the_wanted_ratio(num_envs, wanted, vector_steps, updates) -> None:
    found = Round.of(LoopSettings(num_envs=num_envs, updates_per_step=wanted))
    assert (found.vector_steps, found.updates) == (vector_steps, updates)
    assert found.updates / found.steps(num_envs) == pytest.approx(wanted)


@pytest.mark.parametrize("wanted", [0.2, 0.3, 0.45, 0.6, 0.65, 0.7, 0.8, 1.3, 1.6, 2.4])
def test_round_is_the_nearest_of_its_kind_where_the_ratio_is_awkward(wanted) -> None:
    found = Round.of(LoopSettings(num_envs=1, updates_per_step=wanted))
    rounds = [(1, n) for n in range(1, 9)] + [(n, 1) for n in range(2, 9)]
    nearest = min(rounds, key=lambda r: abs(r[1] / r[0] - wanted))
    assert (found.vector_steps, found.updates) == nearest
