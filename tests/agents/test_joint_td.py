"""Joint TD: every part steps down one and the same squared error (eq. 4)."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest

from devote.agents.joint_td import joint_td_loss
from devote.core.trees import interpolate
from devote.epistemic.tud import residual
from tiny import SAC, SPECS, assert_close, changed_leaves, fresh, registered, shaken, some_batch

MASK = jnp.asarray([[1.0] * 24, [1.0, 0.0] * 12, [0.0] * 12 + [1.0] * 12])


@pytest.mark.parametrize("kind", SPECS)
def test_parts_share_the_gradient_of_the_joint_error(kind) -> None:
    agent = registered("devote-no-tud", kind)
    state, batch, key = shaken(1, fresh(agent)), some_batch(2, agent.spec), jax.random.key(0)
    obs, action = batch.obs, batch.action
    task, explorer = state.task, state.explorer.actor.net

    def ahead(o, a):
        return residual(state.corrector_target, state.prior, o, a) + state.novelty_value_target(
            o, a
        )

    @jax.jit
    def both():
        # b looks ahead with the exploitation actor, all else with the exploration actor
        follow, _ = task.policy.actor.net.expect(batch.next_obs, key, task.task_value_target)
        epistemic, _ = explorer.expect(batch.next_obs, key, ahead)
        target = batch.reward + 0.8 * batch.discount * (follow + epistemic)

        def joint(parts):
            b, c, rb = (part(obs, action) for part in parts)
            return jnp.mean(MASK * (target - (b + rb + c + state.prior(obs, action))) ** 2)

        parts = (task.task_value.net, state.corrector.net, state.novelty_value.net)
        error = agent.error(state, batch, key, key)
        slope = jax.grad(joint_td_loss, has_aux=True)
        return jax.grad(joint)(parts), tuple(slope(p, batch, error, MASK)[0] for p in parts)

    assert_close(*both(), rtol=2e-3, atol=1e-5)


def test_update_changes_all_that_learns_and_never_the_prior() -> None:
    agent = registered("devote-no-tud", "continuous")
    state = shaken(1, fresh(agent))
    after, _ = jax.jit(agent.update)(state, some_batch(2, agent.spec), jax.random.key(0))
    parts = {name.split(".")[1].split("[")[0] for name in changed_leaves(state, after)}
    assert parts == set(state._fields) - {"prior", "resets"}


@pytest.mark.parametrize(("probability", "learns"), [(0.0, False), (1.0, True)])
def test_only_given_transitions_teach_any_part(probability, learns) -> None:
    sac = replace(SAC, critic_weight_decay=0.0)
    agent = registered("devote-no-tud", "continuous", sac=sac, bootstrap_probability=probability)
    state = shaken(1, fresh(agent))
    after, _ = jax.jit(agent.update)(state, some_batch(2, agent.spec), jax.random.key(0))
    learners = [(s.task.task_value, s.corrector, s.novelty_value) for s in (state, after)]
    for before, learned in zip(*learners, strict=True):
        assert bool(changed_leaves(before.net, learned.net)) == learns


def test_targets_of_all_parts_follow_at_one_rate() -> None:
    agent = registered("devote-no-tud", "continuous", corrector_polyak=0.9)
    state = shaken(1, fresh(agent))
    after, _ = jax.jit(agent.update)(state, some_batch(2, agent.spec), jax.random.key(0))
    followed = (
        (state.task.task_value_target, after.task.task_value, after.task.task_value_target),
        (state.novelty_value_target, after.novelty_value, after.novelty_value_target),
        (state.corrector_target, after.corrector, after.corrector_target),
    )
    for before, learner, target in followed:
        wanted = interpolate(before, learner.net, agent.settings.sac.polyak)
        assert_close(target, wanted, rtol=1e-5, atol=1e-6)
