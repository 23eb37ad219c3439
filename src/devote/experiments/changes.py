"""Settings changed by name, as typed: `size=20`."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from devote.core.errors import UserError, not_among
from devote.run import Run, flat

SHARED = ("env_name", "agent_name", "preset", "seed", "seeds")
"""What a study decides itself."""


def parse_change(text: str) -> tuple[str, str]:
    """Name and value of `name=value`."""
    name, sign, value = text.partition("=")
    if not (name and sign and value):
        raise UserError("a change as name=value", repr(text), "for example --set length_scale=2")
    return name.strip().replace("-", "_"), value.strip()


def settable(run: Run) -> list[str]:
    """Names of all settings of a run that can be changed."""
    return [name for name in flat(run) if name not in SHARED]


def changed(run: Run, changes: Mapping[str, str]) -> Run:
    """A run with named settings at other values; an unknown name is refused."""
    require_known(changes, settable(run))
    for name, text in changes.items():
        run = _with(run, name, text)
    return run


def require_known(names: Iterable[str], known: Iterable[str], kind: str = "setting") -> None:
    """Refuse a name that does not exist, with the nearest that does."""
    known = list(known)
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            fix = f"did you mean {close[0]}?" if close else f"choose among {', '.join(known)}"
            raise UserError(f"the name of {_a(kind)}", repr(name), fix)


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _with(settings: Any, name: str, text: str) -> Any:
    hints = get_type_hints(type(settings))
    for entry in fields(settings):
        value = getattr(settings, entry.name)
        if entry.name == name:
            return replace(settings, **{name: _value(hints[name], name, text)})
        if is_dataclass(value) and name in flat(value):
            return replace(settings, **{entry.name: _with(value, name, text)})
    raise AssertionError(f"{name} was said to be known")


def _value(kind: Any, name: str, text: str) -> Any:
    """The text as a value of a setting's type."""
    if get_origin(kind) is Literal:
        return _choice(name, text, get_args(kind))
    if get_origin(kind) in (Union, UnionType):
        return _either(get_args(kind), name, text)
    if get_origin(kind) is tuple:
        return tuple(_value(get_args(kind)[0], name, part) for part in re.split("[,+]", text))
    if kind is bool:
        return _choice(name, text.lower(), ("true", "false")) == "true"
    if kind is str:
        return text
    if kind in (int, float):
        try:
            return int(text.replace("_", "")) if kind is int else float(text)
        except ValueError as error:
            expected = f"a{'n integer' if kind is int else ' number'} for {name}"
            raise UserError(expected, repr(text), f"for example {name}=2") from error
    raise UserError(f"a setting that one word can say, not {name}", text, "change it in Python")


def _either(kinds: tuple[Any, ...], name: str, text: str) -> Any:
    if type(None) in kinds and text.lower() == "none":
        return None
    return _value(next(kind for kind in kinds if kind is not type(None)), name, text)


def _choice(name: str, text: str, choices: tuple[str, ...]) -> str:
    if text not in choices:
        raise not_among(name, text, choices)
    return text
