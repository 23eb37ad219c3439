"""A frozen policy: only critics learn, of both losses, and the policy is the one that was saved."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from devote.build import AGENTS, build_agent
from devote.core.errors import UserError
from devote.loops import checkpoint
from devote.loops.run_dir import CHECKPOINTS, SETTINGS
from tiny import DEVOTE, SPECS, changed_leaves, fresh, shaken, some_batch

SPEC = SPECS["continuous"]
SETTINGS_OF = AGENTS["evaluator"].like(DEVOTE)


@pytest.mark.parametrize("joint", [False, True])
def test_critics_learn_and_the_policy_stays(joint: bool) -> None:
    agent = AGENTS["evaluator"].build(replace(SETTINGS_OF, joint=joint), SPEC)
    state, batch = fresh(agent), some_batch(1, SPEC)
    batch = batch._replace(first=np.ones_like(batch.first))
    after, metrics = jax.jit(agent.update)(state, batch, jax.random.key(0))
    changed = changed_leaves(state, after)
    assert not [name for name in changed if "policy" in name or "explorer" in name]
    for part in ("task_value.net", "corrector.net", "novelty_value.net"):
        assert [name for name in changed if part in name], part
    assert not [name for name in metrics if "actor" in name or "ent" in name.split("/")[1]]
    value = agent.value(state, batch.obs, batch.action).mean()
    share = 1 - 0.98 ** len(batch.obs)
    np.testing.assert_allclose(after.start_value, share * value, rtol=1e-4, atol=1e-6)


class Saved(NamedTuple):
    """As much of a run as counts."""

    agent: Any


def saved(folder: Path, agent: str) -> Any:
    """The state of a SAC in a run directory that says whose it is."""
    state = shaken(3, fresh(AGENTS["sac"].build(DEVOTE.sac, SPEC)))
    checkpoint.save(folder / CHECKPOINTS, 1, Saved(state), {})
    (folder / SETTINGS).write_text(f'{{"agent_name": "{agent}"}}')
    return state


def test_the_policy_is_the_one_of_the_run(tmp_path: Path) -> None:
    source, settings = saved(tmp_path, "sac"), replace(SETTINGS_OF, policy=str(tmp_path))
    agent = build_agent("evaluator", settings, SPEC)
    state, obs = agent.init(jax.random.key(1)), some_batch(1, SPEC).obs
    best = source.policy.actor.net.mode(obs)
    np.testing.assert_array_equal(agent.exploit(state, obs), best)
    assert not changed_leaves(source.policy, state.critic.explorer)
    other = replace(settings, sac=replace(settings.sac, actor_width=8))
    with pytest.raises(UserError, match=r"at \.agent\.policy"):
        build_agent("evaluator", other, SPEC)


def test_other_runs_are_refused(tmp_path: Path) -> None:
    saved(tmp_path, "devote")
    settings = replace(SETTINGS_OF, policy=str(tmp_path))
    with pytest.raises(UserError, match=r"a run of sac in .*; got another agent's"):
        build_agent("evaluator", settings, SPEC)
