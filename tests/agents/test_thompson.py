"""Thompson sampling: members that share nothing, one of them drawn per episode."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tiny import SPECS, changed_leaves, fresh, named_leaves, registered, shaken, some_batch

MEMBERS = 3
KEY = jax.random.key(0)


def thompson(kind="continuous", **changes):
    return registered("thompson", kind, **changes)


def member(tree, which):
    return jax.tree.map(lambda x: np.asarray(x)[which], tree)


@cache
def learner(**changes):
    """One member's update, compiled."""
    return jax.jit(thompson(**changes).update_member)


def test_members_and_priors_are_different_draws() -> None:
    state = fresh(thompson())
    drawn = [leaf for leaf in named_leaves(state).values() if leaf.ndim >= 3 and np.ptp(leaf) > 0]
    assert len(drawn) >= 8
    for leaf in drawn:
        assert len(np.unique(leaf.reshape(MEMBERS, -1), axis=0)) == MEMBERS


def test_a_member_s_critic_learns_from_its_own_transitions_alone() -> None:
    agent = thompson()
    state, batch = shaken(1, fresh(agent)), some_batch(2, agent.spec)
    mask = (jnp.arange(24) < 12).astype(jnp.float32)
    one, prior = member(state.members, 0), member(state.prior.members, 0)

    def critic(reward):
        after, _ = learner()(one, prior, batch._replace(reward=reward), mask, KEY)
        return after.task_value

    kept = critic(batch.reward)
    assert not changed_leaves(kept, critic(batch.reward + 5 * (1 - mask)))
    assert changed_leaves(kept, critic(batch.reward + 5 * mask))


def test_no_member_touches_another() -> None:
    agent = thompson()
    state, batch = shaken(1, fresh(agent)), some_batch(2, agent.spec)
    other = shaken(7, state)
    mixed = jax.tree.map(lambda a, b: np.concatenate([a, b])[[0, 1, 5]], state, other)
    learn = jax.jit(agent.update)
    one, two = (learn(s, batch, KEY)[0].members for s in (state, mixed))
    for which in (0, 1):
        assert not changed_leaves(member(one, which), member(two, which))
    assert changed_leaves(member(one, 2), member(two, 2))


@pytest.mark.parametrize(("probability", "alike"), [(1.0, True), (0.5, False)])
def test_members_are_given_different_transitions(probability, alike) -> None:
    # with discrete actions expectations are exact, so equal members can part by masks alone
    agent = thompson("discrete", bootstrap_probability=probability)
    state = jax.tree.map(lambda x: np.stack([np.asarray(x)[0]] * MEMBERS), shaken(1, fresh(agent)))
    after, _ = jax.jit(agent.update)(state, some_batch(2, agent.spec), KEY)
    critics = [member(after.members.task_value.net, i) for i in range(MEMBERS)]
    assert [not changed_leaves(critics[0], c) for c in critics[1:]] == [alike, alike]


@pytest.mark.parametrize("in_actor", [True, False])
def test_prior_moves_the_actor_only_where_it_is_part_of_its_objective(in_actor) -> None:
    agent = thompson(prior_in_actor=in_actor)
    state, batch = shaken(1, fresh(agent)), some_batch(2, agent.spec)
    one, nothing = member(state.members, 0), jnp.zeros(24)

    def policy(which):
        # no transition is the member's, so its critic is the same whatever the prior
        prior = member(state.prior.members, which)
        return learner(prior_in_actor=in_actor)(one, prior, batch, nothing, KEY)[0].policy

    assert bool(changed_leaves(policy(0), policy(1))) == in_actor


def test_a_member_is_drawn_when_an_episode_opens_and_kept_until_it_ends() -> None:
    agent, envs = thompson(), 300
    obs = jnp.zeros((envs, 3))
    first = jnp.arange(envs) < 200
    memory = jnp.full(envs, 2)
    act = jax.jit(agent.act)
    _, after = act(fresh(agent), memory, obs, first, KEY)
    assert (after[200:] == 2).all()
    shares = np.bincount(after[:200], minlength=MEMBERS) / 200
    np.testing.assert_allclose(shares, 1 / MEMBERS, atol=0.12)
    _, again = act(fresh(agent), after, obs, jnp.zeros(envs, bool), jax.random.key(1))
    np.testing.assert_array_equal(again, after)


@pytest.mark.parametrize("kind", SPECS)
def test_actions_are_those_of_the_member(kind) -> None:
    agent = thompson(kind)
    state, obs = shaken(1, fresh(agent), by=2.0), some_batch(2, agent.spec).obs[:6]
    memory = jnp.asarray([0, 1, 2, 2, 1, 0])
    noise_key = jax.random.split(KEY)[1]
    sample = jax.jit(lambda actor: (actor.sample(obs, noise_key), actor.mode(obs)))
    actors = [member(state.members.policy.actor.net, i) for i in range(MEMBERS)]
    drawn, modes = zip(*[sample(actor) for actor in actors], strict=True)
    action, _ = jax.jit(agent.act)(state, memory, obs, jnp.zeros(6, bool), KEY)
    expected = [np.asarray(drawn[m])[row] for row, m in enumerate(memory.tolist())]
    np.testing.assert_allclose(action, expected, rtol=1e-5, atol=1e-6)
    best = [np.asarray(modes[row % MEMBERS])[row] for row in range(6)]
    np.testing.assert_allclose(jax.jit(agent.exploit)(state, obs), best, rtol=1e-5, atol=1e-6)
