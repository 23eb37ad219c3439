"""Observations and actions of Gymnasium in our terms, and back."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from devote.core.errors import UserError
from devote.core.types import Box, Choice, Index
from devote.envs.spaces import Actions, Observations

NESTED = spaces.Dict(
    {
        "where": spaces.Dict({"xy": spaces.Box(-1, 3, (2,)), "room": spaces.Discrete(3, start=5)}),
        "keys": spaces.MultiBinary(2),
        "dials": spaces.MultiDiscrete([2, 3]),
        "speed": spaces.Box(-np.inf, np.inf, (1, 2), np.float64),
    }
)


def test_nested_observations_become_one_vector_with_the_bounds_of_each_part() -> None:
    layout = Observations(NESTED)
    flat = layout.flatten_one(
        {
            "where": {"xy": np.float32([0.5, -0.5]), "room": np.int64(6)},
            "keys": np.int8([0, 1]),
            "dials": np.array([1, 2]),
            "speed": np.array([[7.0, 8.0]]),
        }
    )
    parts = {name.split("[")[1] for name in layout.names}
    assert len(parts) == 4
    by_name = dict(zip(layout.names, flat.tolist(), strict=True))
    assert [by_name[f"obs['where']['xy'][{i}]"] for i in range(2)] == [0.5, -0.5]
    assert [by_name[f"obs['where']['room'][{i}]"] for i in range(3)] == [0, 1, 0]
    assert [by_name[f"obs['keys'][{i}]"] for i in range(2)] == [0, 1]
    assert [by_name[f"obs['dials'][{i}]"] for i in range(5)] == [0, 1, 0, 0, 1]
    assert [by_name[f"obs['speed'][{i}]"] for i in range(2)] == [7, 8]
    pairs = zip(layout.spec.low, layout.spec.high, strict=True)
    bounds = dict(zip(layout.names, pairs, strict=True))
    assert bounds["obs['where']['xy'][0]"] == (-1, 3)
    assert bounds["obs['dials'][4]"] == (0, 1)
    assert bounds["obs['speed'][0]"] == (-np.inf, np.inf)
    assert flat.dtype == np.float32


def test_a_batch_is_flattened_row_by_row() -> None:
    layout, n = Observations(NESTED), 4
    singles = [NESTED.sample() for _ in range(n)]
    batch = {
        "where": {k: np.stack([s["where"][k] for s in singles]) for k in ("xy", "room")},
        **{k: np.stack([s[k] for s in singles]) for k in ("keys", "dials", "speed")},
    }
    rows = np.stack([layout.flatten_one(single) for single in singles])
    np.testing.assert_array_equal(layout.flatten(batch, n), rows)


def test_an_integer_observation_stays_an_index() -> None:
    layout = Observations(spaces.Discrete(4, start=-2))
    assert layout.spec == Index(4)
    assert layout.flatten(np.array([-2, 1]), 2).tolist() == [0, 3]
    assert layout.flatten_one(np.int64(0)) == 2
    with pytest.raises(UserError, match="inside Discrete"):
        layout.flatten_one(2)


def test_flattened_observations_are_our_own_memory() -> None:
    buffer = np.zeros((2, 2), np.float32)
    flat = Observations(spaces.Box(-1, 1, (2,))).flatten(buffer, 2)
    buffer[:] = 1
    assert not flat.any()


def test_bounds_that_say_nothing_are_infinite_and_constants_have_a_width() -> None:
    low = np.array([-3.4e38, 0.0, 2.0, -np.inf], np.float32)
    high = np.array([3.4e38, 255.0, 2.0, 1.0], np.float32)
    spec = Observations(spaces.Box(low, high)).spec
    assert spec.low == (-np.inf, 0.0, 1.0, -np.inf)
    assert spec.high == (np.inf, 255.0, 3.0, np.inf)


@pytest.mark.parametrize(
    ("obs", "message"),
    [
        (np.zeros(3), r"shape \(2,\).*got.*\(3,\)"),
        (np.array(["a", "b"]), "numbers"),
        ([[1.0], 2.0], "numbers"),
        (None, "numbers"),
    ],
)
def test_observations_of_another_shape_or_kind_are_refused(obs: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Observations(spaces.Box(-1, 1, (2,))).flatten_one(obs)


def test_a_missing_key_and_an_unknown_space_are_named() -> None:
    space = spaces.Dict({"a": spaces.Dict({"b": spaces.Discrete(2)})})
    with pytest.raises(UserError, match=r"obs\['a'\]\['b'\] in observations"):
        Observations(space).flatten_one({"a": {}})
    with pytest.raises(UserError, match=r"obs\['t'\] to be Box.*Text"):
        _ = Observations(spaces.Dict({"t": spaces.Text(4)})).spec


def test_continuous_actions_are_stretched_to_their_bounds() -> None:
    space = spaces.Box(np.array([[-2.0, 0.0]]), np.array([[6.0, 0.1]]), dtype=np.float64)
    actions = Actions(space)
    assert actions.spec == Box(2)
    out = actions.to_env(np.array([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0], [0.5, 1.0000001]]))
    np.testing.assert_allclose(out[:, 0], [[-2, 0], [2, 0.05], [6, 0.1], [4, 0.1]], atol=1e-12)
    assert all(space.contains(row) for row in out)


def test_one_hot_actions_become_the_integers_of_the_space() -> None:
    actions = Actions(spaces.Discrete(3, start=-1))
    assert actions.spec == Choice(3)
    out = actions.to_env(np.eye(3, dtype=np.float32))
    assert out.tolist() == [-1, 0, 1]
    assert all(actions.space.contains(a) for a in out)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Box(-np.inf, np.inf, (2,)), "finite bounds.*TransformAction"),
        (spaces.Box(0, 3, (2,), np.int32), "floats.*Discrete"),
        (spaces.Text(3), "a Box, Discrete, MultiDiscrete or MultiBinary"),
        (spaces.MultiDiscrete([10, 10, 10]), "at most 256 combinations.*got 1,000 in"),
        (spaces.MultiBinary(9), "at most 256 combinations.*got 512 in"),
        (spaces.Box(-1, 1, (0,)), "with entries"),
    ],
)
def test_actions_that_we_cannot_take_are_refused(space: spaces.Space, message: str) -> None:
    with pytest.raises(UserError, match=message):
        _ = Actions(space).spec


def test_one_observation_and_a_batch_are_told_apart() -> None:
    layout = Observations(spaces.Box(-1, 1, (2,)))
    assert (layout.batch_of(np.zeros(2)), layout.batch_of(np.zeros((0, 2)))) == (None, 0)
    assert layout.flatten(np.zeros((0, 2)), 0).shape == (0, 2)
    with pytest.raises(UserError, match=r"obs of shape \(2,\); got shape \(3,\)"):
        layout.batch_of(np.zeros(3))
    with pytest.raises(UserError, match=r"obs of shape \(2,\); got tuple"):
        layout.batch_of((np.zeros(2), {}))  # what reset returns


@pytest.mark.parametrize(
    ("space", "obs", "message"),
    [
        (spaces.Discrete(3), 1.7, r"obs inside Discrete\(3\); got 1.7"),
        (spaces.Discrete(3), np.nan, "got nan"),
        (spaces.MultiBinary(2), [0, 2], r"obs inside MultiBinary\(2\); got 2"),
        (spaces.MultiDiscrete([2, 3]), [1, 3], "inside MultiDiscrete.*got 3"),
        (spaces.Dict({"dial": spaces.Discrete(2)}), {"dial": 0.5}, r"obs\['dial'\] inside"),
        (spaces.Box(0, 255, (2,), np.uint8), [0.0, 300.0], "whole numbers from 0 to 255; got 300"),
    ],
)
def test_numbers_that_name_nothing_are_refused(space: spaces.Space, obs: object, message: str):
    with pytest.raises(UserError, match=message), np.errstate(invalid="ignore"):
        Observations(space).flatten_one(obs)


def test_pictures_stay_bytes() -> None:
    space = spaces.Dict({"eye": spaces.Box(0, 255, (2, 2, 3), np.uint8)})
    layout = Observations(space)
    assert layout.spec.dtype == "uint8"
    assert layout.flatten_one({"eye": np.full((2, 2, 3), 200, np.uint8)}).dtype == np.uint8
    mixed = Observations(spaces.Dict({**space.spaces, "speed": spaces.Box(-1, 1, (1,))}))
    assert mixed.spec.dtype == "float32"


def test_which_entries_hold_or_encode_an_integer() -> None:
    mixed = spaces.Tuple([spaces.Box(0, 1, (2,)), spaces.Box(0, 9, (1,), int), spaces.Discrete(2)])
    pair = range(3, 5)
    assert Observations(mixed).integers == {2: range(2, 3), 3: pair, 4: pair}
    dials = Observations(spaces.MultiDiscrete([2, 3]))
    assert [len(dials.integers[entry]) for entry in range(5)] == [2, 2, 3, 3, 3]


@pytest.mark.parametrize(
    "space", [spaces.MultiDiscrete([[2, 3]], start=[[1, -5]]), spaces.MultiBinary([2, 2])]
)
def test_every_combination_of_discrete_actions_is_a_choice(space: spaces.Space) -> None:
    actions = Actions(space)
    assert isinstance(actions.spec, Choice)
    out = actions.to_env(np.eye(actions.spec.size, dtype=np.float32))
    assert all(space.contains(action) for action in out)
    assert len({action.tobytes() for action in out}) == actions.spec.size
    assert actions.spec.size == {(1, 2): 6, (2, 2): 16}[space.shape]


def test_the_advice_on_infinite_bounds_works() -> None:
    class Free(gymnasium.Env):
        observation_space = spaces.Box(-1, 1, (2,))
        action_space = spaces.Box(-np.inf, np.inf, (3,))

    with pytest.raises(UserError) as refused:
        _ = Actions(Free().action_space).spec
    advice = str(refused.value).split("or wrap it: ")[1]
    env = eval(advice, {"gymnasium": gymnasium, "env": Free()})  # noqa: S307
    assert Actions(env.action_space).spec == Box(3)
