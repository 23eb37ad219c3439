"""Settings as nested frozen dataclasses: walked, changed, checked, compared and identified here.

A setting is known by the name of its field alone: no two leaves of a run share one. Its range is
part of its type, as in `learning_rate: Positive = 3e-4`.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from devote.core.errors import UserError, not_among

S = TypeVar("S")
DIGITS = 12  # of an identity


@dataclass(frozen=True)
class Range:
    """Which numbers a setting may be."""

    words: str
    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    """Whether `low` itself is excluded."""

    def holds(self, value: float) -> bool:
        """Whether the number is finite and within."""
        inside = self.low < value if self.above else self.low <= value
        return math.isfinite(value) and inside and value <= self.high


_ABOVE_0 = Range("above 0", 0, above=True)
_FROM_0 = Range("0 or more", 0)
Count = Annotated[int, _ABOVE_0]
Whole = Annotated[int, _FROM_0]
Positive = Annotated[float, _ABOVE_0]
NonNegative = Annotated[float, _FROM_0]
Seed = Annotated[int, Range("from 0 to 4,294,967,295", 0, 2**32 - 1)]
Share = Annotated[float, Range("from 0 to 1", 0, 1)]
Finite = Annotated[float, Range("a finite number")]


class Leaf(NamedTuple):
    """One setting among nested ones."""

    path: str
    """Dotted names from the root, such as agent.sac.discount."""
    entry: Field[Any]
    kind: Any
    """Its type, without the range."""
    range: Range | None
    value: Any

    @property
    def name(self) -> str:
        return self.entry.name


def leaves(settings: Any, prefix: str = "") -> Iterator[Leaf]:
    """Every setting of nested dataclasses, in order."""
    kinds = _kinds(type(settings))
    for entry in fields(settings):
        value, path = getattr(settings, entry.name), prefix + entry.name
        if is_dataclass(value):
            yield from leaves(value, f"{path}.")
        else:
            kind, limits = kinds[entry.name]
            yield Leaf(path, entry, kind, limits, value)


def _kinds(cls: type) -> dict[str, tuple[Any, Range | None]]:
    """Type and range of each field of a dataclass."""
    found = {}
    for name, hint in get_type_hints(cls, include_extras=True).items():
        limits = None
        if get_origin(hint) is Annotated:
            hint, *extras = get_args(hint)
            limits = next((extra for extra in extras if isinstance(extra, Range)), None)
        found[name] = (hint, limits)
    return found


def flat(settings: Any) -> dict[str, Any]:
    """Every setting under its own name."""
    return {leaf.name: leaf.value for leaf in leaves(settings)}


def check_ranges(settings: Any) -> None:
    """Refuse numbers outside their range."""
    for leaf in leaves(settings):
        if leaf.range is not None and leaf.value is not None and not leaf.range.holds(leaf.value):
            raise UserError(
                f"{leaf.name} {leaf.range.words}", leaf.value, f"change {flag(leaf.name)}"
            )


def flag(name: str) -> str:
    """A setting as it is typed on the command line."""
    return f"--{name.replace('_', '-')}"


# Changing settings by name.


def with_values(settings: S, values: Mapping[str, Any]) -> S:
    """Nested settings with the named ones at other values; unknown names are refused."""
    return _changed(settings, values, fit)


def with_texts(settings: S, texts: Mapping[str, str]) -> S:
    """Nested settings with the named ones changed to what is typed, such as `2` or `true`."""
    return _changed(settings, texts, parse)


def _changed(settings: S, values: Mapping[str, Any], read: Callable[[Any, str, Any], Any]) -> S:
    require_known(values, flat(settings))
    for name, value in values.items():
        settings = _with(settings, name, value, read)
    return settings


def _with(settings: Any, name: str, value: Any, read: Callable[[Any, str, Any], Any]) -> Any:
    for entry in fields(settings):
        inner = getattr(settings, entry.name)
        if entry.name == name:
            kind, _ = _kinds(type(settings))[name]
            return replace(settings, **{name: read(kind, name, value)})
        if is_dataclass(inner) and name in flat(inner):
            return replace(settings, **{entry.name: _with(inner, name, value, read)})
    raise AssertionError(f"{name} was checked before")


def require_known(names: Iterable[str], known: Iterable[str], kind: str = "setting") -> None:
    """Refuse a name that does not exist, with the nearest that does."""
    known = list(known)
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            fix = f"did you mean {close[0]}?" if close else f"choose among {', '.join(known)}"
            article = "an" if kind[0] in "aeiou" else "a"
            raise UserError(f"the name of {article} {kind}", repr(name), fix)


def parse_change(text: str) -> tuple[str, str]:
    """Name and value of `name=value`."""
    name, sign, value = text.partition("=")
    if not (name and sign and value):
        raise UserError("a change as name=value", repr(text), "for example --set length_scale=2")
    return name.strip().replace("-", "_"), value.strip()


def parse(kind: Any, name: str, text: str) -> Any:
    """A text as a value of a setting's type."""
    origin, options = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return parse(options[0], name, text)
    if origin is Literal:
        return _choice(name, text, options)
    if origin in (Union, UnionType):
        if NoneType in options and text.lower() == "none":
            return None
        return parse(next(option for option in options if option is not NoneType), name, text)
    if origin is tuple:
        return tuple(parse(options[0], name, part) for part in re.split("[,+]", text))
    if kind is bool:
        return _choice(name, text.lower(), ("true", "false")) == "true"
    if kind is str:
        return text
    if kind in (int, float):
        return _number(kind, name, text)
    raise UserError(f"a setting that one word can say, not {name}", text, "change it in Python")


def _number(kind: type, name: str, text: str) -> int | float:
    """A number; a whole one may be written as 1_000_000 or 1e6."""
    plain = text.replace("_", "")
    try:
        if kind is float:
            return float(plain)
        if re.fullmatch("[+-]?[0-9]+", plain):
            return int(plain)
        if float(plain) == int(float(plain)):
            return int(float(plain))
    except (ValueError, OverflowError):
        pass
    expected = f"a{'n integer' if kind is int else ' number'} for {name}"
    raise UserError(expected, repr(text), f"for example {name}=2")


def _choice(name: str, text: str, choices: tuple[str, ...]) -> str:
    if text not in choices:
        raise not_among(name, text, choices)
    return text


def fit(kind: Any, name: str, value: Any) -> Any:
    """The value as a setting of this type, or why it is none; NumPy's numbers are numbers."""
    value = _python(value)
    origin, options = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return fit(options[0], name, value)
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


def whole_number(name: str, value: Any) -> int:
    """A whole number above 0, also where it is written as 1e5."""
    number = _python(value)
    plain = isinstance(number, int | float) and not isinstance(number, bool)
    if not (plain and math.isfinite(number) and number == int(number) and number > 0):
        raise UserError(f"{name} to be a whole number above 0", repr(value), f"change {name}")
    return int(number)


def _python(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    import numpy as np  # the command line starts without it

    return value.item() if isinstance(value, np.generic) else value


# Settings and the tables that they are saved as.


def from_table(like: S, table: Any, where: str, complete: bool = True) -> S:
    """Settings of the type of `like` from a nested table. A `complete` table names them all; in
    another, one that is missing is newer than the table and so at its class's default."""
    known = {entry.name for entry in fields(like)}  # type: ignore[arg-type]
    if not isinstance(table, dict) or (complete and table.keys() != known):
        found = sorted(table) if isinstance(table, dict) else type(table).__name__
        fix = "use the version of devote that wrote it"
        raise UserError(f"the settings {sorted(known)} in {where}", found, fix)
    values, kinds = {}, _kinds(type(like))
    for entry in fields(like):  # type: ignore[arg-type]
        inner, name = getattr(like, entry.name), entry.name
        if is_dataclass(inner) and (name in table or not _has_default(entry)):
            values[name] = from_table(inner, table.get(name, {}), where, complete)
        elif name in table:
            values[name] = fit(kinds[name][0], name, table[name])
        elif _has_default(entry):
            values[name] = _default(entry)
        else:
            fix = "use the version of devote that wrote it"
            raise UserError(f"{name} in {where}", "nothing", fix)
    return replace(like, **values)  # type: ignore[type-var]


def _has_default(entry: Field[Any]) -> bool:
    return entry.default is not MISSING or entry.default_factory is not MISSING


def _default(entry: Field[Any]) -> Any:
    if entry.default_factory is not MISSING:
        return entry.default_factory()
    return None if entry.default is MISSING else entry.default


def identity(settings: Any, without: Collection[str] = ()) -> str:
    """Hash of every setting that is not at its class's default, by name, in no order.

    Defaults are left out so that a new setting, whose default is what was done before, does not
    make all earlier results strangers; `differences` notices a default that has changed.
    """
    chosen = _classes(settings) | {
        leaf.path: _plain(leaf.value) for leaf in leaves(settings) if not _at_default(leaf)
    }
    return digest({name: value for name, value in chosen.items() if name not in without})


def digest(table: Mapping[str, Any]) -> str:
    """Hash of a table of plain values, in no order."""
    text = json.dumps(table, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def differences(
    saved: Mapping[str, Any], settings: Any, without: Collection[str] = ()
) -> dict[str, tuple[Any, Any]]:
    """Settings with another value in a saved table: name to (saved, now).

    One that the table does not know must be at its default, which equal identities imply.
    """
    then = {path: _plain(value) for path, value in entries(saved)}
    now = {leaf.path: _plain(leaf.value) for leaf in leaves(settings) if leaf.path not in without}
    changed = {n: (then[n], now[n]) for n in now if n in then and then[n] != now[n]}
    gone = {n: (then[n], None) for n in then if n not in now and n not in without}
    return changed | gone


def defaults(settings: Any) -> frozenset[str]:
    """Names of the settings at their class's default, which tables from before them lack."""
    return frozenset(leaf.path for leaf in leaves(settings) if _at_default(leaf))


def entries(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a nested table, by its dotted name."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from entries(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def same(one: Any, other: Any) -> bool:
    """Whether two saved values are one setting: 2 is 2.0 and nan is nan, but True is not 1."""
    return bool(_plain(one) == _plain(other))


def _classes(settings: Any, prefix: str = "") -> dict[str, str]:
    """Class names of nested settings by their path."""
    found: dict[str, str] = {}
    for entry in fields(settings):
        value, path = getattr(settings, entry.name), prefix + entry.name
        if is_dataclass(value):
            found |= {path: type(value).__name__} | _classes(value, f"{path}.")
    return found


def _at_default(leaf: Leaf) -> bool:
    return bool(_plain(leaf.value) == _plain(_default(leaf.entry)))


def _plain(value: Any) -> Any:
    """As JSON gives it back, and equal numbers alike."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return repr(float(value))
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)
