"""With a residual that never changes, the novelty value is its analytic discounted sum."""

from dataclasses import replace
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mdps import DISCOUNT, PROBE_SAC, SPECS, Row, both_sides, sample, train

from devote.agents.devote import Devote
from devote.epistemic.tud import residual
from tiny import DEVOTE, fresh, slow_but

CHAIN = (  # 0 -> 1 -> 2 -> over, and 3 for ever
    Row(0.0, 1, False),
    Row(0.0, 2, False),
    Row(0.0, 2, True),
    Row(0.0, 3, False),
)
CASES = [("magnitude", "continuous"), ("signed", "discrete")]


@cache
def trained(propagation, kind):
    """The agent after training with a frozen corrector, prior and corrector blind to actions."""
    settings = replace(
        DEVOTE, sac=PROBE_SAC, propagation=propagation, corrector_rate=0.0, num_indices=4
    )
    agent = Devote(settings, SPECS[kind])

    def blind(net):
        return eqx.tree_at(lambda n: n.members.phase.action, net, replace_fn=jnp.zeros_like)

    state = fresh(agent)
    corrector = state.corrector._replace(net=blind(state.corrector.net))
    state = state._replace(
        prior=blind(state.prior),
        corrector=corrector,
        corrector_target=blind(state.corrector_target),
    )
    return train(agent, state, 1000, CHAIN)


def residuals(state, kind):
    """c + g in every state of the chain, (index, state)."""
    each = [
        residual(state.corrector.net, state.prior, *both_sides(SPECS[kind], s)) for s in range(4)
    ]
    for values in each:
        np.testing.assert_allclose(values[:, 0], values[:, 1], rtol=1e-5)  # blind to the action
    return np.stack([values[:, 0] for values in each], axis=1)


@pytest.mark.parametrize(("propagation", "kind"), slow_but(CASES[1:], CASES))
def test_novelty_value_is_the_discounted_sum_of_what_lies_ahead(propagation, kind) -> None:
    state = trained(propagation, kind)
    local = residuals(state, kind)
    for ahead in (local[:, 1:3], local[:, 3]):
        assert (ahead < -0.3).any()  # what is passed on tells |x| from x
    local = np.abs(local) if propagation == "magnitude" else local
    expected = {
        0: DISCOUNT * (local[:, 1] + DISCOUNT * local[:, 2]),
        1: DISCOUNT * local[:, 2],
        2: 0.0 * local[:, 0],
        3: DISCOUNT * local[:, 3] / (1 - DISCOUNT),
    }
    for number, value in expected.items():
        found = state.novelty_value.net(*both_sides(SPECS[kind], number))
        np.testing.assert_allclose(
            found, np.stack([value, value], axis=1), atol=0.08, err_msg=f"state {number}"
        )


@pytest.mark.slow
@pytest.mark.parametrize("kind", SPECS)
def test_the_value_of_the_unknown_is_carried_back_along_a_chain(kind) -> None:
    known = (*CHAIN[:2], Row(0.0, 3, False))  # 0 -> 1 -> 2 -> 3, where nobody has ever acted

    def at_the_start(unknown_value):
        settings = replace(
            DEVOTE,
            sac=PROBE_SAC,
            num_indices=8,
            corrector="exact",
            basis_size=64,
            solve_interval=1,
            unknown_value=unknown_value,
        )
        agent = Devote(settings, SPECS[kind])
        state, seen = fresh(agent), sample(agent.spec, jax.random.key(0), known, 3000)
        state = train(agent, agent.observe(state, seen, None, jax.random.key(1), 0), 1000, known)
        local = agent.residual(state, *both_sides(agent.spec, 3))
        return state.novelty_value.net(*both_sides(agent.spec, 0)).mean(), jnp.abs(local).mean()

    (plain, novelty), (valued, _) = at_the_start(0.0), at_the_start(5.0)
    assert plain < DISCOUNT**3 * 3 * novelty + 0.1
    # ignorance is |c + g| capped at 1, the same for both sides up to what the action adds
    assert valued - plain > DISCOUNT**3 * 0.5 * min(1.0, novelty) * 5.0
