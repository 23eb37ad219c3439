"""The calibration study as a value, and its cells: a model fitted to all splits of a dataset.

`python -m devote.regression.study paper --data DIR` computes every missing cell, then the table.
"""

import io
import json
import time
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from devote.core.arrays import write_npz
from devote.core.durable import atomic_write
from devote.core.errors import UserError
from devote.core.settings import defaults, differences, digest
from devote.regression.data import GP, Dataset, gap_dataset, gp_arrays, gp_dataset, scaled_table
from devote.regression.length_scale import choose_length_scale
from devote.regression.models import (
    AUTHORS,
    AUTO,
    ENSEMBLE,
    LENGTHS,
    MEAN,
    REFERENCE,
    Answer,
    ModelSpec,
    Variant,
    fit_mean,
    parse_model,
    predict,
    predict_mean,
    prior_draws,
)
from devote.regression.priors import MLP
from devote.regression.table import COLUMNS, TABLE_MODELS, ModelScores, pooled, read_scores, score
from devote.regression.training import FitSettings, evaluate
from devote.regression.uci import TABLES

SIZES = tuple(ModelSpec("mlp", (w, depth)) for depth in (1, 2) for w in (50, 100, 200, 400))
FAST = ("concrete", "energy", "wine", "yacht", GP)
ROOT = Path("runs/calibration")
ENSEMBLE_ONLY = "variant.ensemble_loss"
"""No other model depends on it."""
NO_RESULTS = {"out", "data", "datasets", "models", "scope", "rows", "training.layout"}
"""Settings that no result depends on."""
SAVE_SECONDS = 60.0
"""Least seconds between two checkpoints of a fit that is not at its end."""


@dataclass(frozen=True)
class CalibrationStudy:
    """Which cells to compute, how, and where they go."""

    preset: str = "paper"
    out: Path = ROOT / "paper"
    data: Path | None = None
    """Directory of the UCI tables; else DEVOTE_DATA, else the cache, else a download."""
    datasets: tuple[str, ...] = ()
    """All of `scope` where empty."""
    models: tuple[str, ...] = ()
    """All of `rows` where empty."""
    scope: Literal["whole", "fast"] = "whole"
    rows: Literal["table", "ablations"] = "table"
    splits: int = 10  # paper
    members: int = 10  # paper
    variant: Variant = field(default_factory=Variant)
    training: FitSettings = field(default_factory=FitSettings)

    def __post_init__(self) -> None:
        if self.splits < 1 or self.members < 2:
            got = f"{self.splits} and {self.members}"
            raise UserError("at least 1 split and 2 members", got, "raise them")

    def chosen_datasets(self) -> tuple[str, ...]:
        """Named or implied datasets, refused where unknown."""
        chosen = self.datasets or (COLUMNS if self.scope == "whole" else FAST)
        unknown = sorted(set(chosen) - set(COLUMNS))
        if unknown:
            raise UserError(f"datasets among {', '.join(COLUMNS)}", unknown, "correct the names")
        return chosen

    def cells(self) -> list["CalibrationCell"]:
        """The cells asked for, the largest dataset first; the exact GP knows the GP task alone."""
        implied = TABLE_MODELS if self.rows == "table" else (*LENGTHS, AUTO, *SIZES)
        models = tuple(map(parse_model, self.models)) or implied
        cost = {name: table.shape[0] for name, table in TABLES.items()}
        by_cost = sorted(self.chosen_datasets(), key=lambda name: -cost.get(name, 0))
        return [
            CalibrationCell(self, name, model)
            for name in by_cost
            for model in models
            if model != REFERENCE or name == GP
        ]

    def scores(self) -> list[ModelScores]:
        """Of the finished cells among those asked for, of these settings only."""
        found = [cell.result() for cell in self.cells() if cell.model != MEAN]
        return [read_scores(result) for result in found if result is not None]

    def settings(self, model: ModelSpec) -> dict[str, Any]:
        """What a model's results depend on besides the dataset, by dotted name."""
        named = {"preset": self.preset, "splits": self.splits, "members": self.members}
        named |= {f"variant.{name}": value for name, value in asdict(self.variant).items()}
        named |= {f"training.{name}": value for name, value in asdict(self.training).items()}
        return {n: v for n, v in named.items() if n not in unused(model)}

    def write_drawings(self) -> dict[str, dict[str, np.ndarray]]:
        """What the figures of the GP task show besides the models' answers, also as files."""
        drawn = {"priors": prior_draws(self.variant), "task": gp_arrays(self.splits)}
        for name, arrays in drawn.items():
            write_arrays(self.out / GP / f"{name}.npz", arrays)
        return drawn


def unused(model: ModelSpec) -> set[str]:
    """Settings that the results of a model do not depend on."""
    return NO_RESULTS if model == ENSEMBLE else NO_RESULTS | {ENSEMBLE_ONLY}


PRESETS = {
    "paper": ("The paper's text.", CalibrationStudy()),
    "authors": (
        "What the authors' code does.",
        CalibrationStudy(preset="authors", out=ROOT / "authors", variant=AUTHORS),
    ),
    "smoke": (
        "Seconds, for tests.",
        CalibrationStudy(
            preset="smoke",
            out=ROOT / "smoke",
            datasets=(GP,),
            splits=2,
            members=3,
            variant=Variant(features=64),
            training=FitSettings(epochs=20),
        ),
    ),
}


@dataclass(frozen=True)
class CalibrationCell:
    """A model on all splits of a dataset: a cell of `experiments`, made once and never again."""

    study: CalibrationStudy
    dataset: str
    model: ModelSpec

    @property
    def name(self) -> str:
        """Where it goes, dataset and model."""
        return f"calibration {self.study.out.name} {self.dataset} {self.model}"

    @property
    def digest(self) -> str:
        """Hash of dataset, model and the settings that are not at their class's default.

        A setting added later, whose default is what was done before, makes no old cell a stranger.
        """
        named, usual = self.study.settings(self.model), defaults(self.study)
        chosen = {name: value for name, value in named.items() if name not in usual}
        return digest(chosen | {"dataset": self.dataset, "model": str(self.model)})

    @property
    def identity(self) -> str:
        """The name of its place and its digest: studies in different places share no results,
        though a cell may have the same settings in both."""
        return f"{self.study.out.name}-{self.digest}"

    @property
    def path(self) -> Path:
        """The scores; the arrays are beside them."""
        return self.study.out / self.dataset / f"{self.model}.json"

    @property
    def record(self) -> Path:
        """Not among the results, which are found by their names."""
        return self.study.out / "records" / self.dataset / f"{self.model}.json"

    @property
    def needs(self) -> tuple["CalibrationCell", ...]:
        """The separate mean; for the automatic length the cells it is put together from."""
        models = () if self.model == MEAN else (MEAN, *LENGTHS) if self.model == AUTO else (MEAN,)
        return tuple(replace(self, model=model) for model in models)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The same fit; then the same model; then any fit."""
        variant = f"calibration {self.study.out.name}"
        own = (f"{variant} {self.dataset} {self.model}", f"{variant} {self.model}")
        return (*own, f"calibration {self.study.preset}")

    @property
    def size(self) -> float:
        """Thousands of rows, times splits, times epochs, in units of an ensemble; 0 for no fit."""
        if not self.stages:
            return 0.0
        rows = TABLES[self.dataset].shape[0] if self.dataset in TABLES else 150
        share = (1 if self.model == MEAN else self.study.members) / self.study.members
        return rows * self.study.splits * self.study.training.epochs * share / 1000

    @property
    def stages(self) -> dict[str, Path]:
        """The fits of the cell in their order, and the files of their checkpoints."""
        names = ["fit"] if self.model not in (AUTO, REFERENCE) else []
        if self.model == MEAN and self.dataset != GP:
            names = ["reference", "fit"]
        return {name: self.path.with_suffix(f".{name}.state.npz") for name in names}

    def finished(self) -> bool:
        """Whether scores of these settings are there."""
        return self.path.is_file() and not self._changes()

    def outdated(self) -> bool:
        """Whether scores of other settings are in the way."""
        return self.path.is_file() and bool(self._changes())

    def make(self) -> bool:
        """Fit, ask, score, write."""
        changes = self._changes() if self.path.is_file() else {}
        if changes:
            got = ", ".join(f"{name}={value}" for name, value in changes.items())
            fix = "choose another `out` directory, or delete the file"
            raise UserError(f"results of these settings in {self.path}", got, fix)
        missing = [f"{self.dataset} {need.model}" for need in self.needs if not need.finished()]
        if missing:
            expected = f"finished cells for {self.dataset} {self.model}"
            raise UserError(expected, f"no {', '.join(missing)}", "compute them first")
        fits = FitCheckpoints(self.stages, self.digest)
        arrays, scores = self._fit_means(fits) if self.model == MEAN else self._fit_model(fits)
        write_arrays(self.path.with_suffix(".npz"), arrays)
        sittings = fits.sittings().round(1)
        result = {
            "dataset": self.dataset,
            "model": str(self.model),
            "settings": self.study.settings(self.model),
            "seconds": round(float(np.sum(sittings[:, 1] - sittings[:, 0])), 1),
            "cpu_seconds": round(fits.cpu_seconds(), 1),
            "sittings": sittings.tolist(),
            **scores,
        }
        atomic_write(self.path, (json.dumps(result, indent=1, allow_nan=False) + "\n").encode())
        fits.clear()
        return True

    def progress(self) -> float:
        """Share of the epochs that are on disk."""
        if self.finished():
            return 1.0
        # The reference is one fit to the whole table, the mean one to about 0.6 of it per split.
        weight = {"reference": 1.0, "fit": 0.6 * self.study.splits}
        total = sum(weight[stage] for stage in self.stages)
        done = 0.0
        for stage, path in self.stages.items():
            kept = _read_state(path, self.digest, "done", "total")
            done += weight[stage] * float(kept["done"] / kept["total"]) if kept else 0.0
        return done / total if total else 0.0

    def seconds(self) -> float | None:
        """Time of all processes that worked on it, as far as it was kept."""
        result = self.result()
        return None if result is None else result["seconds"]

    def describe(self) -> Mapping[str, Any]:
        """Enough to do it again."""
        base, settings = PRESETS[self.study.preset][1], self.study.settings(self.model)
        words = ["python -m devote.regression.study", self.study.preset]
        words += ["--datasets", self.dataset, "--models", str(self.model)]
        if self.study.out != base.out:
            words += ["--out", str(self.study.out)]
        for name, value in settings.items():
            if value != base.settings(self.model)[name]:
                words += [f"--{name.replace('_', '-')}", str(value)]
        return {
            "command": " ".join(words),
            "preset": self.study.preset,
            "seeds": list(range(self.study.splits)),
            "settings": settings,
        }

    def result(self) -> dict[str, Any] | None:
        """What `make` wrote, if it is there and of these settings."""
        return self._read() if self.finished() else None

    def arrays(self) -> dict[str, np.ndarray]:
        """Answers at the asked inputs of every split."""
        return read_arrays(self.path.with_suffix(".npz"))

    def _read(self) -> dict[str, Any]:
        try:
            return json.loads(self.path.read_bytes())
        except ValueError as error:
            fix = "delete it: the cell is computed again"
            raise UserError(f"JSON in {self.path}", f"a damaged file ({error})", fix) from error

    def _changes(self) -> dict[str, Any]:
        """Saved settings with another value now; one that was not saved must be at its default."""
        saved, without = self._read()["settings"], unused(self.model)
        known = defaults(self.study) | without | saved.keys()
        new = [name for name in self.study.settings(self.model) if name not in known]
        return {n: saved.get(n) for n in (*differences(saved, self.study, without), *new)}

    def _data(self, reference: np.ndarray) -> Dataset:
        if self.dataset == GP:
            return gp_dataset(self.study.splits)
        table = scaled_table(self.dataset, self.study.data)
        return gap_dataset(*table, reference, self.study.splits, self.study.variant.ties)

    def _fit_means(self, fits: "FitCheckpoints") -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The separate mean of every split and, for a UCI table, the reference f at all its rows:
        the denoised proxy of the target, a mean predictor of the whole table."""
        variant, training = self.study.variant, self.study.training
        reference = np.zeros(0, np.float32)
        if self.dataset != GP:
            (x, y), stage = scaled_table(self.dataset, self.study.data), fits.stage("reference")
            net = MLP(init=variant.init)
            nets = fit_mean([x], [y], training, [0], net, variant.weight_decay, stage)
            reference = evaluate(nets, [x])[0][0]
        data = self._data(reference)
        mean = predict_mean(data, variant, training, fits.stage("fit"))
        return {"mean": mean, "reference": reference, "rows": np.array(data.digest)}, {"splits": []}

    def _fit_model(self, fits: "FitCheckpoints") -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Answers of a model as they are stored, and the scores of just these numbers."""
        separate = replace(self, model=MEAN)
        means = separate.arrays()
        data = self._data(means["reference"])
        if str(means.get("rows", data.digest)) != data.digest:
            expected = f"the same rows in every split as in {separate.path}"
            got = "others, e.g. because unstable sorting differs between processors"
            raise UserError(expected, got, "use another `out`")
        found: dict[str, Any] = {}
        if self.model == AUTO:
            answer, found["lengths"] = self._assembled(data, means["mean"])
        else:
            study, stage = self.study, fits.stage("fit") if self.stages else None
            settings = (study.members, study.variant, study.training)
            answer = predict(self.model, data, means["mean"], *settings, stage)
        mean, std = answer.mean.astype(np.float32), answer.std.astype(np.float32)
        found["splits"] = [_with_null(row) for row in score(data, mean, std)]
        found["pooled"] = _with_null(pooled(data, mean, std))
        if answer.mean is not means["mean"]:
            for row, other in zip(found["splits"], score(data, means["mean"], std), strict=True):
                row |= {f"{name}_separate": value for name, value in _with_null(other).items()}
        return {"mean": mean, "std": std}, found

    def _assembled(self, data: Dataset, mean: np.ndarray) -> tuple[Answer, list[float]]:
        """Each split's answer from the cell of the length that its training data chooses."""
        trains = [split.train for split in data.splits]
        lengths = [choose_length_scale(train.x, train.y, unit=1.0) for train in trains]
        fixed = {
            n: replace(self, model=ModelSpec("rfn", (n,))).arrays()["std"] for n in set(lengths)
        }
        std = np.stack([fixed[length][split] for split, length in enumerate(lengths)])
        return Answer(mean, std), lengths


def _with_null(scores: Mapping[str, float]) -> dict[str, float | None]:
    """As JSON has them: a score that is no number is null."""
    return {name: value if np.isfinite(value) else None for name, value in scores.items()}


NOT_WHOLE = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile)
"""What reading raises where there is no file, or an empty, cut or damaged one."""


class FitCheckpoints:
    """The fits of a cell on disk, so that a killed one goes on; and when it was worked on."""

    def __init__(self, paths: Mapping[str, Path], digest: str) -> None:
        self.paths, self.digest = paths, digest
        known = [_read_state(path, digest) for path in paths.values()]
        newest = max((k for k in known if k), key=lambda state: state["sittings"].max(), default={})
        self._earlier = np.asarray(newest.get("sittings", np.zeros((0, 2))))
        self._earlier_cpu = float(newest.get("cpu", 0.0))
        self._started, self._cpu = time.time(), time.process_time()

    def stage(self, name: str) -> "FitCheckpoint":
        """One fit of the cell."""
        return FitCheckpoint(self, self.paths[name])

    def sittings(self) -> np.ndarray:
        """Start and end of every process that worked on it, the present one included, in seconds
        since 1970."""
        return np.concatenate([self._earlier, [[self._started, time.time()]]])

    def cpu_seconds(self) -> float:
        """Processor time of all of them, as far as it was kept."""
        return self._earlier_cpu + time.process_time() - self._cpu

    def clear(self) -> None:
        """Forget the state: the cell is written."""
        for path in self.paths.values():
            path.unlink(missing_ok=True)


class FitCheckpoint:
    """One fit: asked before the first epoch where it was, saved after chunks of epochs."""

    def __init__(self, fits: FitCheckpoints, path: Path) -> None:
        self.fits, self.path = fits, path
        self._written = time.monotonic()

    def restore(self, state: Any) -> tuple[Any, int]:
        """The state after some epochs and their number; the given state and 0 if none is kept."""
        kept = _read_state(self.path, self.fits.digest)
        if kept is None:
            return state, 0
        leaves, structure = jax.tree.flatten(state)
        found = [kept.get(f"leaf{number}") for number in range(len(leaves))]
        for leaf, old in zip(leaves, found, strict=True):
            if old is None or (old.shape, old.dtype) != (leaf.shape, leaf.dtype):
                return state, 0
        # copies: the compiled program overwrites what it is given
        return jax.tree.unflatten(structure, [jnp.array(old) for old in found]), int(kept["done"])

    def save(self, state: Any, done: int, total: int) -> None:
        """Write the state if the last time is long ago or the fit is at its end."""
        if done < total and time.monotonic() - self._written < SAVE_SECONDS:
            return
        leaves = {f"leaf{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
        facts = {
            "digest": np.array(self.fits.digest),
            "done": np.array(done),
            "total": np.array(total),
            "sittings": self.fits.sittings(),
            "cpu": np.array(self.fits.cpu_seconds()),
        }
        write_arrays(self.path, leaves | facts, compressed=False)
        self._written = time.monotonic()


def _read_state(path: Path, digest: str, *names: str) -> dict[str, np.ndarray] | None:
    """What is kept of a fit, or the named arrays of it alone; None if nothing is, or of other
    settings, or not whole."""
    try:
        with np.load(path, allow_pickle=False) as kept:
            mine = str(kept["digest"]) == digest
            return {name: kept[name] for name in names or kept.files} if mine else None
    except NOT_WHOLE:
        return None


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], compressed: bool = True) -> None:
    """Named arrays, as a plain .npz file."""
    buffer = io.BytesIO()
    write_npz(buffer, arrays, compressed)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, buffer.getvalue())


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """What `write_arrays` wrote."""
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


if __name__ == "__main__":
    from devote.experiments.commands import calibration_command

    calibration_command()
