"""The identity of frozen settings: a hash that other processes and later versions agree on."""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

DIGITS = 12


def identity(settings: Any, without: Collection[str] = ()) -> str:
    """Hash of every setting that is not at its class's default, by name, in no order.

    Defaults are left out so that a new setting, whose default is what was done before, does not
    make all earlier results strangers; `differences` notices a default that has changed.
    """
    chosen = {name: value for name, value in _leaves(settings, "", True) if name not in without}
    return digest(chosen)


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
    then = dict(_entries(saved, ""))
    now = {name: value for name, value in _leaves(settings, "", False) if name not in without}
    changed = {n: (then[n], now[n]) for n in now if n in then and then[n] != now[n]}
    gone = {n: (then[n], None) for n in then if n not in now and n not in without}
    return changed | gone


def defaults(settings: Any) -> frozenset[str]:
    """Names of the settings at their class's default, which tables from before them lack."""
    chosen = dict(_leaves(settings, "", True))
    return frozenset(name for name, _ in _leaves(settings, "", False) if name not in chosen)


def _leaves(settings: Any, prefix: str, only_chosen: bool) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for entry in fields(settings):
        value = getattr(settings, entry.name)
        name = f"{prefix}{entry.name}"
        if is_dataclass(value):
            if only_chosen:
                found.append((name, type(value).__name__))
            found += _leaves(value, f"{name}.", only_chosen)
        elif not only_chosen or _plain(value) != _plain(_default(entry)):
            found.append((name, _plain(value)))
    return found


def _default(entry: Field[Any]) -> Any:
    if entry.default_factory is not MISSING:
        return entry.default_factory()
    return None if entry.default is MISSING else entry.default


def _entries(table: Mapping[str, Any], prefix: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in table.items():
        if isinstance(value, dict):
            found += _entries(value, f"{prefix}{name}.")
        else:
            found.append((f"{prefix}{name}", _plain(value)))
    return found


def _plain(value: Any) -> Any:
    """As JSON gives it back, and equal numbers alike: 2 is 2.0, but True is not 1."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return repr(float(value))
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)
