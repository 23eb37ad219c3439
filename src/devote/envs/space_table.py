"""Spaces as tables for a file, and back; a table can name no code."""

from typing import Any

import numpy as np
from gymnasium import spaces

from devote.core.errors import UserError
from devote.core.types import Box, EnvSpec, Index

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)


def spaces_of(spec: EnvSpec) -> tuple[spaces.Space, spaces.Space]:
    """What a task of ours looks like to Gymnasium: observations, actions."""
    seen, done = spec.observation, spec.action
    observation: spaces.Space = (
        spaces.Discrete(seen.size)
        if isinstance(seen, Index)
        # as exact as the task's own bounds, by which agents scale what they see
        else spaces.Box(np.asarray(seen.low), np.asarray(seen.high), dtype=np.float64)
    )
    action: spaces.Space = (
        spaces.Box(-1.0, 1.0, (done.size,)) if isinstance(done, Box) else spaces.Discrete(done.size)
    )
    return observation, action


def to_table(space: spaces.Space) -> dict[str, Any]:
    """A space in words and numbers; bounds that are infinite are None."""
    match space:
        case spaces.Dict():
            # pairs, for the order of a table and the type of its keys would be lost
            return {"kind": "Dict", "parts": [[_key(k), to_table(v)] for k, v in space.items()]}
        case spaces.Tuple():
            return {"kind": "Tuple", "parts": [to_table(part) for part in space.spaces]}
        case spaces.Discrete():
            return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
        case spaces.MultiDiscrete():
            start = np.asarray(space.start).tolist()
            return {"kind": "MultiDiscrete", "nvec": space.nvec.tolist(), "start": start}
        case spaces.MultiBinary():
            return {"kind": "MultiBinary", "shape": list(space.shape)}
        case spaces.Box():
            low, high = (_finite(bound) for bound in (space.low, space.high))
            shape, dtype = list(space.shape), str(space.dtype)
            return {"kind": "Box", "low": low, "high": high, "shape": shape, "dtype": dtype}
    raise UserError("a space that can be saved", space, "wrap the environment")


def from_table(table: Any, where: str) -> spaces.Space:
    """The space of a table; anything that `to_table` would not have written is refused."""
    try:
        return _read(table)
    except (KeyError, TypeError, ValueError, AssertionError) as error:
        fix = "save the model again"
        raise UserError(f"the description of a space in {where}", repr(error), fix) from error


def _read(table: Any) -> spaces.Space:
    match table["kind"]:
        case "Dict":
            parts: Any = [(_key(key), _read(part)) for key, part in table["parts"]]
            return spaces.Dict(parts)
        case "Tuple":
            return spaces.Tuple([_read(part) for part in table["parts"]])
        case "Discrete":
            return spaces.Discrete(int(table["n"]), start=int(table["start"]))
        case "MultiDiscrete":
            return spaces.MultiDiscrete(np.array(table["nvec"]), start=np.array(table["start"]))
        case "MultiBinary":
            return spaces.MultiBinary([int(size) for size in table["shape"]])
        case "Box" if table["dtype"] in DTYPES:
            dtype, shape = np.dtype(table["dtype"]), tuple(int(size) for size in table["shape"])
            low = _bound(table["low"], -np.inf, dtype, shape)
            return spaces.Box(low, _bound(table["high"], np.inf, dtype, shape), dtype=dtype.type)
    raise ValueError(f"unknown kind or dtype in {table!s:.80}")


def _key(key: object) -> str | int:
    if not isinstance(key, str | int):
        raise UserError("keys of a Dict that are text or integers", repr(key), "rename it")
    return key


def _finite(bound: np.ndarray) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in bound.reshape(-1).tolist()]


def _bound(
    values: list[float | None], missing: float, dtype: np.dtype, shape: tuple[int, ...]
) -> np.ndarray:
    filled = [missing if value is None else value for value in values]
    return np.array(filled, dtype).reshape(shape)
