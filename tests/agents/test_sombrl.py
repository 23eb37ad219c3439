"""SOMBRL's own arithmetic, and an ensemble that disagrees where it has no data."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from devote.agents.sombrl import Sombrl, SombrlSettings, weight_loss
from devote.core.errors import UserError
from devote.core.learning import Optimiser
from devote.core.trees import interpolate
from devote.core.types import Vector
from devote.epistemic.disagreement import (
    Guess,
    Guesser,
    disagreement,
    guessing_loss,
    pooled,
    spread,
    standardised,
    standards,
)
from devote.nets.encoder import Encoder
from devote.nets.ensemble import Ensemble
from tiny import SAC, SPECS, UNCERTAINTY, assert_close, fresh, shaken, some_batch

SMALL = replace(UNCERTAINTY, sequence_length=6)
KEY = jax.random.key(0)


@cache
def agent(kind: str) -> Sombrl:
    return Sombrl(SombrlSettings(sac=SAC, uncertainty=SMALL), SPECS[kind])


@cache
def state(kind: str):
    return shaken(1, fresh(agent(kind)))


@pytest.mark.parametrize("kind", SPECS)
def test_explorer_maximises_task_value_plus_weighted_intrinsic_value(kind) -> None:
    batch, now = some_batch(0, SPECS[kind]), state(kind)
    value = jax.jit(agent(kind).optimistic_value)(now, batch.obs, batch.action)
    weight = np.exp(now.log_weight.net)
    judge = jax.jit(lambda net: net(batch.obs, batch.action))
    wanted = judge(now.task.task_value.net) + weight * np.asarray(judge(now.intrinsic_value.net))
    assert abs(weight - 1) > 0.01
    np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-5)


def test_intrinsic_value_is_regressed_on_disagreement_and_what_follows() -> None:
    batch, now = some_batch(0, SPECS["discrete"]), state("discrete")
    reward = jnp.arange(24.0)
    target = jax.jit(agent("discrete").intrinsic_target)(now, batch, reward, KEY)

    @jax.jit
    def ahead(now):
        probs = now.explorer.actor.net._probs(batch.next_obs)
        choices = [jnp.broadcast_to(choice, probs.shape) for choice in jnp.eye(3)]
        values = [now.intrinsic_value_target(batch.next_obs, choice) for choice in choices]
        return SAC.discount * batch.discount * (probs * jnp.stack(values, axis=-1)).sum(-1)

    np.testing.assert_allclose(target, reward + ahead(now), rtol=1e-4, atol=1e-4)
    assert (np.asarray(target)[np.asarray(batch.discount) == 0] % 1 == 0).all()


def test_weight_falls_where_the_actor_finds_more_than_its_slow_copy() -> None:
    slope = jax.jit(jax.grad(lambda w, surplus: weight_loss(w, surplus, 0.1)[0]))
    log_weight = jnp.log(2.0)
    for surplus in (-1.0, 0.0, 0.5):
        wanted = surplus + 2 * 0.1 * 2.0**2
        np.testing.assert_allclose(slope(log_weight, surplus), wanted, rtol=1e-5)


def test_weight_rises_while_the_actor_finds_less_disagreement_than_its_slow_copy() -> None:
    spec = SPECS["discrete"]
    settings = SombrlSettings(sac=SAC, uncertainty=SMALL, intrinsic_weight_penalty=0.0)
    judge, now, obs = Sombrl(settings, spec), state("discrete"), some_batch(0, spec).obs

    @jax.jit
    def found(actor):
        choices = [jnp.broadcast_to(choice, (obs.shape[0], 3)) for choice in jnp.eye(3)]
        seen = [judge.uncertainty(now.beliefs, obs, choice) for choice in choices]
        return (actor._probs(obs) * jnp.stack(seen, axis=-1)).sum(axis=-1).mean()

    less, more = sorted((now.explorer.actor.net, now.slow_explorer), key=lambda a: float(found(a)))
    assert found(more) - found(less) > 0.01

    def weighed(explorer, slow):
        policy = now.explorer._replace(actor=now.explorer.actor._replace(net=explorer))
        after, _ = jax.jit(judge.weigh)(now._replace(explorer=policy, slow_explorer=slow), obs, KEY)
        followed = jax.jit(interpolate)(slow, explorer, 0.02)
        assert_close(after.slow_explorer, followed, rtol=1e-5, atol=1e-6)
        return after.log_weight.net

    assert weighed(less, more) > now.log_weight.net
    assert weighed(more, less) < now.log_weight.net


def guess_of(rng: np.random.Generator) -> Guess:
    def normal(*shape: int) -> jax.Array:
        return jnp.asarray(rng.normal(size=shape), jnp.float32)

    return Guess(normal(3, 7, 4), normal(3, 7, 2, 3), normal(3, 7))


def test_spread_is_the_sum_of_standard_deviations() -> None:
    guess = guess_of(np.random.default_rng(0))
    probs = np.exp(guess.code) / np.exp(guess.code).sum(-1, keepdims=True)
    plain = [np.sign(x) * np.expm1(np.abs(x)) for x in map(np.asarray, guess)]
    wanted = plain[0].std(0).sum(-1) + probs.std(0).sum((-2, -1)) + plain[2].std(0)
    np.testing.assert_allclose(jax.jit(spread)(guess), wanted, rtol=1e-4)


def test_members_that_agree_have_no_spread() -> None:
    guess = guess_of(np.random.default_rng(0))
    same = jax.tree.map(lambda x: jnp.broadcast_to(x[:1], x.shape), guess)
    np.testing.assert_allclose(jax.jit(spread)(same), 0.0, atol=1e-5)


def test_pooling_takes_the_largest_of_each_window() -> None:
    pool = pooled(jnp.array([[1.0, 5.0, -2.0, -3.0, 0.0, 7.0]]), 3)
    np.testing.assert_array_equal(pool, [[5.0, -2.0, 7.0]])


def test_targets_are_standardised_by_all_that_was_seen() -> None:
    rng = np.random.default_rng(2)
    embedding, reward = rng.normal(3, 2, (500, 4)), rng.normal(-1, 5, 500)
    scale = standards(4)
    for part in range(5):
        rows = slice(100 * part, 100 * part + 100)
        scale = scale.follow(jnp.asarray(embedding[rows]), jnp.asarray(reward[rows]))
    target = standardised(Guess(jnp.asarray(embedding), jnp.zeros(()), jnp.asarray(reward)), scale)
    for values in (target.embedding, target.reward):
        np.testing.assert_allclose(np.mean(values, 0), 0.0, atol=1e-3)
        np.testing.assert_allclose(np.std(values, 0), 1.0, atol=1e-3)


def test_disagreement_falls_where_there_is_data() -> None:
    rng = np.random.default_rng(4)
    space = Vector((-1.0, -1.0), (1.0, 1.0))

    def guesser(key):
        return Guesser(key, Encoder(space), 1, (32, 32), (2, 2, 3), action_gain=1.0)

    guessers = jax.jit(lambda key: Ensemble(key, 4, guesser))(KEY)
    known = jnp.asarray(rng.uniform(0.2, 1, (64, 2)), jnp.float32)
    unknown = -known
    action = jnp.asarray(rng.uniform(-1, 1, (64, 1)), jnp.float32)
    code = jax.nn.one_hot((known > 0.6).astype(int), 3)
    target = Guess(known, code, known.sum(-1))
    optimiser = Optimiser(3e-3)

    @jax.jit
    def fit(learner):
        def update(learner, _):
            return optimiser.descend(learner, guessing_loss, known, action, target)[0], None

        return jax.lax.scan(update, learner, length=400)[0].net

    trained = fit(jax.jit(optimiser.start)(guessers))
    differ = jax.jit(disagreement)
    before, after, elsewhere = (
        float(differ(net, obs, action).mean())
        for net, obs in ((guessers, known), (trained, known), (trained, unknown))
    )
    assert after < 0.2 * before
    assert elsewhere > 4 * after


@pytest.mark.parametrize("size", [0, 3])
def test_sizes_that_do_not_fit_are_refused(size) -> None:
    with pytest.raises(UserError, match="embedding_size"):
        replace(SMALL, embedding_size=size)
    with pytest.raises(UserError, match="memory_blocks"):
        replace(SMALL.model, memory_blocks=size)
