"""Settings are nested frozen dataclasses; this module lists, changes, checks and hashes them.

A setting is named by its field alone, as no two leaves of a run share a name. Its range is part of
its type, as in `learning_rate: Positive = 3e-4`.
"""

import hashlib
import json
import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from devote.core.durable import read_table
from devote.core.errors import UserError, not_among

S = TypeVar("S")
DIGITS = 12  # of an identity
LONGEST_EPISODE = 10_000_000
"""Steps; an evaluation makes a random key for each."""


@dataclass(frozen=True)
class Range:
    """The numbers that a setting may be."""

    words: str
    low: float = -math.inf
    high: float = math.inf

    def holds(self, value: float) -> bool:
        """Whether the number is finite and within the range."""
        return self.low <= value <= self.high and abs(value) < math.inf


def _from(low: int, high: int) -> Range:
    return Range(f"from {low} to {high:,}", low, high)


Count = Annotated[int, _from(1, 2**31 - 1)]  # counters have 32 bits
Whole = Annotated[int, _from(0, 2**31 - 1)]
Many = Annotated[int, _from(1, 1_000_000)]
Few = Annotated[int, _from(1, 1000)]
EpisodeLength = Annotated[int, _from(1, LONGEST_EPISODE)]
EpisodeLimit = Annotated[int, _from(0, LONGEST_EPISODE)]
Seed = Annotated[int, _from(0, 2**32 - 1)]
Positive = Annotated[float, Range("above 0", math.ulp(0.0))]
NonNegative = Annotated[float, Range("0 or more", 0)]
Seconds = Annotated[float, _from(0, 1_000_000)]
Timeout = Annotated[float, Range("above 0 and up to 1,000,000", math.ulp(0.0), 1e6)]
Share = Annotated[float, _from(0, 1)]
Finite = Annotated[float, Range("a finite number")]


class Leaf(NamedTuple):
    """One setting of nested dataclasses."""

    path: str
    """Dotted name from the root, such as agent.sac.discount."""
    entry: Field[Any]
    kind: Any
    """Type without the range."""
    range: Range | None
    value: Any

    @property
    def name(self) -> str:
        return self.entry.name


def leaves(settings: Any, prefix: str = "") -> Iterator[Leaf]:
    """All settings, in order."""
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
        limits, one = None, get_args(hint)[0] if get_origin(hint) is tuple else hint
        if get_origin(one) is Annotated:
            bare, *extras = get_args(one)
            hint = bare if one is hint else hint
            limits = next((extra for extra in extras if isinstance(extra, Range)), None)
        found[name] = (hint, limits)
    return found


def flat(settings: Any) -> dict[str, Any]:
    """All settings by name."""
    return {leaf.name: leaf.value for leaf in leaves(settings)}


def check_ranges(settings: Any) -> None:
    """Refuse numbers outside their range."""
    for leaf in leaves(settings):
        values = leaf.value if isinstance(leaf.value, tuple) else (leaf.value,)
        limits = leaf.range
        if limits is not None and not all(value is None or limits.holds(value) for value in values):
            expected = f"{leaf.name} {limits.words}"
            raise UserError(expected, leaf.value, f"change {flag(leaf.name)}")


def flag(name: str) -> str:
    """The name of a setting on the command line."""
    return f"--{name.replace('_', '-')}"


# Changing settings by name.


def with_values(settings: S, values: Mapping[str, Any]) -> S:
    """Settings with other values by name; unknown names are refused."""
    return _changed(settings, values, fit)


def with_texts(settings: S, texts: Mapping[str, str]) -> S:
    """Settings with values parsed from strings by name, such as `2` or `true`."""
    return _changed(settings, texts, parse)


def _changed(settings: S, values: Mapping[str, Any], read: Callable[[Any, str, Any], Any]) -> S:
    require_known(values, flat(settings))

    def changed(part: Any) -> Any:
        kinds, new = _kinds(type(part)), {}
        for name, inner in ((entry.name, getattr(part, entry.name)) for entry in fields(part)):
            if name in values:
                new[name] = read(kinds[name][0], name, values[name])
            elif is_dataclass(inner):
                new[name] = changed(inner)
        return replace(part, **new)

    return cast(S, changed(settings))


def require_known(names: Iterable[str], known: Iterable[str], kind: str = "setting") -> None:
    """Refuse an unknown name, with the closest known one."""
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
    """Parse a string as a value of a setting's type."""
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
    """A number; integers may be written as 1_000_000 or 1e6."""
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


def fit(kind: Any, name: str, value: Any, fix: str = "") -> Any:
    """Convert a value to a setting's type, or refuse it; NumPy scalars count as numbers."""
    value = _python(value)
    origin, options = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return fit(options[0], name, value, fix)
    if origin is Literal:
        if value in options:
            return value
        expected = f"one of {', '.join(map(repr, options))}"
    elif origin is tuple:
        if isinstance(value, list | tuple):
            return tuple(fit(options[0], name, entry, fix) for entry in value)
        expected = "several values"
    elif origin in (Union, UnionType):
        if value is None and NoneType in options:
            return None
        return fit(next(option for option in options if option is not NoneType), name, value, fix)
    elif kind is float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            with suppress(OverflowError):  # an integer of hundreds of digits
                return float(value)
        expected = "a number"
    elif isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    else:
        expected = f"a value of type {kind.__name__}"
    raise UserError(f"{name} to be {expected}", f"{value!r:.200}", fix or f"change {name}")


def whole_number(name: str, value: Any) -> int:
    """A positive integer; 1e5 is one, too."""
    number = _python(value)
    plain = isinstance(number, int | float) and not isinstance(number, bool)
    if not (plain and 0 < number < 2**31 and number == int(number)):
        expected = f"{name} to be a whole number above 0 and below 2,147,483,648"
        raise UserError(expected, f"{value!r:.40}", f"change {name}")
    return int(number)


def _python(value: Any) -> Any:
    """NumPy scalars as Python numbers."""
    import numpy as np  # late, so that the command line starts quickly

    return value.item() if isinstance(value, np.generic) else value


# Settings and the JSON objects that they are saved as.


def from_table(like: S, table: Any, where: str, strict: bool = True) -> S:
    """Settings of the type of `like` from a nested table.

    A setting that the table lacks is newer than the table and gets its class's default. With
    `strict`, unknown names are refused.
    """
    known = {entry.name for entry in fields(like)}  # type: ignore[arg-type]
    if not isinstance(table, dict) or (strict and not table.keys() <= known):
        found = sorted(table) if isinstance(table, dict) else type(table).__name__
        fix = "use the version of devote that wrote it"
        raise UserError(f"the settings {sorted(known)} in {where}", found, fix)
    values, kinds = {}, _kinds(type(like))
    for entry in fields(like):  # type: ignore[arg-type]
        inner, name = getattr(like, entry.name), entry.name
        if is_dataclass(inner) and (name in table or not _has_default(entry)):
            values[name] = from_table(inner, table.get(name, {}), where, strict)
        elif name in table:
            values[name] = fit(kinds[name][0], name, table[name])
        elif _has_default(entry):
            values[name] = _default(entry)
        else:
            fix = "use the version of devote that wrote it"
            raise UserError(f"{name} in {where}", "nothing", fix)
    return replace(like, **values)  # type: ignore[type-var]


def read_fields(path: Path, kinds: Mapping[str, Any], fix: str) -> dict[str, Any]:
    """Read a JSON object whose named fields have these types."""
    table = read_table(path, fix)
    for name, kind in kinds.items():
        fit(kind, f"{name} in {path}", table.get(name), fix)
    return table


def _has_default(entry: Field[Any]) -> bool:
    return entry.default is not MISSING or entry.default_factory is not MISSING


def _default(entry: Field[Any]) -> Any:
    if entry.default_factory is not MISSING:
        return entry.default_factory()
    return None if entry.default is MISSING else entry.default


def identity(settings: Any, without: Collection[str] = ()) -> str:
    """Hash of all settings that are not at their class's default.

    Without the defaults, a new setting whose default is the old behaviour does not change the
    identity of earlier results; `differences` notices a changed default.
    """
    chosen = _classes(settings) | {
        leaf.path: _plain(leaf.value) for leaf in leaves(settings) if not _at_default(leaf)
    }
    return digest({name: value for name, value in chosen.items() if name not in without})


def digest(table: Mapping[str, Any]) -> str:
    """Hash of a table of plain values, in any order."""
    text = json.dumps(table, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def differences(
    saved: Mapping[str, Any], settings: Any, without: Collection[str] = ()
) -> dict[str, tuple[Any, Any]]:
    """Settings that differ from a saved table: name to (saved, now).

    A setting that the table lacks is at its default if the identities are equal.
    """
    then = {path: _plain(value) for path, value in entries(saved)}
    now = {leaf.path: _plain(leaf.value) for leaf in leaves(settings) if leaf.path not in without}
    changed = {n: (then[n], now[n]) for n in now if n in then and then[n] != now[n]}
    gone = {n: (then[n], None) for n in then if n not in now and n not in without}
    return changed | gone


def defaults(settings: Any) -> frozenset[str]:
    """Paths of the settings at their class's default, which older tables may lack."""
    return frozenset(leaf.path for leaf in leaves(settings) if _at_default(leaf))


def entries(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a nested table with its dotted path."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from entries(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def same(one: Any, other: Any) -> bool:
    """Whether two saved values are equal: 2 is 2.0 and nan is nan, but True is not 1."""
    return bool(_plain(one) == _plain(other))


def _classes(settings: Any, prefix: str = "") -> dict[str, str]:
    """Class names of nested settings by path."""
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
        return repr(float(value)) if abs(value) <= sys.float_info.max else str(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)
