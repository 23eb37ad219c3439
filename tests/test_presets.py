"""The big presets run: their own code paths, at a size that a test can afford."""

from dataclasses import replace
from importlib import import_module

import jax
import numpy as np
import pytest

from devote import names
from devote.agents.sac import SacSettings
from devote.build import AGENTS, TASKS, build_program
from devote.core.errors import UserError
from devote.core.settings import flat, leaves, with_values
from devote.epistemic.tud import residual
from devote.loops.schedule import LoopSettings, Round
from devote.presets import PRESETS
from tiny import SPECS, fresh, shaken, some_batch


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["paper", "authors"])
def test_every_metric_of_a_shrunken_preset_is_finite(preset: str) -> None:
    run = PRESETS[preset]("spiral", "devote")
    sac = replace(run.agent.sac, critic_width=8, actor_width=8)
    loop = LoopSettings(
        num_envs=4,
        updates_per_step=0.25,
        batch_size=16,
        replay_capacity=400,
        learning_starts=40,
        log_interval=40,
    )
    small = replace(
        run, agent=replace(run.agent, sac=sac, num_features=8, num_indices=2), loop=loop
    )
    program = build_program(small)
    state, metrics = program.chunk(program.prefill(program.init()))
    trained = {name: value for name, value in metrics.items() if "rollout" not in name}
    assert all(np.isfinite(value) for value in trained.values()), trained
    assert int(state.clock.updates) == 10
    assert all(bool(np.isfinite(x).all()) for x in jax.tree.leaves(state.agent))


def test_paper_preset_is_the_papers_table() -> None:
    run = PRESETS["paper"]("spiral", "devote")
    agent, sac, loop = run.agent, run.agent.sac, run.loop
    assert (sac.critic_width, sac.critic_depth, sac.actor_width, sac.actor_depth) == (
        1024,
        3,
        192,
        3,
    )
    assert (agent.num_indices, agent.bootstrap_probability, sac.polyak) == (8, 0.5, 0.005)
    assert (agent.num_features, agent.length_scale, agent.readout) == (1024, 1.0, "ones")
    assert (sac.optimiser, sac.learning_rate, agent.corrector_rate) == ("adam", 3e-4, 3e-4)
    assert (sac.critic_weight_decay, agent.optimism, sac.initial_temperature) == (1e-2, 1.0, 1.0)
    assert (sac.target_entropy_per_dimension, sac.discount) == (-0.5, 0.998)
    assert (loop.updates_per_step, loop.batch_size) == (1.0, 2048)
    assert (agent.reset_strength, loop.reset_interval, sac.value_head) == (0.5, 250_000, "two_hot")
    assert agent.prior_sees_action
    assert agent.corrector_sees_action
    assert agent.bonus_has_novelty
    assert agent.propagation == "magnitude"


@pytest.mark.parametrize("preset", ["paper", "authors"])
@pytest.mark.parametrize("task", TASKS)
def test_a_chunk_of_a_big_preset_is_about_a_thousand_updates(task: str, preset: str) -> None:
    loop = PRESETS[preset](task, "devote").loop
    assert 800 <= loop.rounds_per_chunk() * Round.of(loop).updates <= 1_200


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("agent", AGENTS)
def test_every_agent_has_devotes_backbone_schedule_and_budget(preset: str, agent: str) -> None:
    ours, theirs = (PRESETS[preset]("spiral", name) for name in ("devote", agent))
    assert (theirs.env, theirs.loop, theirs.steps) == (ours.env, ours.loop, ours.steps)
    sac = theirs.agent if isinstance(theirs.agent, SacSettings) else theirs.agent.sac
    # one squared error for all critics of joint TD needs a plain head
    assert replace(sac, value_head=ours.agent.sac.value_head) == ours.agent.sac


def test_what_an_agent_has_of_its_own_in_a_task_goes_on_top() -> None:
    recipe = import_module("devote.presets.desk").RECIPES["spiral"]
    own = {
        "rnd": {"optimism": 2.0, "num_features": 5},
        ("spiral", "rnd"): {"optimism": 3.0, "corrector_rate": 0.5},
        ("u_maze", "rnd"): {"optimism": 4.0},
        ("spiral", "devote"): {"optimism": 5.0},
    }
    found = recipe.run("spiral", "rnd", "desk", own)
    assert found.difference(recipe.run("spiral", "rnd", "desk")) == {
        "optimism": (3.0, 1.0),
        "num_features": (5, 256),
        "corrector_rate": (0.5, 1e-3),
    }


@pytest.mark.parametrize("preset", PRESETS)
def test_what_agents_have_of_their_own_names_agents_and_tasks(preset: str) -> None:
    for key in import_module(f"devote.presets.{preset}").OWN:
        task, agent = ("spiral", key) if isinstance(key, str) else key
        assert agent in AGENTS, key
        assert task in TASKS, key


ABLATIONS: dict[str, set[str]] = {
    "devote-no-rfn": {"prior", "num_features"},  # a network of its own
    "devote-no-resets": {"reset_strength"},
    "devote-no-tud-opt": {"propagation"},
    "devote-no-tud-opt-ucb": {"propagation", "bonus"},
    "devote-no-tud": {"propagation"},  # and the losses, by its class
    "devote-no-tud-ucb": {"propagation", "bonus"},
}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", ABLATIONS)
def test_ablations_change_what_they_are_named_for_and_nothing_else(name: str, task: str) -> None:
    whole = PRESETS["desk"](task, "devote")
    expected = ABLATIONS[name] | {"agent_name"}
    if name.startswith("devote-no-tud") and "opt" not in name:
        # one squared error for all critics of joint TD needs a plain head
        expected |= {"value_head"} if whole.agent.sac.value_head == "two_hot" else set()
    if name == "devote-no-rfn":
        # without biases a ReLU prior sees a direction; a Fourier prior has no use for them
        expected |= set() if whole.agent.relu_bias else {"relu_bias"}
    assert set(PRESETS["desk"](task, name).difference(whole)) == expected


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("task", ["spiral", "deep_sea", "cheetah"])
def test_rnd_is_one_relu_prior_over_states_without_resets(task: str, preset: str) -> None:
    agent = PRESETS[preset](task, "rnd").agent
    assert (agent.num_indices, agent.prior, agent.reset_strength) == (1, "relu", 0.0)
    assert (agent.prior_sees_action, agent.propagation, agent.bonus) == (False, "magnitude", "mean")


def test_what_is_explored_by_is_a_scalar_for_every_agent_of_the_desk_s_coverage_study() -> None:
    for task in ("spiral", "u_maze", "deep_sea", "cheetah"):
        for name in ("thompson", "sombrl"):  # that of all others is a scalar by construction
            assert PRESETS["desk"](task, name).agent.sac.value_head == "scalar"


@pytest.mark.parametrize("preset", ["desk", "smoke"])
@pytest.mark.parametrize("task", TASKS)
def test_relu_priors_have_biases(task: str, preset: str) -> None:
    for name in ("rnd", "thompson", "devote-no-rfn"):
        assert PRESETS[preset](task, name).agent.relu_bias, name


BONUSES = {
    "devote-no-tud": lambda rb, local: (rb + abs(local)).mean(0),
    "devote-no-tud-opt": lambda rb, local: (rb + abs(local)).mean(0),
    "devote-no-tud-ucb": lambda rb, local: (rb + local).std(0),
    "devote-no-tud-opt-ucb": lambda rb, local: rb.std(0),
    "devote": lambda rb, local: rb.mean(0),
}


@pytest.mark.parametrize("name", BONUSES)
def test_ablations_of_the_authors_preset_read_the_authors_bonus(name: str) -> None:
    settings = PRESETS["authors"]("spiral", name).agent
    sac = replace(settings.sac, critic_width=8, actor_width=8)
    small = replace(settings, sac=sac, num_features=8, num_indices=3)
    agent, batch = (
        AGENTS[name].build(small, SPECS["continuous"]),
        some_batch(0, SPECS["continuous"]),
    )
    state = shaken(1, fresh(agent))
    rb, local = (
        np.asarray(part)
        for part in (
            state.novelty_value.net(batch.obs, batch.action),
            residual(state.corrector.net, state.prior, batch.obs, batch.action),
        )
    )
    found = agent.bonus(state, batch.obs, batch.action)
    np.testing.assert_allclose(found, BONUSES[name](rb, local), rtol=1e-4, atol=1e-4)


def test_priors_steer_thompsons_actors_except_in_the_authors_code() -> None:
    steered = {name: preset("spiral", "thompson").agent for name, preset in PRESETS.items()}
    assert [name for name, agent in steered.items() if not agent.prior_in_actor] == ["authors"]
    assert [name for name, agent in steered.items() if not agent.prior_sees_action] == ["authors"]


def test_names_are_those_of_what_can_be_built() -> None:
    assert set(names.TASKS) == set(TASKS)
    assert tuple(AGENTS) == names.AGENTS
    assert tuple(PRESETS) == names.PRESETS


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("task", TASKS)
def test_every_number_has_a_range_and_every_setting_a_name_of_its_own(task, agent) -> None:
    found = list(leaves(PRESETS["desk"](task, agent)))
    names = [leaf.name for leaf in found]
    assert sorted(set(names)) == sorted(names)
    assert not [leaf.name for leaf in found if leaf.kind in (int, float) and leaf.range is None]


@pytest.mark.parametrize(
    "name", ["learning_rate", "corrector_rate", "predictor_rate", "model_rate"]
)
def test_no_rate_is_zero(name) -> None:
    runs = [PRESETS["desk"]("spiral", agent) for agent in ("devote", "rnd-classic", "sombrl")]
    [run, *_] = [run for run in runs if name in flat(run)]
    with pytest.raises(UserError, match=f"{name} above 0"):
        with_values(run, {name: 0.0}).check()
