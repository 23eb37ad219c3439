"""Many networks in one program are the same networks trained alone."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jaxtyping import Array

from devote.regression.models import Variant, fit_mean, fit_pairs, residuals, spread
from devote.regression.priors import MLP, RFN
from devote.regression.training import FitSettings, batch_orders, evaluate, pad_inputs

SHORT = FitSettings(epochs=4, batch_size=16)
SMALL = MLP(8, 2)


def table(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(seed).uniform(size=(rows, 2))
    return x, np.sin(5 * x[:, 0])


def fit_ensemble(
    x: np.ndarray, y: np.ndarray, settings: FitSettings, net: MLP, decay: float, members: int
) -> Any:
    """Members on one split; forty are a bootstrapped ensemble."""
    return fit_mean([x], [y], settings, [0], net, decay, members=members, bootstrap=members == 40)


def equal(a: object, b: object, atol: float = 2e-6) -> None:
    for left, right in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(left, right, atol=atol, rtol=1e-4)


@pytest.mark.parametrize("prior", [RFN(0.5, 16), RFN(0.5, 16, "uniform", "readout"), MLP(8, 1)])
def test_side_by_side_equals_one_after_another(prior: RFN | MLP) -> None:
    inputs = [table(40, 0)[0], table(23, 1)[0]]
    loop = fit_pairs(prior, inputs, 3, FitSettings(4, 16, layout="loop"), [0, 1])
    side = fit_pairs(prior, inputs, 3, FitSettings(4, 16, layout="vmap"), [0, 1])
    equal(loop, side)


@pytest.mark.parametrize("bootstrap", [False, True])
def test_a_split_does_not_notice_the_padding_of_a_longer_one(bootstrap: bool) -> None:
    (x, y), (more_x, more_y) = table(20, 0), table(50, 1)
    ensemble = {"members": 2, "bootstrap": bootstrap}
    together = fit_mean([x, more_x], [y, more_y], SHORT, [7, 8], SMALL, **ensemble)
    alone = fit_mean([x], [y], SHORT, [7], SMALL, **ensemble)
    equal(jax.tree.map(lambda leaf: leaf[:1], together), alone)


def test_every_epoch_visits_every_real_row_once() -> None:
    rows = pad_inputs([np.zeros((20, 1)), np.zeros((33, 1))], 16)
    orders = batch_orders([np.random.default_rng(0), np.random.default_rng(1)], rows, 3)
    assert orders.shape == (2, 3, 48)
    for split, real in zip(orders, rows.real, strict=True):
        np.testing.assert_array_equal(np.sort(split[:, :real]), np.tile(np.arange(real), (3, 1)))
        assert not np.array_equal(split[0], split[1])


def test_readout_alone_trains_where_asked() -> None:
    x, _ = table(40, 0)
    start = fit_pairs(RFN(0.5, 16, trains="readout"), [x], 2, FitSettings(1, 64, 1e-9), [3])
    readout = fit_pairs(RFN(0.5, 16, trains="readout"), [x], 2, SHORT, [3]).corrector
    everything = fit_pairs(RFN(0.5, 16), [x], 2, SHORT, [3]).corrector
    np.testing.assert_array_equal(readout.frequencies, start.corrector.frequencies)
    assert np.abs(readout.readout - start.corrector.readout).min() > 0
    assert np.abs(everything.frequencies - start.corrector.frequencies).max() > 1e-3


def test_members_and_seeds_differ() -> None:
    x, _ = table(40, 0)
    pairs = fit_pairs(RFN(0.5, 16), [x, x], 2, SHORT, [0, 1])
    values = np.stack(residuals(pairs, [x, x])).reshape(4, -1)
    assert np.abs(values[:, None] - values)[np.triu_indices(4, 1)].max(axis=-1).min() > 1e-3
    prior = np.asarray(pairs.prior.frequencies)
    assert not np.array_equal(prior, np.asarray(pairs.corrector.frequencies))


def test_poisson_weights_leave_rows_out() -> None:
    """With all weight decay off and one row, members with weight 0 stay where they began."""
    row = np.zeros((1, 1)), np.array([5.0])
    nets = fit_ensemble(*row, FitSettings(1, 16), MLP(2, 1), 0.0, 40)
    start = fit_ensemble(*row, FitSettings(1, 16, 1e-9), MLP(2, 1), 0.0, 40)
    moved = np.abs(nets.biases[-1] - start.biases[-1])[0, :, 0] > 1e-5
    assert 0.4 < moved.mean() < 0.85  # 1 - 1/e = 0.63


def test_mean_fits_and_spread_grows_away_from_data() -> None:
    x = np.random.default_rng(0).uniform(0, 0.3, (64, 1))
    training = FitSettings(epochs=200, batch_size=64, rate=1e-2)
    mean = fit_mean([x], [2 * x[:, 0]], training, [0], MLP(16, 1))
    np.testing.assert_allclose(evaluate(mean, [x])[0][0], 2 * x[:, 0], atol=0.03)
    pairs = fit_pairs(RFN(0.25, 128), [x], 5, training, [0])
    near, far = (spread(residuals(pairs, [at])[0]) for at in (x, x + 1.0))
    assert near.mean() < 0.05
    assert far.mean() > 0.3


def test_impossible_training_is_refused() -> None:
    with pytest.raises(ValueError, match="epochs"):
        FitSettings(epochs=0)


def test_members_that_minimise_their_mean_loss_feel_the_decay_that_often() -> None:
    (x, y), training = table(30, 0), FitSettings(epochs=20, batch_size=30)
    variant = Variant(weight_decay=0.05, ensemble_loss="mean")
    still = FitSettings(1, 30, 1e-12)
    start = fit_ensemble(x, y, still, SMALL, 0.0, 4)
    optimiser = optax.chain(optax.add_decayed_weights(0.05), optax.adam(training.rate))

    def mean_loss(nets: Any) -> Array:
        outputs = eqx.filter_vmap(eqx.filter_vmap(lambda net: net(x)))(nets)
        return jnp.mean((outputs - y) ** 2)

    nets, moments = start, optimiser.init(start)
    for _ in range(training.epochs):
        updates, moments = optimiser.update(jax.grad(mean_loss)(nets), moments, nets)
        nets = optax.apply_updates(nets, updates)
    ours = fit_ensemble(x, y, training, SMALL, variant.ensemble_decay(4), 4)
    equal(ours, nets, atol=1e-5)
    weaker = fit_ensemble(x, y, training, SMALL, 0.05, 4)
    assert np.abs(weaker.weights[0] - ours.weights[0]).max() > 1e-3
