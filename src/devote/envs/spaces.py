"""Gymnasium's spaces in our terms: what an observation and an action become, and back."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces

from devote.core.errors import UserError
from devote.core.types import Box, Choice, Index, Vector

WIDEST = 1e6
"""Bounds farther apart than this say nothing about where an entry moves."""

Leaf: TypeAlias = spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary
LEAVES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True)
class Observations:
    """A space of observations: one integer for a `Discrete`, otherwise one flat vector."""

    space: spaces.Space
    own_units: bool = True

    @cached_property
    def leaves(self) -> tuple[tuple[Path, Leaf], ...]:
        """The parts of the space, in the order in which a vector holds them."""
        return tuple(_leaves(self.space, ()))

    @cached_property
    def spec(self) -> Vector | Index:
        """What agents are told."""
        if isinstance(self.space, spaces.Discrete):
            return Index(int(self.space.n))
        bounds = [_bounds(leaf) for _, leaf in self.leaves]
        low, high = (np.concatenate([pair[side] for pair in bounds]) for side in (0, 1))
        if not low.size:
            raise UserError("an observation with entries", self.space, "observe something")
        return Vector(tuple(low.tolist()), tuple(high.tolist()), self.own_units)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each entry of the vector is called."""
        return tuple(
            f"{name_of(path)}[{entry}]"
            for path, leaf in self.leaves
            for entry in range(_bounds(leaf)[0].size)
        )

    def flatten(self, obs: Any, count: int) -> np.ndarray:
        """A batch of `count` observations in our own memory, float32 vectors or int32 indices."""
        if isinstance(self.space, spaces.Discrete):
            return _indices(self.space, _part(obs, (), self.space, count)).astype(np.int32)
        parts = [_flat(leaf, _part(obs, path, leaf, count)) for path, leaf in self.leaves]
        return np.concatenate(parts, axis=1, dtype=np.float32, casting="unsafe")

    def batch_of(self, obs: Any) -> int | None:
        """How many observations these are; None for a single one without a batch axis."""
        path, leaf = self.leaves[0]
        array, own = _array(_at(obs, path)), leaf.shape or ()
        shape = array.shape
        if shape == own:
            return None
        if shape[1:] == own and len(shape) == len(own) + 1:
            return shape[0]
        fix = "give one observation of that shape, or a batch of them along a first axis"
        numbers = array.dtype.kind in "biuf"
        got = f"shape {shape}" if numbers else type(_at(obs, path)).__name__
        raise UserError(f"{name_of(path)} of shape {own}", got, fix)

    def flatten_one(self, obs: Any) -> np.ndarray:
        """One observation, without a batch axis."""
        return self.flatten(_batched(obs), 1)[0]


@dataclass(frozen=True)
class Actions:
    """A space of actions: [-1, 1] stretched to the bounds of a `Box`, one-hot for a `Discrete`."""

    space: spaces.Space

    @cached_property
    def spec(self) -> Box | Choice:
        """What agents are told."""
        if isinstance(self.space, spaces.Discrete):
            return Choice(int(self.space.n))
        if not isinstance(self.space, spaces.Box):
            fix = "wrap the environment so that it takes one of the two"
            raise UserError("a Box or Discrete action space", self.space, fix)
        if not np.issubdtype(self.space.dtype, np.floating):
            fix = "use a Discrete, or a Box of float32"
            raise UserError("a Box of floats as action space", self.space.dtype, fix)
        if not (np.isfinite(self.space.low).all() and np.isfinite(self.space.high).all()):
            fix = "give the Box finite bounds, or wrap it in gymnasium.wrappers.RescaleAction"
            raise UserError("finite bounds of the action space", self.space, fix)
        if (self.space.high.astype(np.float64) - self.space.low > WIDEST).any():
            expected = f"bounds of the action space at most {WIDEST:g} apart"
            fix = "give the Box the range in which actions make a difference"
            raise UserError(expected, self.space, fix)
        if not self.space.low.size:
            raise UserError("an action with entries", self.space, "act on something")
        return Box(int(self.space.low.size))

    def to_env(self, action: np.ndarray) -> np.ndarray:
        """A batch of our actions in the environment's own format."""
        if isinstance(self.space, spaces.Discrete):
            return np.argmax(action, axis=-1).astype(self.space.dtype) + self.space.start
        assert isinstance(self.space, spaces.Box)
        shape = (len(action), *self.space.shape)
        low, high = self.space.low.astype(np.float64), self.space.high.astype(np.float64)
        share = (action.astype(np.float64).reshape(shape) + 1) / 2
        return np.clip(low + share * (high - low), low, high).astype(self.space.dtype)


def name_of(path: Path) -> str:
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
        raise UserError(f"{name_of(path)} to be {known}", space, fix)


def _bounds(leaf: Leaf) -> tuple[np.ndarray, np.ndarray]:
    """Low and high of the entries of a leaf; infinite where they tell nothing."""
    if not isinstance(leaf, spaces.Box):
        size = _one_hot_size(leaf)
        return np.zeros(size), np.ones(size)
    low, high = (bound.reshape(-1).astype(np.float64) for bound in (leaf.low, leaf.high))
    known = np.isfinite(low) & np.isfinite(high)
    width = np.where(known, high, 0.0) - np.where(known, low, 0.0)
    known &= width <= WIDEST
    margin = np.where(known & (width == 0), 1.0, 0.0)  # a constant needs a width to divide by
    return np.where(known, low - margin, -np.inf), np.where(known, high + margin, np.inf)


def _one_hot_size(leaf: Leaf) -> int:
    if isinstance(leaf, spaces.Discrete):
        return int(leaf.n)
    if isinstance(leaf, spaces.MultiDiscrete):
        return int(leaf.nvec.sum())
    return int(np.prod(leaf.shape))


def _at(obs: Any, path: Path) -> Any:
    """The part of an observation at a path."""
    for depth, key in enumerate(path):
        try:
            obs = obs[key]
        except (KeyError, IndexError, TypeError) as error:
            got = f"{type(obs).__name__} without it"
            fix = "return every key of observation_space, or take it out of the space"
            raise UserError(f"{name_of(path[: depth + 1])} in observations", got, fix) from error
    return obs


def _array(value: Any) -> np.ndarray:
    try:
        return np.asarray(value)
    except ValueError:  # ragged lists
        return np.asarray(None)


def _part(obs: Any, path: Path, leaf: Leaf, count: int) -> np.ndarray:
    """The batch of one leaf, with the shape and kind that the space promised."""
    array, shape = _array(_at(obs, path)), leaf.shape or ()
    if array.dtype.kind not in "biuf" or array.shape != (count, *shape):
        raise UserError(
            f"{name_of(path)} to be numbers of shape {shape}",
            f"{array.dtype} of shape {array.shape[1:] if array.ndim else ()}",
            "return np.asarray(obs, dtype=np.float32) of the shape that observation_space has",
        )
    return array


def _flat(leaf: Leaf, array: np.ndarray) -> np.ndarray:
    """Entries of a leaf side by side; integers that only name something become one-hot."""
    rows = len(array)
    if isinstance(leaf, spaces.Discrete):
        return np.eye(int(leaf.n), dtype=np.float32)[_indices(leaf, array)]
    if isinstance(leaf, spaces.MultiDiscrete):
        digits = (array.astype(np.int64) - leaf.start).reshape(rows, -1)
        sizes = leaf.nvec.reshape(-1)
        _require_named(digits, sizes, leaf)
        hots = [np.eye(int(n), dtype=np.float32)[d] for n, d in zip(sizes, digits.T, strict=True)]
        return np.concatenate(hots, axis=1)
    return array.reshape(rows, math.prod(array.shape[1:]))


def _indices(space: spaces.Discrete, array: np.ndarray) -> np.ndarray:
    index = array.astype(np.int64) - int(space.start)
    _require_named(index, np.asarray(space.n), space)
    return index


def _require_named(index: np.ndarray, size: np.ndarray, space: spaces.Space) -> None:
    """Refuse an integer outside its space, which would become somebody else's row."""
    if not ((index >= 0) & (index < size)).all():
        raise UserError(f"an observation inside {space}", index.tolist(), "widen the space")


def _batched(obs: Any) -> Any:
    """One observation with a batch axis on every leaf."""
    if isinstance(obs, dict):
        return {key: _batched(value) for key, value in obs.items()}
    if isinstance(obs, tuple):
        return tuple(_batched(value) for value in obs)
    return [obs]
