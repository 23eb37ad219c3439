"""Gymnasium spaces: how observations and actions are converted, and tables of them for files."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces

from devote.core.errors import UserError
from devote.core.types import Box, Choice, EnvSpec, Index, Vector

WIDEST = 1e6
"""Bounds farther apart than this say nothing about the range of an entry."""

MOST_ENTRIES = 4_000_000
"""Entries of an observation, or values of a `Discrete` one."""
MOST_ACTIONS = 100_000
MOST_CHOICES = 256
"""Combinations of a `MultiDiscrete` or `MultiBinary` action."""
DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)
DAMAGED = (AssertionError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
"""What Python and Gymnasium raise where a table describes no space."""

Leaf: TypeAlias = spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary
DISCRETE = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
LEAVES = (spaces.Box, *DISCRETE)
Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True)
class Observations:
    """A space of observations, flattened: one integer for a `Discrete`, otherwise one vector."""

    space: spaces.Space
    own_units: bool = True

    @cached_property
    def leaves(self) -> tuple[tuple[Path, Leaf], ...]:
        """The leaves of the space, in the order in which a vector holds them."""
        return tuple(_leaves(self.space, ()))

    @cached_property
    def spec(self) -> Vector | Index:
        """The space as agents see it."""
        if (entries := sum(map(_size, (leaf for _, leaf in self.leaves)))) > MOST_ENTRIES:
            fix = "observe less, for instance smaller images"
            raise UserError(f"observations of up to {MOST_ENTRIES:,} entries", entries, fix)
        if isinstance(self.space, spaces.Discrete):
            return Index(int(self.space.n))
        bounds = [_bounds(leaf) for _, leaf in self.leaves]
        low, high = (np.concatenate([pair[side] for pair in bounds]) for side in (0, 1))
        if not low.size:
            raise UserError("an observation with entries", self.space, "observe something")
        bounds_of = tuple(low.tolist()), tuple(high.tolist())
        return Vector(
            *bounds_of,
            self.own_units,
            self.dtype,
            promised=True,
            names=self.names,
            integers=all(leaf.dtype.kind in "biu" for _, leaf in self.leaves),
        )

    @cached_property
    def dtype(self) -> str:
        """How vectors are stored: images, where every part is of bytes, stay bytes."""
        return "uint8" if all(leaf.dtype == np.uint8 for _, leaf in self.leaves) else "float32"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """A name for each entry of the vector."""
        return tuple(
            f"{path_name(path)}[{entry}]"
            for path, leaf in self.leaves
            for entry in range(_size(leaf))
        )

    @cached_property
    def integers(self) -> dict[int, range]:
        """The entries that hold an integer, each with all entries that one-hot encode the same."""
        found: dict[int, range] = {}
        at = 0
        for _, leaf in self.leaves:
            single = isinstance(leaf, spaces.Box | spaces.MultiBinary)
            for width in (1,) * _size(leaf) if single else _sizes(leaf):
                if leaf.dtype.kind in "biu":
                    found |= dict.fromkeys(range(at, at + width), range(at, at + width))
                at += width
        return found

    def flatten(self, obs: Any, count: int) -> np.ndarray:
        """A copy of `count` observations: vectors, or int32 indices."""
        if isinstance(self.space, spaces.Discrete):
            digits = _digits(_part(obs, (), self.space, count), (), self.space)
            return digits.reshape(count).astype(np.int32)
        parts = [self._flat(*each, _part(obs, *each, count)) for each in self.leaves]
        return np.concatenate(parts, axis=1, dtype=self.dtype, casting="unsafe")

    def _flat(self, path: Path, leaf: Leaf, array: np.ndarray) -> np.ndarray:
        """The entries of a leaf as a vector; categorical integers become one-hot."""
        flat = array.reshape(len(array), math.prod(array.shape[1:]))
        if isinstance(leaf, spaces.Box):
            if self.dtype == "uint8" and array.dtype != np.uint8:
                _require_bytes(flat, path)
            return flat
        digits = _digits(array, path, leaf)
        if isinstance(leaf, spaces.MultiBinary):
            return digits
        sizes = _sizes(leaf)
        hots = [np.eye(n, dtype=np.float32)[d] for n, d in zip(sizes, digits.T, strict=True)]
        return np.concatenate(hots, axis=1)

    def batch_of(self, obs: Any) -> int | None:
        """How many observations these are; None for a single one without a batch axis."""
        path, leaf = self.leaves[0]
        array, own = _array(at(obs, path)), leaf.shape or ()
        shape = array.shape
        if shape == own:
            return None
        if shape[1:] == own and len(shape) == len(own) + 1:
            return shape[0]
        fix = "give one observation of that shape, or a batch of them along a first axis"
        numbers = array.dtype.kind in "biuf"
        got = f"shape {shape}" if numbers else type(at(obs, path)).__name__
        raise UserError(f"{path_name(path)} of shape {own}", got, fix)

    def flatten_one(self, obs: Any) -> np.ndarray:
        """One observation, without a batch axis."""
        return self.flatten(_batched(obs), 1)[0]


@dataclass(frozen=True)
class Actions:
    """A space of actions: a `Box` is scaled from [-1, 1], anything discrete is a one-hot choice.

    Every combination of a `MultiDiscrete` or `MultiBinary` is a choice, if there are few.
    """

    space: spaces.Space

    @cached_property
    def spec(self) -> Box | Choice:
        """The space as agents see it."""
        if isinstance(self.space, DISCRETE):
            most = MOST_ACTIONS if isinstance(self.space, spaces.Discrete) else MOST_CHOICES
            if (number := math.prod(_sizes(self.space))) > most:
                fix = "wrap the environment to take fewer, or a Box that it rounds itself"
                expected = f"at most {most:,} combinations of actions"
                raise UserError(expected, f"{number:,} in {self.space}", fix)
            return Choice(number)
        if not isinstance(self.space, spaces.Box):
            known = "Box, Discrete, MultiDiscrete or MultiBinary"
            fix = "wrap the environment so that it takes one of them"
            raise UserError(f"a {known} action space", self.space, fix)
        if not np.issubdtype(self.space.dtype, np.floating):
            fix = "use a Discrete, or a Box of float32"
            raise UserError("a Box of floats as action space", self.space.dtype, fix)
        low, high = self.space.low.astype(np.float64), self.space.high.astype(np.float64)
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            fix = (
                "give the Box the range in which actions make a difference, or wrap it: "
                "gymnasium.wrappers.TransformAction(env, lambda action: action, "
                "gymnasium.spaces.Box(-1, 1, env.action_space.shape))"
            )
            raise UserError("finite bounds of the action space", self.space, fix)
        if (high - low > WIDEST).any():
            expected = f"bounds of the action space at most {WIDEST:g} apart"
            fix = "give the Box the range in which actions make a difference"
            raise UserError(expected, self.space, fix)
        if not low.size:
            raise UserError("an action with entries", self.space, "act on something")
        return Box(low.size)

    def to_env(self, action: np.ndarray) -> np.ndarray:
        """A batch of agents' actions in the environment's own format."""
        shape = (len(action), *(self.space.shape or ()))
        if isinstance(self.space, DISCRETE):
            digits = np.unravel_index(np.argmax(action, axis=-1), _sizes(self.space))
            chosen = np.stack(digits, axis=-1).reshape(shape) + _start(self.space)
            return chosen.astype(self.space.dtype)
        assert isinstance(self.space, spaces.Box)
        low, high = self.space.low.astype(np.float64), self.space.high.astype(np.float64)
        share = (action.astype(np.float64).reshape(shape) + 1) / 2
        return np.clip(low + share * (high - low), low, high).astype(self.space.dtype)


def path_name(path: Path) -> str:
    """A part of an observation as a user would write it."""
    return "obs" + "".join(f"[{key!r}]" for key in path)


def _leaves(space: spaces.Space, path: Path) -> Iterator[tuple[Path, Leaf]]:
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from _leaves(part, (*path, key))
    elif isinstance(space, spaces.Tuple):
        for position, part in enumerate(space.spaces):
            yield from _leaves(part, (*path, position))
    elif isinstance(space, LEAVES):
        yield path, space
    else:
        known = "Box, Discrete, MultiDiscrete, MultiBinary, or a Dict or Tuple of them"
        fix = "wrap the environment in gymnasium.wrappers.TransformObservation"
        raise UserError(f"{path_name(path)} to be {known}", space, fix)


def _bounds(leaf: Leaf) -> tuple[np.ndarray, np.ndarray]:
    """Low and high of the entries of a leaf; infinite where they say nothing."""
    if not isinstance(leaf, spaces.Box):
        return np.zeros(_size(leaf)), np.ones(_size(leaf))
    low, high = (bound.reshape(-1).astype(np.float64) for bound in (leaf.low, leaf.high))
    with np.errstate(invalid="ignore", over="ignore"):
        width = high - low
    known = width <= WIDEST
    margin = np.where(known & (width == 0), 1.0, 0.0)  # normalising divides by the width
    return np.where(known, low - margin, -np.inf), np.where(known, high + margin, np.inf)


def _sizes(space: spaces.Space) -> tuple[int, ...]:
    """How many values each integer of a discrete space takes."""
    if isinstance(space, spaces.Discrete):
        return (int(space.n),)
    if isinstance(space, spaces.MultiDiscrete):
        return tuple(space.nvec.reshape(-1).tolist())
    return (2,) * math.prod(space.shape or ())


def _start(space: spaces.Space) -> Any:
    """The lowest values of the integers of a discrete space."""
    return 0 if isinstance(space, spaces.MultiBinary) else space.start  # type: ignore[attr-defined]


def _size(leaf: Leaf) -> int:
    """Entries of the vector that a leaf becomes."""
    if isinstance(leaf, spaces.Box | spaces.MultiBinary):
        return math.prod(leaf.shape)
    return sum(_sizes(leaf))


def at(obs: Any, path: Path) -> Any:
    """The part of an observation at a path."""
    for depth, key in enumerate(path):
        try:
            obs = obs[key]
        except (KeyError, IndexError, TypeError) as error:
            got = f"{type(obs).__name__} without it"
            fix = "give every key of observation_space"
            if isinstance(obs, tuple) and depth == 0:
                fix = "give the observation alone: reset returns (obs, info)"
            raise UserError(f"{path_name(path[: depth + 1])} in observations", got, fix) from error
    return obs


def _array(value: Any) -> np.ndarray:
    try:
        return np.asarray(value)
    except ValueError:  # ragged lists
        return np.asarray(None)


def _part(obs: Any, path: Path, leaf: Leaf, count: int) -> np.ndarray:
    """The batch of one leaf, of the shape that the space declares."""
    array, shape = _array(at(obs, path)), leaf.shape or ()
    if array.dtype.kind not in "biuf" or array.shape != (count, *shape):
        raise UserError(
            f"{path_name(path)} to be numbers of shape {shape}",
            f"{array.dtype} of shape {array.shape[1:] if array.ndim else ()}",
            "return np.asarray(obs, dtype=np.float32) of the shape that observation_space has",
        )
    return array


def _digits(array: np.ndarray, path: Path, space: spaces.Space) -> np.ndarray:
    """A row of integers counted from 0 for each observation, all inside their space."""
    counted = array - np.asarray(_start(space))
    digits = counted.reshape(len(array), math.prod(array.shape[1:])).astype(np.int64)
    inside = (digits >= 0) & (digits < _sizes(space)) & (digits == counted.reshape(digits.shape))
    if not inside.all():
        wrong = array.reshape(digits.shape)[~inside][0]
        fix = "widen the space, or return values inside it"
        raise UserError(f"{path_name(path)} inside {space}", wrong, fix)
    return digits


def _require_bytes(array: np.ndarray, path: Path) -> None:
    """Refuse numbers that a byte cannot hold."""
    wrong = ~((array >= 0) & (array <= 255) & (array == np.floor(array)))
    if wrong.any():
        fix = "return obs.astype(np.uint8), or use a Box of float32"
        raise UserError(f"{path_name(path)} in whole numbers from 0 to 255", array[wrong][0], fix)


def _batched(obs: Any) -> Any:
    """One observation with a batch axis on every leaf."""
    if isinstance(obs, dict):
        return {key: _batched(value) for key, value in obs.items()}
    if isinstance(obs, tuple):
        return tuple(_batched(value) for value in obs)
    return [obs]


def spaces_of(spec: EnvSpec) -> tuple[spaces.Space, spaces.Space]:
    """The spaces of a task of ours: observations, actions."""
    observed, acted = spec.observation, spec.action
    observation: spaces.Space
    if isinstance(observed, Index):
        observation = spaces.Discrete(observed.size)
    else:  # in float64, to keep the exact bounds that agents normalise by
        dtype: Any = np.uint8 if observed.dtype == "uint8" else np.float64
        low, high = np.asarray(observed.low, dtype), np.asarray(observed.high, dtype)
        observation = spaces.Box(low, high, dtype=dtype)
    if isinstance(acted, Box):
        return observation, spaces.Box(-1.0, 1.0, (acted.size,))
    return observation, spaces.Discrete(acted.size)


def space_to_table(space: spaces.Space) -> dict[str, Any]:
    """A space as a JSON table; infinite bounds are None."""
    match space:
        case spaces.Dict():
            # pairs keep the order and the type of the keys
            parts = [[_key(key), space_to_table(part)] for key, part in space.items()]
            return {"kind": "Dict", "parts": parts}
        case spaces.Tuple():
            return {"kind": "Tuple", "parts": [space_to_table(part) for part in space.spaces]}
        case spaces.Discrete():
            return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
        case spaces.MultiDiscrete():
            start = np.asarray(space.start).tolist()
            return {"kind": "MultiDiscrete", "nvec": space.nvec.tolist(), "start": start}
        case spaces.MultiBinary():
            return {"kind": "MultiBinary", "shape": list(space.shape)}
        case spaces.Box():
            bounds = {"low": _finite(space.low), "high": _finite(space.high)}
            shape = {"shape": list(space.shape), "dtype": str(space.dtype)}
            return {"kind": "Box"} | bounds | shape
    raise UserError("a space that can be saved", space, "wrap the environment")


def space_from_table(table: Any, where: str) -> spaces.Space:
    """The space of a table, which must be one that `space_to_table` wrote."""
    try:
        return _read(table)
    except DAMAGED as error:
        expected = f"the description of a space in {where}"
        raise UserError(expected, repr(error), "save the model again") from error


def _read(table: Any) -> spaces.Space:
    match table["kind"]:
        case "Dict":
            pairs: Any = [(_key(key), _read(part)) for key, part in table["parts"]]
            return spaces.Dict(pairs)
        case "Tuple":
            return spaces.Tuple([_read(part) for part in table["parts"]])
        case "Discrete":
            return spaces.Discrete(int(table["n"]), start=int(table["start"]))
        case "MultiDiscrete":
            return spaces.MultiDiscrete(np.array(table["nvec"]), start=np.array(table["start"]))
        case "MultiBinary":
            return spaces.MultiBinary([int(size) for size in table["shape"]])
        case "Box" if table["dtype"] in DTYPES:
            dtype, shape = np.dtype(table["dtype"]), [int(size) for size in table["shape"]]
            low, high = (
                np.array([end if x is None else x for x in table[side]], dtype).reshape(shape)
                for side, end in (("low", -np.inf), ("high", np.inf))
            )
            return spaces.Box(low, high, dtype=dtype.type)
    raise ValueError(f"unknown kind or dtype in {table!s:.80}")


def _key(key: object) -> str | int:
    if not isinstance(key, str | int):
        raise UserError("keys of a Dict that are text or integers", repr(key), "rename it")
    return key


def _finite(bound: np.ndarray) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in bound.reshape(-1).tolist()]
