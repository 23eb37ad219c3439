"""World model and ensemble together: every label belongs to the row that is trained on it."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from devote.agents.model_uncertainty import ModelUncertainty
from devote.core.errors import UserError
from devote.epistemic.disagreement import Guess, disagreement, guessing_loss
from devote.nets.encoder import Encoder
from devote.nets.rssm import Latent, draw
from tiny import SPECS, UNCERTAINTY, assert_close, fresh, shaken, some_batch

LENGTH, SIZE = 4, 12
SPEC = SPECS["continuous"]
KEY = jax.random.key(0)


def built(encoder: Encoder, **changes) -> ModelUncertainty:
    settings = replace(UNCERTAINTY, sequence_length=LENGTH, **changes)
    return ModelUncertainty(settings, encoder, 2, 1.0, "adam")


@cache
def some_beliefs():
    return shaken(1, fresh(built(Encoder(SPEC.observation))))


@cache
def some_runs():
    """Three runs of four steps; an episode opens inside the second."""
    batch = some_batch(2, SPEC, SIZE)
    opens = np.zeros(SIZE, bool)
    opens[LENGTH + 2] = True
    return batch._replace(first=jnp.asarray(opens))


@jax.jit
def one_step(model, before, opens, step, luck):
    """What the model makes of a single step: embedding, and the state that it leads to."""
    seen, nothing = model.encoder(step.obs), jnp.zeros(8)
    opened = Latent(nothing, draw(model.rssm.posterior(nothing, seen), luck[0]))
    before = jax.tree.map(lambda new, old: jnp.where(opens, new, old), opened, before)
    memory = model.rssm.gru(before, model.rssm.gru.action_in(step.action))
    posterior = model.rssm.posterior(memory, model.encoder(step.next_obs))
    return seen, Latent(memory, draw(posterior, luck[1]))


def labels_by_hand(model, batch) -> Guess:
    """Run by run, step by step: the pooled embedding of the observation, the successor's code."""
    shape = (LENGTH, SIZE // LENGTH, 2)
    luck = np.stack([jax.random.uniform(key, shape) for key in jax.random.split(KEY)])
    state, embeddings, codes = Latent(jnp.zeros(8), jnp.zeros((2, 3))), [], []
    for row in range(SIZE):
        run, time = divmod(row, LENGTH)
        opens = time == 0 or bool(batch.first[row])
        step = jax.tree.map(lambda x, row=row: np.asarray(x)[row], batch)
        seen, state = one_step(model, state, opens, step, luck[:, time, run])
        embeddings.append(np.asarray(seen).reshape(4, 2).max(axis=1))
        codes.append(np.asarray(state.code))
    return Guess(np.stack(embeddings), np.stack(codes), np.asarray(batch.reward))


@pytest.mark.slow
def test_ensemble_learns_the_labels_of_the_steps_that_it_reads() -> None:
    unknown, beliefs, batch = built(Encoder(SPEC.observation)), some_beliefs(), some_runs()
    beliefs = beliefs._replace(standards=fresh(unknown).standards)
    after, disagreed, _ = jax.jit(unknown.learn)(beliefs, batch, KEY)

    labels = labels_by_hand(beliefs.model.net, batch)
    scaled = {
        name: (values - values.mean(axis=0)) / values.std(axis=0)
        for name, values in (("embedding", labels.embedding), ("reward", labels.reward))
    }
    wanted, _ = jax.jit(unknown.optimiser.descend, static_argnums=1)(
        beliefs.guessers, guessing_loss, batch.obs, batch.action, labels._replace(**scaled)
    )
    # the first moments are the slopes themselves; a step of Adam hides their size
    assert_close(after.guessers.moments, wanted.moments, rtol=1e-3, atol=1e-5)
    before = jax.jit(disagreement)(beliefs.guessers.net, batch.obs, batch.action)
    np.testing.assert_allclose(disagreed, before, rtol=1e-4)


def test_ensemble_may_see_finer_than_the_critics() -> None:
    encoder = Encoder(SPEC.observation, scaled=True, features=16, length=12.0)
    coarse, fine = built(encoder), built(encoder, guesser_length=2.0)
    net = fresh(fine).guessers.net.members.body.first.encoder
    assert (net.length, net.features, net.scaled) == (2.0, 16, True)
    assert fresh(fine).model.net.encoder.first.encoder.length == 12.0
    obs = jnp.asarray([[0.0, 0.0, 0.0], [1.0, 1.0, -1.0]])

    def contrast(unknown: ModelUncertainty) -> float:
        """How much fresh members change within a step of about 2."""
        guessers, action = fresh(unknown).guessers.net, jnp.zeros((2, 2))
        found = jax.jit(lambda net: net.each(lambda guesser: guesser(obs, action)))(guessers)
        return float(jnp.abs(found.embedding[:, 0] - found.embedding[:, 1]).mean())

    assert contrast(fine) > 1.5 * contrast(coarse)


def test_a_length_without_features_is_refused() -> None:
    with pytest.raises(UserError, match="input_features"):
        built(Encoder(SPEC.observation), guesser_length=2.0).init(KEY)
