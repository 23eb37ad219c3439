"""Anchors are the paper's, references are returns of real physics, and critics are held to them."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from devote import cli
from devote.build import build_agent
from devote.core.errors import UserError
from devote.experiments import policy_evaluation as evaluation
from devote.experiments.policy_evaluation import ANCHORS, POINTS, Effort
from devote.presets import PRESETS
from tiny import SPECS

SPEC = SPECS["continuous"]
RUN = PRESETS["smoke"]("cartpole_swingup", "sac")


def still(obs, key):
    """A policy that never pushes."""
    return jnp.zeros((len(obs), 1))


@pytest.fixture(scope="module")
def known():
    return evaluation.reference(RUN, still, 0.5, Effort(2, 6, 200))


def test_points_are_the_papers(known) -> None:
    assert known["obs"].shape == (6 * POINTS, 5)
    rate = np.linspace(-12, 12, POINTS)
    for row, (x, angle, speed) in enumerate(ANCHORS["cartpole_swingup"].rows.values()):
        mine = known["obs"][row * POINTS : (row + 1) * POINTS]
        whole = np.tile([x, np.cos(angle), np.sin(angle), speed], (POINTS, 1))
        np.testing.assert_allclose(mine, np.c_[whole, rate], atol=1e-6)
    cheetah = ANCHORS["cheetah"].states(9).reshape(6, POINTS, 18)
    np.testing.assert_allclose(
        cheetah[3, 0, [1, 3, 4, 6, 7, 9, 10]], [0.35, 0.5, -0.6, 0.5, -0.6, -5, -3.5]
    )
    assert (cheetah[5, -1, [2, 9]] == [np.pi, 12]).all()
    assert not cheetah[:, :, [0, 5, 8]].any()


def test_returns_are_discounted_from_the_anchor_on(known) -> None:
    up, down = known["returns"].reshape(6, POINTS, 2).mean(axis=2)[[0, 5]]
    middle = POINTS // 2  # nearly at rest: upright earns nearly 2 a step, hanging nearly nothing
    assert 2.5 < up[middle] < 2 * (1 - 0.5**6) / 0.5
    assert down[middle] < 0.2
    assert known["starts"].max() < 0.1  # hanging, and nobody pushes


def test_density_is_highest_where_the_policy_goes(known) -> None:
    seen = evaluation.visited(RUN, still, 200)
    at_home, abroad = evaluation.log_density(seen, np.stack([seen.mean(axis=0), known["obs"][0]]))
    assert at_home > abroad
    inside, outside = evaluation.thirds(known["log_density"])
    assert not (inside & outside).any()
    assert inside.sum() >= 40
    assert known["log_density"][inside].min() >= known["log_density"][outside].max()


def test_a_critic_that_is_unsure_where_it_errs_scores_well(known) -> None:
    truth, density = known["returns"].mean(axis=1), known["log_density"]
    rank = np.argsort(np.argsort(-density)) / len(density)
    mean = truth + rank
    found = evaluation.scores(known, np.stack([mean - rank, mean + rank]))
    assert found["auroc"] == 1
    assert found["correlation"] == pytest.approx(1)
    other = evaluation.scores(known, np.stack([mean - 1 + rank, mean + 1 - rank]))
    assert other["auroc"] == 0


def test_other_tasks_and_runs_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="anchor states that can be set: cartpole_swingup, cheetah"):
        evaluation.anchors_of(PRESETS["smoke"]("ant_maze", "devote"))
    with pytest.raises(UserError, match="name a run directory"):
        cli.dispatch(["evaluate-critic", str(tmp_path)])
    assert not list(tmp_path.iterdir())


def test_both_losses_have_the_same_settings_but_one(tmp_path: Path) -> None:
    study = evaluation.study_of("fig:x", "cheetah", "desk", tmp_path)
    one, other = (study.run(study.tasks[0], method, 0) for method in study.methods[::5])
    assert one.difference(other) == {"joint": (True, False)}
    shapes = [
        jax.tree.map(
            jnp.shape,
            jax.eval_shape(
                build_agent("evaluator", replace(run.agent, policy=""), SPEC).init,
                jax.random.key(0),
            ),
        )
        for run in (one, other)
    ]
    assert shapes[0] == shapes[1]
    cells = list(study.runs().values())
    assert len(cells) == 2 * 5 * 3
    run, source = cells[0].run, cells[0].policy.run
    assert (run.agent.sac.discount, run.agent.num_indices) == (0.99, 8)
    assert run.loop.updates_per_step == source.loop.updates_per_step
    policies = {cell.policy.identity for cell in cells}
    assert len(policies) == 1
    assert cells[0].run.agent.policy == str(cells[0].policy.folder)
    assert replace(cells[0].policy.run, loop=one.loop, agent=one.agent).env == one.env


def test_a_policy_that_stands_still_has_no_density() -> None:
    seen = np.random.default_rng(0).normal(size=(300, 3)) * [1, 1, 0]
    with pytest.raises(UserError, match="visited states that spread in all directions"):
        evaluation.log_density(seen, seen[:2])
