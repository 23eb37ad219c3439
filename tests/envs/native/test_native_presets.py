"""What the presets say of the MuJoCo tasks is what the paper and the authors' code say."""

import pytest

from devote.build import HOST_ENVS
from devote.presets import PRESETS

NATIVE = [name for name in HOST_ENVS if name != "gymnasium"]


@pytest.mark.parametrize(
    ("task", "length_scale", "steps", "episode"),
    [
        ("cheetah", 7.5, 5_000_000, 500),
        ("ant_maze", 7.5, 40_000_000, 500),
        ("pick_and_place", 1.0, 40_000_000, 250),
    ],
)
def test_paper(task, length_scale, steps, episode) -> None:
    run = PRESETS["paper"](task, "devote")
    assert (run.agent.length_scale, run.steps) == (length_scale, steps)
    assert run.env.episode_length == episode
    assert run.loop.reset_interval == 250_000
    assert run.agent.optimism == 1.0


def test_the_authors_quirks_are_in_their_preset_alone() -> None:
    for preset in ("paper", "desk", "smoke"):
        ant, panda = (PRESETS[preset](task, "devote").env for task in NATIVE[-2:])
        assert ant.contact_cost == 5e-4
        assert ant.bent_ankles
        assert panda.true_grasp
        assert panda.holding_gains
    ant, panda = (PRESETS["authors"](task, "devote").env for task in NATIVE[-2:])
    assert ant.contact_cost == 0
    assert not ant.bent_ankles
    assert not panda.true_grasp
    assert not panda.holding_gains
    assert PRESETS["authors"]("cartpole_swingup", "sac").env.sparse


@pytest.mark.parametrize("name", NATIVE)
def test_every_name_builds_what_its_preset_says(name) -> None:
    run = PRESETS["smoke"](name, "devote")
    env = HOST_ENVS[name](run.env, 2)
    assert env.num_envs == 2
    assert env.spec.name == name
    assert env.spec.episode_length == 50
