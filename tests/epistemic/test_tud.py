"""TUD learning against the joint TD loss (paper, appendix "TUD Learning")."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from devote.agents.devote import DevoteState
from devote.agents.sac import task_value_loss
from devote.core.types import Transition
from devote.epistemic.tud import bootstrap_mask, corrector_loss, novelty_value_loss, residual
from tiny import DEVOTE, SAC, SPECS, devote, fresh, shaken, some_batch

AGENTS = {
    kind: devote(kind, propagation="signed", sac=replace(SAC, value_head="scalar"))
    for kind in SPECS
}
ONES = jnp.ones((DEVOTE.num_indices, 24))


@cache
def trial(kind):
    """One compiled function: joint TD, the three TUD losses, and the cross terms."""
    agent = AGENTS[kind]

    def run(state: DevoteState, batch: Transition, next_key):
        obs, action = batch.obs, batch.action
        task_target = agent.sac.task_target(state.task, batch, next_key)
        value_target = agent.novelty_target(state, batch, next_key)
        losses = (
            task_value_loss(state.task.task_value.net, batch, task_target)[0],
            corrector_loss(state.corrector.net, state.prior, batch, ONES)[0],
            novelty_value_loss(state.novelty_value.net, batch, value_target, ONES)[0],
        )
        task = task_target - state.task.task_value.net(obs, action)
        local = residual(state.corrector.net, state.prior, obs, action)
        ahead = value_target - state.novelty_value.net(obs, action)
        cross = 2 * jnp.mean(-task * local + task * ahead - local * ahead)

        def joint(o, a):
            value = state.task.task_value_target(o, a) + state.novelty_value_target(o, a)
            return value + residual(state.corrector_target, state.prior, o, a)

        expected, _ = state.task.policy.actor.net.expect(batch.next_obs, next_key, joint)
        target = batch.reward + agent.settings.sac.discount * batch.discount * expected
        now = state.task.task_value.net(obs, action) + state.novelty_value.net(obs, action) + local
        return jnp.mean((target - now) ** 2), jnp.array(losses), cross

    return jax.jit(run)


@pytest.mark.parametrize("kind", SPECS)
def test_joint_td_is_tud_plus_cross_terms_and_at_most_three_times_tud(kind) -> None:
    for seed in range(10):
        state = shaken(seed, fresh(AGENTS[kind]))
        state = state._replace(explorer=state.task.policy)  # one backup policy for both values
        batch = some_batch(seed, SPECS[kind])
        joint, tud, cross = trial(kind)(state, batch, jax.random.key(seed))
        assert min(tud) > 1e-3  # no term is trivially absent
        assert abs(cross) > 1e-4
        np.testing.assert_allclose(joint, tud.sum() + cross, rtol=1e-4)
        assert joint <= 3 * tud.sum()


def test_bootstrap_mask_has_its_probability_and_differs_between_indices() -> None:
    mask = np.asarray(bootstrap_mask(jax.random.key(0), 4, 5000, 0.3))
    assert set(np.unique(mask)) == {0.0, 1.0}
    np.testing.assert_allclose(mask.mean(axis=1), 0.3, atol=0.03)
    assert np.abs(np.corrcoef(mask) - np.eye(4)).max() < 0.06


def test_masked_transitions_teach_nothing() -> None:
    agent = AGENTS["continuous"]
    state, batch = shaken(1, fresh(agent)), some_batch(2, agent.spec)
    mask = ONES.at[1].set(0.0)

    def slopes(mask):
        novelty = jax.grad(corrector_loss, has_aux=True)(
            state.corrector.net, state.prior, batch, mask
        )[0]
        value = jax.grad(novelty_value_loss, has_aux=True)(
            state.novelty_value.net, batch, jnp.ones_like(mask), mask
        )[0]
        return jax.tree.map(lambda g: jnp.abs(g).reshape(3, -1).max(axis=1), (novelty, value))

    for slope in jax.tree.leaves(jax.jit(slopes)(mask)):
        assert slope[1] == 0
        assert min(slope[0], slope[2]) > 0
