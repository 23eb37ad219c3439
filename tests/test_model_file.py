"""Models on disk: what is written comes back as it was."""

from collections import OrderedDict
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from corridor import SHORT
from devote import Sac
from devote.core.errors import UserError
from devote.envs.space_table import from_table, to_table
from devote.envs.spaces import Observations
from devote.registry import ENVS, HOST_ENVS

NATIVE = [name for name in HOST_ENVS if name != "gymnasium"]
OURS = [name for name in ENVS if name not in ("brax", "playground")]


def line(low: float) -> spaces.Box:
    return spaces.Box(low, 1.0, (1,))


class Reach(gymnasium.Env):
    """Ends at once; what is seen has keys in an order of their own."""

    observation_space: spaces.Space = spaces.Dict(position=line(-1), goal=line(-1))
    action_space = spaces.Box(-1, 1, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 0.0, True, False, {}


class Sorted(Reach):
    observation_space = spaces.Dict({"position": line(-1), "goal": line(-1)})


def test_a_space_keeps_the_order_and_the_type_of_its_keys() -> None:
    parts: Any = OrderedDict({7: line(-3), "b": spaces.Dict(z=line(-2), a=line(-1))})
    space = spaces.Dict(parts)
    again = from_table(to_table(space), "a test")
    assert Observations(again).names == Observations(space).names
    assert Observations(again).spec.low == (-3.0, -2.0, -1.0)  # type: ignore[union-attr]
    odd: Any = {(1, 2): line(-1)}
    with pytest.raises(UserError, match="text or integers"):
        to_table(spaces.Dict(odd))


def test_a_loaded_model_reads_its_inputs_in_their_order(tmp_path: Path) -> None:
    agent = Sac(Reach, **SHORT)
    agent.save(tmp_path)
    rows = np.linspace(-1, 1, 9, dtype=np.float32)[:, None]
    obs = {"position": rows, "goal": -rows}
    np.testing.assert_array_equal(Sac.load(tmp_path, Reach).predict(obs), agent.predict(obs))
    with pytest.raises(UserError, match=r"entries .*got \(\"obs\['goal'\]"):
        Sac.load(tmp_path, Sorted)


@pytest.mark.parametrize("name", [*NATIVE, *OURS])
def test_a_model_of_a_task_of_ours_is_loaded_with_it(name: str, tmp_path: Path) -> None:
    agent = Sac(name, preset="smoke", num_envs=2)
    agent.save(tmp_path)
    loaded = Sac.load(tmp_path, env=name)
    assert loaded.task.spec.observation == agent.env.spec.observation
    assert loaded.env.spec == agent.env.spec
