"""The calibration study's settings and its cells: one model fitted to all splits of a dataset.

`python -m devote.regression.study paper --data DIR` computes every missing cell, then the table.
"""

import io
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from devote.core.arrays import read_npz, write_npz
from devote.core.durable import atomic_write
from devote.core.errors import UserError
from devote.core.settings import defaults, differences, digest, read_fields
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
"""The setting of the bootstrapped ensemble alone."""
NO_RESULTS = {"out", "data", "datasets", "models", "scope", "rows", "training.layout"}
"""Settings that no result depends on."""
SAVE_SECONDS = 60.0
"""Minimum time between two checkpoints of a fit."""

AGAIN = "delete it: the cell is computed again"
RESULT: dict[str, Any] = dict(dataset=str, model=str, settings=dict, cpu_seconds=float)
RESULT |= dict(seconds=float, sittings=tuple[tuple[float, ...], ...])
RESULT |= dict(splits=tuple[dict, ...], pooled=dict | None)
"""The fields of a cell's file, and their types."""


@dataclass(frozen=True)
class CalibrationStudy:
    """Which cells to compute, how, and where they go."""

    preset: str = "paper"
    out: Path = ROOT / "paper"
    data: Path | None = None
    """Directory of the UCI tables; by default DEVOTE_DATA, else the cache, else a download."""
    datasets: tuple[str, ...] = ()
    """Empty: all of `scope`."""
    models: tuple[str, ...] = ()
    """Empty: all of `rows`."""
    scope: Literal["whole", "fast"] = "whole"
    rows: Literal["table", "ablations"] = "table"
    splits: int = 10  # paper
    members: int = 10  # paper
    variant: Variant = field(default_factory=Variant)
    training: FitSettings = field(default_factory=FitSettings)

    def __post_init__(self) -> None:
        if not (1 <= self.splits <= 1000 and 2 <= self.members <= 1000):
            got = f"{self.splits} and {self.members}"
            raise UserError("1 to 1,000 splits and 2 to 1,000 members", got, "change them")

    def chosen_datasets(self) -> tuple[str, ...]:
        """The datasets of the study; unknown names are refused."""
        chosen = self.datasets or (COLUMNS if self.scope == "whole" else FAST)
        unknown = sorted(set(chosen) - set(COLUMNS))
        if unknown:
            raise UserError(f"datasets among {', '.join(COLUMNS)}", unknown, "correct the names")
        return chosen

    def cells(self) -> list["CalibrationCell"]:
        """The study's cells, largest dataset first; the exact GP has the GP task only."""
        usual = TABLE_MODELS if self.rows == "table" else (*LENGTHS, AUTO, *SIZES)
        models = tuple(map(parse_model, self.models)) or usual
        return [
            CalibrationCell(self, name, model)
            for name in sorted(self.chosen_datasets(), key=lambda name: -_rows(name))
            for model in models
            if model != REFERENCE or name == GP
        ]

    def scores(self) -> list[ModelScores]:
        """The scores of all finished cells."""
        scores = []
        for cell in self.cells():
            try:
                if cell.model != MEAN and (result := cell.result()) is not None:
                    scores.append(read_scores(result))
            except (KeyError, TypeError, IndexError, AttributeError) as error:
                raise UserError(f"scores in {cell.path}", f"{error!r:.80}", AGAIN) from error
        return scores

    def settings(self, model: ModelSpec) -> dict[str, Any]:
        """The settings that a model's results depend on, by dotted name."""
        named = {"preset": self.preset, "splits": self.splits, "members": self.members}
        named |= {f"variant.{name}": value for name, value in asdict(self.variant).items()}
        named |= {f"training.{name}": value for name, value in asdict(self.training).items()}
        return {n: v for n, v in named.items() if n not in unused(model)}

    def write_drawings(self) -> dict[str, dict[str, np.ndarray]]:
        """Write and return what the figures of the GP task show besides the models' answers."""
        drawn = {"priors": prior_draws(self.variant), "task": gp_arrays(self.splits)}
        for name, arrays in drawn.items():
            write_arrays(self.out / GP / f"{name}.npz", arrays)
        return drawn


def _rows(dataset: str) -> int:
    """Rows of a UCI table; 0 for the GP task."""
    return TABLES[dataset].shape[0] if dataset in TABLES else 0


def unused(model: ModelSpec) -> set[str]:
    """Settings that a model's results do not depend on."""
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
    """One model on all splits of a dataset, as a cell of `experiments`."""

    study: CalibrationStudy
    dataset: str
    model: ModelSpec

    @property
    def name(self) -> str:
        """Study, dataset and model."""
        return f"calibration {self.study.out.name} {self.dataset} {self.model}"

    @property
    def digest(self) -> str:
        """Hash of dataset, model and all settings that are not at their default, so that adding a
        setting whose default is today's behaviour keeps the cells of before."""
        named, usual = self.study.settings(self.model), defaults(self.study)
        chosen = {name: value for name, value in named.items() if name not in usual}
        return digest(chosen | {"dataset": self.dataset, "model": str(self.model)})

    @property
    def identity(self) -> str:
        """The study's directory name and the digest: studies in two directories share no cells."""
        return f"{self.study.out.name}-{self.digest}"

    @property
    def path(self) -> Path:
        """File of the scores; the arrays are beside it."""
        return self.study.out / self.dataset / f"{self.model}.json"

    @property
    def record(self) -> Path:
        """File of the engine's record."""
        return self.study.out / "records" / self.dataset / f"{self.model}.json"

    @property
    def needs(self) -> tuple["CalibrationCell", ...]:
        """The cell of the separate mean; for the automatic length also those it is composed of."""
        models = () if self.model == MEAN else (MEAN, *LENGTHS) if self.model == AUTO else (MEAN,)
        return tuple(replace(self, model=model) for model in models)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names to estimate its duration by: this fit, then this model, then any fit."""
        variant = f"calibration {self.study.out.name}"
        own = (f"{variant} {self.dataset} {self.model}", f"{variant} {self.model}")
        return (*own, f"calibration {self.study.preset}")

    @property
    def size(self) -> float:
        """Cost: thousands of rows times splits times epochs, relative to an ensemble's members; 0
        if nothing is fitted."""
        if not self.stages:
            return 0.0
        rows = _rows(self.dataset) or 150
        share = (1 if self.model == MEAN else self.study.members) / self.study.members
        return rows * self.study.splits * self.study.training.epochs * share / 1000

    @property
    def stages(self) -> dict[str, Path]:
        """The fits of the cell in order, with their checkpoint files."""
        names = ["fit"] if self.model not in (AUTO, REFERENCE) else []
        if self.model == MEAN and self.dataset != GP:
            names = ["reference", "fit"]
        return {name: self.path.with_suffix(f".{name}.state.npz") for name in names}

    def finished(self) -> bool:
        """Whether scores with these settings exist."""
        return self.path.is_file() and not self._changes()

    def outdated(self) -> bool:
        """Whether the file has scores of other settings."""
        return self.path.is_file() and bool(self._changes())

    def make(self) -> bool:
        """Fit, predict, score and write."""
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
        """Share of the epochs done, by the checkpoints on disk."""
        if self.finished():
            return 1.0
        # The reference is one fit to the whole table, the mean one fit to 0.6 of it per split.
        weight = {"reference": 1.0, "fit": 0.6 * self.study.splits}
        total = sum(weight[stage] for stage in self.stages)
        done = 0.0
        for stage, path in self.stages.items():
            kept = _read_state(path, self.digest, "done", "total")
            done += weight[stage] * float(kept["done"] / kept["total"]) if kept else 0.0
        return done / total if total else 0.0

    def seconds(self) -> float | None:
        """Wall time of all processes that worked on it."""
        result = self.result()
        return None if result is None else result["seconds"]

    def describe(self) -> Mapping[str, Any]:
        """The command, seeds and settings that make it again."""
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
        """What `make` wrote, if it has these settings."""
        return self._read() if self.finished() else None

    def arrays(self) -> dict[str, np.ndarray]:
        """Predictions at `Dataset.queries` of every split."""
        return read_npz(self.path.with_suffix(".npz"))

    def _read(self) -> dict[str, Any]:
        return read_fields(self.path, RESULT, AGAIN)

    def _changes(self) -> dict[str, Any]:
        """Saved settings that differ from the study's; a setting that was not saved counts as its
        default."""
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
        """The separate mean of every split and, for a UCI table, the reference f at all rows: a
        mean predictor fitted to the whole table, which stands in for the noiseless target."""
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
        """A model's predictions in single precision, as they are stored, and their scores."""
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
        """Each split's prediction from the cell of the length that its training data chooses."""
        lengths = [choose_length_scale(s.train.x, s.train.y, unit=1.0) for s in data.splits]
        cells = {n: replace(self, model=ModelSpec("rfn", (n,))) for n in set(lengths)}
        fixed = {length: cell.arrays()["std"] for length, cell in cells.items()}
        std = np.stack([fixed[length][split] for split, length in enumerate(lengths)])
        return Answer(mean, std), lengths


def _with_null(scores: Mapping[str, float]) -> dict[str, float | None]:
    """NaN as None, for JSON."""
    return {name: value if np.isfinite(value) else None for name, value in scores.items()}


class FitCheckpoints:
    """Checkpoints of a cell's fits, from which a killed process resumes, and its working times."""

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
        """Start and end of every process that worked on it, this one included, in seconds since
        1970."""
        return np.concatenate([self._earlier, [[self._started, time.time()]]])

    def cpu_seconds(self) -> float:
        """Processor time of all of them."""
        return self._earlier_cpu + time.process_time() - self._cpu

    def clear(self) -> None:
        """Delete the checkpoints of a finished cell."""
        for path in self.paths.values():
            path.unlink(missing_ok=True)


class FitCheckpoint:
    """The checkpoint of one fit: restored before the first epoch, saved after chunks of epochs."""

    def __init__(self, fits: FitCheckpoints, path: Path) -> None:
        self.fits, self.path = fits, path
        self._written = time.monotonic()

    def restore(self, state: Any) -> tuple[Any, int]:
        """The saved state and its number of epochs; the given state and 0 if none is saved."""
        kept = _read_state(self.path, self.fits.digest)
        if kept is None:
            return state, 0
        leaves, structure = jax.tree.flatten(state)
        found = [kept.get(f"leaf{number}") for number in range(len(leaves))]
        for leaf, old in zip(leaves, found, strict=True):
            if old is None or (old.shape, old.dtype) != (leaf.shape, leaf.dtype):
                return state, 0
        # copies: the compiled program donates its input
        return jax.tree.unflatten(structure, [jnp.array(old) for old in found]), int(kept["done"])

    def save(self, state: Any, done: int, total: int) -> None:
        """Write the state, at most once per `SAVE_SECONDS` before the end of the fit."""
        if done < total and time.monotonic() - self._written < SAVE_SECONDS:
            return
        arrays = {f"leaf{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
        facts = {"digest": self.fits.digest, "done": done, "total": total}
        facts |= {"sittings": self.fits.sittings(), "cpu": self.fits.cpu_seconds()}
        arrays |= {name: np.array(value) for name, value in facts.items()}
        write_arrays(self.path, arrays, compressed=False)
        self._written = time.monotonic()


def _read_state(path: Path, digest: str, *names: str) -> dict[str, np.ndarray] | None:
    """A checkpoint of these settings, or its named arrays only; None if there is no intact one."""
    try:
        kept = read_npz(path, ("digest", *names) if names else ())
    except (OSError, UserError):
        return None
    return kept if str(kept.get("digest")) == digest else None


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], compressed: bool = True) -> None:
    """Named arrays, as a plain .npz file."""
    buffer = io.BytesIO()
    write_npz(buffer, arrays, compressed)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, buffer.getvalue())


if __name__ == "__main__":
    from devote.experiments.commands import calibration_command

    calibration_command()
