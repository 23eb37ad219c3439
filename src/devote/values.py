"""Settings from Python values or from a table in a file: every name known, every type right."""

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from devote.core.errors import UserError
from devote.experiments.changes import require_known
from devote.run import flat

S = TypeVar("S")


def with_values(settings: S, values: Mapping[str, Any]) -> S:
    """Nested settings with the named ones at other values; unknown names are refused."""
    require_known(values, flat(settings))
    for name, value in values.items():
        settings = _with(settings, name, value)
    return settings


def from_table(like: S, table: Any, where: str) -> S:
    """Settings of the type of `like` from a nested table that names every one of them."""
    known = {entry.name for entry in fields(like)}  # type: ignore[arg-type]
    if not isinstance(table, dict) or table.keys() != known:
        found = sorted(table) if isinstance(table, dict) else type(table).__name__
        fix = "use the version of devote that wrote it"
        raise UserError(f"the settings {sorted(known)} in {where}", found, fix)
    hints, values = get_type_hints(type(like)), {}
    for name, value in table.items():
        inner = getattr(like, name)
        nested = is_dataclass(inner)
        values[name] = from_table(inner, value, where) if nested else fit(hints[name], name, value)
    return replace(like, **values)  # type: ignore[type-var]


def count(name: str, value: Any) -> int:
    """A whole number above 0, also where it is written as 1e5."""
    number = value.item() if isinstance(value, np.generic) else value
    plain = isinstance(number, int | float) and not isinstance(number, bool)
    if not (plain and math.isfinite(number) and number == int(number) and number > 0):
        raise UserError(f"{name} to be a whole number above 0", repr(value), f"change {name}")
    return int(number)


def fit(kind: Any, name: str, value: Any) -> Any:
    """The value as a setting of this type, or why it is none; NumPy's numbers are numbers."""
    if isinstance(value, np.generic):
        value = value.item()
    origin, options = get_origin(kind), get_args(kind)
    if origin is Literal:
        if value in options:
            return value
        expected = f"one of {', '.join(map(repr, options))}"
    elif origin is tuple:
        if isinstance(value, list | tuple):
            return tuple(fit(options[0], name, entry) for entry in value)
        expected = "several values"
    elif origin in (Union, UnionType):
        if value is None and NoneType in options:
            return None
        return fit(next(option for option in options if option is not NoneType), name, value)
    elif kind is float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        expected = "a number"
    elif isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    else:
        expected = f"a value of type {kind.__name__}"
    raise UserError(f"{name} to be {expected}", repr(value), f"change {name}")


def _with(settings: Any, name: str, value: Any) -> Any:
    hints = get_type_hints(type(settings))
    for entry in fields(settings):
        inner = getattr(settings, entry.name)
        if is_dataclass(inner) and name in flat(inner):
            return replace(settings, **{entry.name: _with(inner, name, value)})
        if entry.name == name:
            return replace(settings, **{name: fit(hints[name], name, value)})
    raise AssertionError(f"{name} was said to be known")
