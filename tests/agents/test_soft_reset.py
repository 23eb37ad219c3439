"""A soft reset (eq. 11) is the exact interpolation and touches only its scope."""

from functools import cache

import jax
import numpy as np
import pytest

from devote.core.trees import interpolate
from tiny import assert_close, changed_leaves, devote, fresh, named_leaves, sac, shaken

KEY = jax.random.key(5)


@cache
def reset(strength: float, reset_target: bool = False):
    agent = devote("continuous", reset_strength=strength, reset_target=reset_target)
    before = shaken(1, fresh(agent))
    return before, jax.jit(agent.refresh)(before, KEY)


@pytest.mark.parametrize("reset_target", [False, True])
def test_touches_only_the_novelty_value_and_the_explorer(reset_target) -> None:
    scope = [".novelty_value.net", ".explorer.actor.net", ".resets"]
    scope += [".novelty_value_target"] * reset_target
    changed = changed_leaves(*reset(0.5, reset_target))
    assert all(any(name.startswith(part) for part in scope) for name in changed)
    assert all(any(name.startswith(part) for name in changed) for part in scope)


def test_counts_itself() -> None:
    before, after = reset(0.5)
    assert after.resets == before.resets + 1
    assert after.resets.dtype == before.resets.dtype


@pytest.mark.parametrize("part", ["novelty_value", "novelty_value_target", "explorer"])
def test_is_the_exact_interpolation_towards_a_fresh_initialisation(part) -> None:
    def net(state):
        value = getattr(state, part)
        return {"explorer": lambda: value.actor.net, "novelty_value": lambda: value.net}.get(
            part, lambda: value
        )()

    before, half = reset(0.5, True)
    _, start = reset(1.0, True)  # the same key draws the same fresh networks
    assert_close(net(half), interpolate(net(before), net(start), 0.5), rtol=1e-6, atol=1e-7)
    weights = named_leaves(net(start))
    assert all((w == 0).all() for n, w in weights.items() if n.endswith(".bias"))
    hidden = next(w for n, w in weights.items() if n.endswith("layers[0].weight"))
    assert np.std(hidden) == pytest.approx(16**-0.5, rel=0.2)


def test_strength_zero_changes_nothing() -> None:
    before, after = reset(0.0, True)
    assert not changed_leaves(before, after)


def test_fresh_networks_differ_from_one_reset_to_the_next() -> None:
    agent = devote("continuous", reset_strength=1.0, reset_target=True)
    before, after = reset(1.0, True)
    again = jax.jit(agent.refresh)(before, jax.random.key(6))
    matrices = {n for n in changed_leaves(after, again) if n.endswith((".weight", ".matrix"))}
    assert len(matrices) >= 6


def test_sac_resets_nothing() -> None:
    agent = sac("continuous")
    assert not changed_leaves(fresh(agent), agent.refresh(fresh(agent), KEY))
