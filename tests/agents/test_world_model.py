"""The world model learns what it is shown, and each of its losses moves what it should."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from devote.agents.world_model import (
    WorldModel,
    WorldModelSettings,
    divergences,
    in_a_row,
    in_time,
    world_model_loss,
)
from devote.core.learning import Optimiser
from devote.core.types import Transition
from devote.nets.encoder import Encoder
from devote.nets.rssm import Latent, Path
from tiny import SPECS, changed_leaves, named_leaves, slow_but, some_batch

SMALL = WorldModelSettings(
    model_width=32,
    model_depth=2,
    memory_size=32,
    memory_blocks=2,
    code_groups=8,
    code_classes=8,
)
KEY = jax.random.key(0)
LENGTH, RUNS, POOL = 8, 16, 16


@cache
def model(kind: str) -> WorldModel:
    spec = SPECS[kind]
    encoder = Encoder(spec.observation)
    return jax.jit(lambda key: WorldModel(key, SMALL, encoder, spec.action.size))(KEY)


@jax.jit
def fit(net: WorldModel, pool: Transition):
    """A model after 300 updates on a pool of sequences in turn, and the metrics on the way."""
    optimiser = Optimiser(3e-3)

    def update(learner, turn):
        number, key = turn
        steps = jax.tree.map(lambda x: x[number % POOL], pool)
        learner, labels = optimiser.descend(
            learner, world_model_loss, SMALL, steps, steps.next_obs, key
        )
        return learner, labels.metrics

    turns = (jnp.arange(300), jax.random.split(KEY, 300))
    learner, metrics = jax.lax.scan(update, optimiser.start(net), turns)
    return learner.net, metrics


def turning(seed: int, length: int = LENGTH, runs: int = RUNS) -> Transition:
    """A known linear system: a point that turns by a fixed angle, pushed by the action."""
    rng = np.random.default_rng(seed)
    turn = np.array([[np.cos(0.5), -np.sin(0.5), 0], [np.sin(0.5), np.cos(0.5), 0], [0, 0, 0.5]])
    push = np.array([[0.5, 0.0, 0.0], [0.0, 0.0, 1.0]])
    obs, states = rng.normal(size=(runs, 3)), []
    action = rng.uniform(-1, 1, size=(length, runs, 2))
    for acted in action:
        states.append(obs)
        obs = obs @ turn.T + acted @ push
    states.append(obs)
    path = np.stack(states).astype(np.float32)
    first = np.zeros((length, runs), bool)
    return Transition(
        obs=jnp.asarray(path[:-1]),
        action=jnp.asarray(action, jnp.float32),
        reward=jnp.asarray(path[1:, :, 0]),
        discount=jnp.ones((length, runs)),
        next_obs=jnp.asarray(path[1:]),
        first=jnp.asarray(first),
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", slow_but(("continuous",), SPECS))
def test_overfits_a_short_sequence(kind) -> None:
    batch = some_batch(0, SPECS[kind], size=LENGTH * RUNS)
    batch = jax.tree.map(lambda x: jnp.tile(x[:LENGTH], (RUNS,) + (1,) * (x.ndim - 1)), batch)
    one = in_time(batch, LENGTH)
    _, metrics = fit(model(kind), jax.tree.map(lambda x: jnp.stack([x] * POOL), one))
    for name in ("decoder", "reward", "continuation"):
        course = np.asarray(metrics[f"model/{name}_loss"])
        assert course[-20:].mean() < 0.15 * course[0], name


def test_predicts_a_linear_system_open_loop() -> None:
    many = [turning(seed) for seed in range(POOL)]
    net, _ = fit(model("continuous"), jax.tree.map(lambda *x: jnp.stack(x), *many))
    unseen = turning(seed=POOL)

    @jax.jit
    def predict(net):
        state = net.start(unseen.obs[0], KEY)
        return net.read(net.imagine(state, unseen.action, jax.random.key(1)))

    obs, reward, going_on = map(np.asarray, predict(net))
    truth = np.asarray(unseen.next_obs)
    error = np.square(obs - truth).mean(axis=(1, 2)) / truth.var()
    standing_still = np.square(np.asarray(unseen.obs[0]) - truth).mean(axis=(1, 2)) / truth.var()
    assert (error < 0.4).all(), error
    assert error[-1] < 0.2 * standing_still[-1], (error, standing_still)
    assert np.corrcoef(reward[0], unseen.reward[0])[0, 1] > 0.8
    assert (going_on > 0.95).all()


def path_of(net: WorldModel, steps: Transition) -> Path:
    return net.rssm.observe(
        net.encoder(steps.obs), net.encoder(steps.next_obs), steps.action, steps.first, KEY
    )


@cache
def slopes(term: str, free_nats: float):
    """Gradient of one divergence in prior and posterior logits that differ."""
    rng = np.random.default_rng(0)
    logits = [jnp.asarray(2 * rng.normal(size=(5, 3, 4, 4)), jnp.float32) for _ in range(2)]

    def loss(prior, posterior):
        path = Path(Latent(prior, prior), jax.nn.softmax(prior), jax.nn.softmax(posterior))
        return divergences(path, free_nats)[term].sum()

    return [np.asarray(x) for x in jax.jit(jax.grad(loss, argnums=(0, 1)))(*logits)]


def test_dynamics_term_moves_only_the_prior() -> None:
    prior, posterior = slopes("dynamics", 0.0)
    assert np.abs(prior).max() > 0.1
    assert not posterior.any()


def test_representation_term_moves_only_the_posterior() -> None:
    prior, posterior = slopes("representation", 0.0)
    assert not prior.any()
    assert np.abs(posterior).max() > 0.1


@pytest.mark.parametrize("term", ["dynamics", "representation"])
def test_free_nats_stop_both(term) -> None:
    assert not any(slope.any() for slope in slopes(term, 1e3))


def test_divergence_of_the_prior_is_cross_entropy_less_entropy() -> None:
    rng = np.random.default_rng(1)
    one, other = (rng.dirichlet(np.ones(4), size=(2, 1, 3)).astype(np.float32) for _ in range(2))
    path = Path(Latent(one, one), jnp.asarray(one), jnp.asarray(other))
    wanted = np.sum(other * np.log(other / one), axis=(-2, -1))
    for value in divergences(path, 0.0).values():
        np.testing.assert_allclose(value, wanted, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("term", ["dynamics", "representation"])
def test_each_divergence_has_its_own_weight(term) -> None:
    steps, net = in_time(some_batch(5, SPECS["continuous"], 12), 6), model("continuous")
    names = {"dynamics": "rssm.foresight", "representation": "rssm.hindsight"}
    only = replace(SMALL, dynamics_weight=0.0, representation_weight=0.0, free_nats=0.0)

    def moved(settings: WorldModelSettings) -> dict[str, float]:
        gradient = jax.jit(
            jax.grad(lambda net: world_model_loss(net, settings, steps, steps.next_obs, KEY)[0])
        )(net)
        return {name: float(np.abs(leaf).sum()) for name, leaf in named_leaves(gradient).items()}

    without, with_it = moved(only), moved(replace(only, **{f"{term}_weight": 1.0}))
    changed = {name for name in without if with_it[name] != without[name]}
    assert any(names[term] in name for name in changed), changed
    if term == "representation":  # the prior learns from nothing else
        assert not any(names["dynamics"] in name for name in changed)
        assert not any(value for name, value in without.items() if names["dynamics"] in name)


def test_state_starts_anew_at_first() -> None:
    """What went before an episode's first step does not reach it; without the flag it does."""
    net, spec = model("continuous"), SPECS["continuous"]
    steps, before = (in_time(some_batch(seed, spec, 12), 6) for seed in (2, 3))
    other = jax.tree.map(lambda x, y: jnp.concatenate([y[:3], x[3:]]), steps, before)
    observe = jax.jit(path_of)

    def later(flag: bool, steps: Transition):
        path = observe(net, steps._replace(first=steps.first.at[3].set(flag)))
        return jax.tree.map(lambda x: x[3:], path)

    assert not changed_leaves(later(True, steps), later(True, other))
    assert changed_leaves(later(False, steps), later(False, other))


def test_same_key_same_path_and_codes_are_one_hot() -> None:
    net, steps = model("continuous"), in_time(some_batch(2, SPECS["continuous"], 12), 6)
    observe = jax.jit(path_of)
    one, two = observe(net, steps), observe(net, steps)
    assert not changed_leaves(one, two)
    np.testing.assert_allclose(one.after.code.max(-1), 1.0, atol=1e-6)
    np.testing.assert_allclose(one.after.code.sum(-1), 1.0, atol=1e-6)


def test_in_a_row_undoes_in_time() -> None:
    batch = some_batch(4, SPECS["discrete"], 12)
    turned = in_time(batch, 4)
    assert turned.action.shape == (4, 3, 3)
    np.testing.assert_array_equal(turned.reward[:, 0], batch.reward[:4])
    assert not changed_leaves(jax.tree.map(in_a_row, turned), batch)


def test_every_part_of_the_model_is_taught() -> None:
    steps = in_time(some_batch(5, SPECS["continuous"], 12), 6)
    gradient, _ = jax.jit(
        jax.grad(lambda net: world_model_loss(net, SMALL, steps, steps.next_obs, KEY), has_aux=True)
    )(jax.tree.map(lambda x: np.asarray(x) + np.float32(0.01), model("continuous")))
    idle = [name for name, leaf in named_leaves(gradient).items() if not np.abs(leaf).max() > 0]
    assert not idle
