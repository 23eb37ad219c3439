"""Our models and rewards against dm_control's own, step by step."""

import numpy as np
import pytest
from placing import place

from devote.envs.mujoco.batch import MujocoEnv
from devote.envs.mujoco.cartpole import Cartpole, CartpoleSettings
from devote.envs.mujoco.cheetah import Cheetah, CheetahSettings

suite = pytest.importorskip("dm_control.suite")  # not for Python 3.13 yet
KEY = np.array([7])
CASES = [
    ("cheetah", "run", Cheetah(CheetahSettings(rewards=True))),
    ("cartpole", "swingup", Cartpole(CartpoleSettings())),
    ("cartpole", "swingup_sparse", Cartpole(CartpoleSettings(sparse=True))),
]


def theirs(domain, task, seed=0):
    return suite.load(domain, task, task_kwargs={"random": seed})


def flat(step):
    return np.concatenate([np.ravel(step.observation[key]) for key in ("position", "velocity")])


@pytest.mark.parametrize(("domain", "name", "task"), CASES)
def test_a_whole_episode_is_the_same(domain, name, task) -> None:
    reference, env = theirs(domain, name), MujocoEnv(task, 1)
    step, rng, rewarded = reference.reset(), np.random.default_rng(0), 0
    place(env, reference.physics.data.qpos[None], reference.physics.data.qvel[None])
    np.testing.assert_allclose(task.observe(env.physics)[0], flat(step), atol=1e-12)
    for _ in range(499):
        action, reward = rng.uniform(-1, 1, task.spec.action.size), 0.0
        for _ in range(2):
            step = reference.step(action)
            reward += step.reward
        ours = env.step(action[None], KEY)
        np.testing.assert_allclose(task.observe(env.physics)[0], flat(step), atol=1e-6, rtol=1e-6)
        np.testing.assert_allclose(ours.reward[0], reward, atol=1e-6)
        rewarded += reward > 0
    assert rewarded > 0 or name == "swingup_sparse"


@pytest.mark.parametrize(("domain", "name", "task"), CASES)
def test_rewards_agree_at_states_all_over(domain, name, task) -> None:
    """Fast, upright, hanging, at the rail's end: one decision from each of 64 states."""
    reference, rng = theirs(domain, name), np.random.default_rng(1)
    env = MujocoEnv(task, 64)
    qpos = rng.uniform(-0.3, 0.3, (64, task.model.nq)) * (rng.random((64, 1)) < 0.7)
    qvel = rng.uniform(-2, 2, (64, task.model.nv)) * rng.uniform(0, 2, (64, 1))
    qvel[:, 0] += rng.uniform(-3, 12, 64) * (domain == "cheetah")
    action = rng.uniform(-1, 1, (64, task.spec.action.size))
    place(env, qpos, qvel)
    ours = env.step(action, KEY)
    for row in range(64):
        with reference.physics.reset_context():
            reference.physics.data.qpos[:], reference.physics.data.qvel[:] = qpos[row], qvel[row]
        reference._reset_next_step = False
        wanted = sum(reference.step(action[row]).reward for _ in range(2))
        np.testing.assert_allclose(ours.reward[row], wanted, atol=1e-6)
    assert (ours.reward > 0.1).any()
    assert len(np.unique(ours.reward)) > (2 if name != "swingup_sparse" else 1)


def test_cheetah_settles_from_a_drawn_posture_as_theirs_does() -> None:
    reference, env = theirs("cheetah", "run", seed=3), MujocoEnv(CASES[0][2], 2)
    wanted = flat(reference.reset())
    low, high = env.task.model.jnt_range[3:].T
    drawn = np.random.RandomState(3).uniform(low, high)

    class Drawn:
        """A generator that repeats what dm_control drew."""

        def uniform(self, low, high, size):
            return np.broadcast_to(drawn, size)

    rows = np.array([1])
    env.physics.restart(rows)
    env.task.start(env.physics, rows, Drawn())
    np.testing.assert_allclose(env.task.observe(env.physics)[1], wanted, atol=1e-6)


@pytest.mark.parametrize(("domain", "name", "task"), CASES[:2])
def test_starts_are_spread_like_theirs(domain, name, task) -> None:
    """Means and spreads of 200 starts, within what 200 draws tell."""
    reference = theirs(domain, name)
    wanted = np.array([flat(reference.reset()) for _ in range(200)])
    ours = MujocoEnv(task, 200).reset(KEY)
    spread = wanted.std(0) + 1e-3
    assert (np.abs(ours.mean(0) - wanted.mean(0)) < 0.4 * spread).all()
    assert (np.abs(np.log((ours.std(0) + 1e-3) / spread)) < 0.4).all()


def test_cartpole_stands_at_any_anchor() -> None:
    """The paper's anchors, one of them beyond the rail's end."""
    env = MujocoEnv(Cartpole(CartpoleSettings()), 3)
    x, angle, vx = (
        np.array([0.0, 0.4, -1.85]),
        np.array([0.0, 1.5, np.pi]),
        np.array([6, 0.5, -0.5]),
    )
    rate = np.linspace(-12, 12, 3)
    obs = place(env, np.stack([x, angle], 1), np.stack([vx, rate], 1))
    wanted = np.stack([x, np.cos(angle), np.sin(angle), vx, rate], 1)
    np.testing.assert_allclose(obs, wanted, atol=1e-6)
    assert np.isfinite(env.step(np.zeros((3, 1)), KEY).next_obs).all()


def test_coverage_bins() -> None:
    cheetah, cartpole = CASES[0][2], CASES[1][2]
    obs = np.zeros((4, 17))
    obs[:, 8:10] = [[-5, 4], [9.99, 3.99], [-99, -99], [0.1, 0.05]]
    assert cheetah.bin_of(obs).tolist() == [0, 24, 24 * 25, (24 - 8) * 25 + 8]
    assert cheetah.spec.grid.eligible.sum() == 625
    hanging = np.array([[0.0, np.cos(3.1), np.sin(3.1), 0, 0]])
    assert cartpole.bin_of(hanging).tolist() == [12]
