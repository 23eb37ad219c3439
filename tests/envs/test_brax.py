"""Tasks of Brax and Playground through our protocol: true resets, true successors, stable types."""

import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.tiny import SAC

from devote.agents.sac import Sac
from devote.core.errors import UserError
from devote.envs.brax import BraxSettings, PlaygroundSettings, StatefulTask, brax, playground
from devote.loops.fused import FusedLoop
from devote.loops.schedule import LoopSettings


class State(NamedTuple):
    obs: Any
    reward: Any
    done: Any
    metrics: Any
    info: Any


class Counting:
    """Observes its step and pays once per episode, remembering that in `info` as many tasks do."""

    action_size = 2

    def reset(self, rng: Any) -> State:
        obs = {"state": jnp.zeros(3), "privileged_state": jnp.ones(7)}
        metrics = {"reward/once": 0.0, "distance": 0.0}  # weakly typed, as Playground's often are
        return State(obs, 0.0, jnp.float32(0), metrics, {"steps": 0, "paid": False})

    def step(self, state: State, action: Any) -> State:
        steps = state.info["steps"] + 1
        pays = (steps == 2) & ~state.info["paid"]
        return State(
            obs={"state": jnp.full(3, 1.0 * steps), "privileged_state": jnp.ones(7)},
            reward=jnp.where(pays, 5.0, 0.0),
            done=jnp.where(steps == 4, 1.0, 0.0),
            metrics={"reward/once": jnp.where(pays, 5.0, 0.0), "distance": jnp.float32(steps)},
            info={"steps": steps, "paid": state.info["paid"] | pays},
        )


def kinds(tree: Any) -> list[Any]:
    return [(x.shape, x.dtype, x.weak_type) for x in jax.tree.leaves(tree)]


def counting(episode_length: int = 100, rewards: bool = True) -> StatefulTask:
    return StatefulTask("counting", Counting(), episode_length, rewards)


def stored(task: StatefulTask, steps: int) -> Any:
    """Transitions of one environment in the compiled loop."""
    settings = LoopSettings(num_envs=1, replay_capacity=steps, learning_starts=steps, batch_size=4)
    loop = FusedLoop(Sac(SAC, task.spec), task, settings)
    state = jax.jit(lambda key: loop.prefill(loop.init(key)))(jax.random.key(0))
    return jax.tree.map(lambda x: np.asarray(x).reshape(steps, -1), state.replay)


def test_the_state_keeps_its_types() -> None:
    task = counting()
    world = task.reset(jax.random.key(0))
    after, _ = task.step(world, jnp.zeros(2), jax.random.key(1))
    assert kinds(after) == kinds(world)


def test_every_episode_is_new_and_ends_in_its_true_successor() -> None:
    replay = stored(counting(), 8)
    np.testing.assert_array_equal(replay.obs[:, 0], [0, 1, 2, 3] * 2)
    np.testing.assert_array_equal(replay.next_obs[:, 0], [1, 2, 3, 4] * 2)
    np.testing.assert_array_equal(replay.discount[:, 0], [1, 1, 1, 0] * 2)
    np.testing.assert_array_equal(replay.reward[:, 0], [0, 5, 0, 0] * 2)  # paid in both episodes


def test_a_time_limit_is_no_termination() -> None:
    replay = stored(counting(episode_length=3), 6)
    np.testing.assert_array_equal(replay.next_obs[:, 0], [1, 2, 3] * 2)
    np.testing.assert_array_equal(replay.discount[:, 0], np.ones(6))


BINS = BraxSettings(
    coverage_entries=(0, 2), coverage_low=(0, 0), coverage_high=(10, 5), coverage_bins=5
)


def test_coverage_is_counted_over_chosen_entries() -> None:
    task = StatefulTask("counting", Counting(), 100, counted=BINS)
    assert task.spec.grid is not None
    assert task.spec.grid.shape == (5, 5)
    loop = FusedLoop(Sac(SAC, task.spec), task, LoopSettings(num_envs=1, learning_starts=8))
    state = jax.jit(lambda key: loop.prefill(loop.init(key)))(jax.random.key(0))
    visits = np.asarray(state.visits)
    # two episodes through 0, 1, 2, 3, 4 in both entries; the second goes up from the last row
    assert {int(place): int(visits[place]) for place in np.flatnonzero(visits)} == {
        20: 2, 15: 2, 11: 2, 6: 2, 2: 2
    }  # fmt: skip


def test_bins_are_the_same_in_jax_and_numpy() -> None:
    for entries in ((1,), (0, 2), (0, 1, 2)):
        count = len(entries)
        settings = BraxSettings(
            coverage_entries=entries, coverage_low=(-1,) * count, coverage_high=(2,) * count
        )
        coverage = StatefulTask("counting", Counting(), 100, counted=settings).coverage
        obs = np.random.default_rng(0).uniform(-1.2, 2.2, (500, 3)).astype(np.float32)
        found = coverage.bin_of(obs)
        assert len(set(found.tolist())) > 15
        assert (found >= 0).sum() == (np.abs(obs[:, list(entries)] - 0.5) <= 1.5).all(axis=1).sum()
        np.testing.assert_array_equal(coverage.bin_of(jnp.asarray(obs), jnp), found)


def test_nothing_is_counted_unasked_and_bounds_are_asked_for() -> None:
    task = counting()
    assert task.spec.grid is None
    assert task.bin_of(task.reset(jax.random.key(0))) == -1
    unbounded = BraxSettings(coverage_entries=(0,))
    with pytest.raises(UserError, match="set coverage_low and coverage_high"):
        _ = StatefulTask("counting", Counting(), 100, counted=unbounded).spec


class WritesIntoItsState(Counting):
    """As Brax's ant does, with plain numbers."""

    def step(self, state: State, action: Any) -> State:
        after = super().step(state, action)
        state.metrics.update(distance=2.5)
        return after._replace(metrics=state.metrics)


def test_a_task_may_write_into_the_state_that_it_is_given() -> None:
    task = StatefulTask("writes", WritesIntoItsState(), 100)
    world = task.reset(jax.random.key(0))
    after, _ = task.step(world, jnp.zeros(2), jax.random.key(1))
    assert kinds(after) == kinds(world)
    assert (float(world.metrics["distance"]), float(after.metrics["distance"])) == (0.0, 2.5)


def test_what_brax_cannot_build_is_refused_in_its_words() -> None:
    pytest.importorskip("brax")
    with pytest.raises(UserError, match=r"backend mjx.*Unsupported backend.*--backend"):
        brax(BraxSettings("swimmer"))


class BlowsUp(Counting):
    """Its third step is no number, in one place or in all."""

    def __init__(self, where: str) -> None:
        self.where = where

    def step(self, state: State, action: Any) -> State:
        after = super().step(state, action)
        bad = jnp.where(after.info["steps"] == 3, jnp.nan, 0.0)
        places = ("obs", "reward", "metrics") if self.where == "everywhere" else (self.where,)
        return after._replace(
            **{p: jax.tree.map(lambda x: x + bad, getattr(after, p)) for p in places}
        )


@pytest.mark.parametrize("where", ["obs", "reward", "everywhere"])
def test_a_state_that_blew_up_ends_its_episode_where_it_stood(where: str) -> None:
    task = StatefulTask("blows up", BlowsUp(where), 100)
    replay = stored(task, 6)
    np.testing.assert_array_equal(replay.obs[:, 0], [0, 1, 2] * 2)
    np.testing.assert_array_equal(replay.next_obs[:, 0], [1, 2, 2] * 2)
    np.testing.assert_array_equal(replay.reward[:, 0], [0, 5, 0] * 2)
    np.testing.assert_array_equal(replay.discount[:, 0], [1, 1, 0] * 2)
    world = task.reset(jax.random.key(0))
    for _ in range(3):
        world, outcome = task.step(world, jnp.zeros(2), jax.random.key(1))
    assert float(outcome.terms["reward/once"]) == 0


def test_rewards_can_be_hidden_and_their_parts_are_still_told() -> None:
    task = counting(rewards=False)
    assert task.spec.terms == ("reward/once",)
    world, _ = task.step(task.reset(jax.random.key(0)), jnp.zeros(2), jax.random.key(1))
    _, outcome = task.step(world, jnp.zeros(2), jax.random.key(1))
    assert float(outcome.reward) == 0
    assert float(outcome.terms["reward/once"]) == 5


def test_the_policy_sees_its_own_part_of_the_observation() -> None:
    assert counting().spec.observation.size == 3


REAL = {
    "brax": (lambda: brax(BraxSettings("inverted_pendulum", "generalized", 50)), (4, 1, 50)),
    "playground": (lambda: playground(PlaygroundSettings("CartpoleSwingup")), (5, 1, 1000)),
}


@pytest.mark.parametrize("library", REAL)
def test_a_real_task_fits(library: str) -> None:
    pytest.importorskip("brax" if library == "brax" else "mujoco_playground")
    build, sizes = REAL[library]
    task = build()
    spec = task.spec
    assert (spec.observation.size, spec.action.size, spec.episode_length) == sizes
    world = jax.eval_shape(task.reset, jax.random.key(0))
    action = jnp.zeros(spec.action.size)
    after, outcome = jax.eval_shape(task.step, world, action, jax.random.key(0))
    assert kinds(after) == kinds(world)
    assert (outcome.reward.dtype, outcome.terminated.dtype) == (jnp.float32, bool)


@pytest.mark.parametrize(
    ("module", "build", "extra"),
    [
        ("brax", lambda: brax(BraxSettings()), "brax"),
        ("mujoco_playground", lambda: playground(PlaygroundSettings()), "playground"),
    ],
)
def test_a_missing_library_is_named_with_its_extra(
    module: str, build: Any, extra: str, monkeypatch: Any
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match=rf"pip install 'devote\[{extra}\]'"):
        build()


@pytest.mark.parametrize("name", ["Go1JoystickFlatTerrain", "PandaPickCube"])
def test_nothing_is_downloaded_unasked(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    library = pytest.importorskip("mujoco_playground")
    fetched: list[str] = []
    source = library._src.mjx_env
    monkeypatch.setattr(source, "MENAGERIE_PATH", tmp_path / "models")
    monkeypatch.setattr(library.registry, "load", lambda name, **_: fetched.append(name))
    with pytest.raises(UserError, match="--download-models"):
        playground(PlaygroundSettings(name))
    assert fetched == []
    playground(PlaygroundSettings(name, download_models=True))
    (tmp_path / "models").mkdir()
    playground(PlaygroundSettings(name))
    assert fetched == [name, name]


@pytest.mark.parametrize(
    "build",
    [lambda: brax(BraxSettings("antt")), lambda: playground(PlaygroundSettings("CartpoleSwing"))],
)
def test_an_unknown_name_gets_a_suggestion(build: Any) -> None:
    with pytest.raises(UserError, match="did you mean"):
        build()
