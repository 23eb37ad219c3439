"""One cell of the study on disk: fit, ask, score, write; it goes on where it was killed."""

from pathlib import Path
from typing import Any

import numpy as np

from devote.core.errors import UserError
from devote.regression import tasks
from devote.regression.drawings import prior_draws, task_draws
from devote.regression.keeping import Keep, kept_path, share_done
from devote.regression.length_scale import choose_length_scale
from devote.regression.plan import DEFAULTS, MEAN, Study, identity, needs
from devote.regression.scores import AUTO, REFERENCE
from devote.regression.store import (
    changed_settings,
    read_arrays,
    read_json,
    write_arrays,
    write_json,
)
from devote.regression.tasks import GP, Answer, Dataset
from devote.regression.training import Progress

_REFERENCE, _FIT = "reference", "fit"


def result_path(study: Study, dataset: str, model: str) -> Path:
    """The scores of a cell; its arrays are beside them."""
    return study.out / dataset / f"{model}.json"


def compute(study: Study, dataset: str, model: str, progress: Progress | None = None) -> None:
    """One cell: fit, ask, score, write."""
    path = result_path(study, dataset, model)
    _refuse_other_settings(study, path)
    _require_needs(study, dataset, model)
    keep = Keep(path, identity(study, dataset, model), stages_of(dataset, model), progress)
    found: dict[str, Any] = {"splits": []}
    if model == MEAN:
        content = _fit_means(study, dataset, keep)
    else:
        content, found = _judged(study, dataset, model, keep)
    write_arrays(path.with_suffix(".npz"), content)
    sittings = keep.sittings().round(1)
    result = {
        "dataset": dataset,
        "model": model,
        "settings": study.settings(model),
        "seconds": round(float(np.sum(sittings[:, 1] - sittings[:, 0])), 1),
        "cpu_seconds": round(keep.cpu_seconds(), 1),
        "sittings": sittings.tolist(),
        **found,
    }
    write_json(path, result)
    keep.clear()


def is_finished(study: Study, dataset: str, model: str) -> bool:
    """Whether a cell of these settings is there."""
    path = result_path(study, dataset, model)
    return path.is_file() and not _changes(study, path)


def is_outdated(study: Study, dataset: str, model: str) -> bool:
    """Whether a cell of other settings is in the way."""
    path = result_path(study, dataset, model)
    return path.is_file() and bool(_changes(study, path))


def read_result(study: Study, dataset: str, model: str) -> dict[str, Any] | None:
    """What `compute` wrote, if it is there and of these settings."""
    if not is_finished(study, dataset, model):
        return None
    return read_json(result_path(study, dataset, model))


def results_of(study: Study, asked: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """The results that are there, of these settings only."""
    found = [read_result(study, *cell) for cell in asked]
    return [result for result in found if result is not None]


def share(study: Study, dataset: str, model: str) -> float:
    """Share of a cell's epochs that are on disk."""
    path, digest = result_path(study, dataset, model), identity(study, dataset, model)
    if is_finished(study, dataset, model):
        return 1.0
    done = {
        stage: share_done(kept_path(path, stage), digest) for stage in stages_of(dataset, model)
    }
    # The reference is one fit to the whole table, the mean one to about 0.6 of it per split.
    weight = {_REFERENCE: 1.0, _FIT: 0.6 * study.splits}
    total = sum(weight[stage] for stage in done)
    return sum(weight[stage] * part for stage, part in done.items()) / total if total else 0.0


def stages_of(dataset: str, model: str) -> tuple[str, ...]:
    """The fits of a cell in their order."""
    if model in (AUTO, REFERENCE):
        return ()
    return (_REFERENCE, _FIT) if model == MEAN and dataset != GP else (_FIT,)


def write_drawings(study: Study) -> None:
    """What the figures of the GP task show besides the models' answers."""
    write_arrays(study.out / GP / "priors.npz", prior_draws(study.variant))
    write_arrays(study.out / GP / "task.npz", task_draws(study.splits))


def _fit_means(study: Study, dataset: str, keep: Keep) -> dict[str, np.ndarray]:
    """The separate mean of every split and, for a UCI table, the reference f at all its rows."""
    reference = np.zeros(0, np.float32)
    if dataset != GP:
        x, y = tasks.scaled_table(dataset, study.data)
        stage = keep.stage(_REFERENCE)
        reference = tasks.fit_reference(x, y, study.variant, study.training, stage)
    data = _dataset(study, dataset, reference)
    mean = tasks.separate_mean(data, study.variant, study.training, keep.stage(_FIT))
    return {"mean": mean, "reference": reference, "rows": np.array(data.digest)}


def _judged(
    study: Study, dataset: str, model: str, keep: Keep
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Answers of a model as they are stored, and the scores of just these numbers."""
    means = read_arrays(result_path(study, dataset, MEAN).with_suffix(".npz"))
    data = _dataset(study, dataset, means["reference"])
    if str(means.get("rows", data.digest)) != data.digest:
        path = result_path(study, dataset, MEAN)
        got = "others, e.g. because unstable sorting differs between processors"
        raise UserError(f"the same rows in every split as in {path}", got, "use another `out`")
    found: dict[str, Any] = {}
    if model == AUTO:
        given, found["lengths"] = _assembled(study, dataset, data, means["mean"])
    else:
        watch = keep.stage(_FIT) if keep.paths else None
        given = tasks.answer(
            model, data, means["mean"], study.members, study.variant, study.training, watch
        )
    mean, std = given.mean.astype(np.float32), given.std.astype(np.float32)
    found["splits"], found["pooled"] = tasks.score(data, mean, std), tasks.pooled(data, mean, std)
    if given.mean is not means["mean"]:
        separate = tasks.score(data, means["mean"], std)
        for row, other in zip(found["splits"], separate, strict=True):
            row.update({f"{name}_separate": value for name, value in other.items()})
    return {"mean": mean, "std": std}, found


def _assembled(
    study: Study, dataset: str, data: Dataset, mean: np.ndarray
) -> tuple[Answer, list[float]]:
    """Each split's answer from the cell of the length that its training data chooses."""
    lengths = [choose_length_scale(*rows, unit=1.0) for rows in data.labelled]
    files = {
        length: read_arrays(result_path(study, dataset, f"rfn-{length:g}").with_suffix(".npz"))
        for length in set(lengths)
    }
    std = np.stack([files[length]["std"][split] for split, length in enumerate(lengths)])
    return Answer(mean, std), lengths


def _dataset(study: Study, name: str, reference: np.ndarray) -> Dataset:
    if name == GP:
        return tasks.synthetic(study.splits)
    table = tasks.scaled_table(name, study.data)
    return tasks.tabular(*table, reference, study.splits, study.variant.ties)


def _changes(study: Study, path: Path) -> dict[str, Any]:
    saved = read_json(path)
    return changed_settings(saved["settings"], study.settings(saved["model"]), DEFAULTS)


def _refuse_other_settings(study: Study, path: Path) -> None:
    changes = _changes(study, path) if path.is_file() else {}
    if changes:
        raise UserError(
            f"results of these settings in {path}",
            ", ".join(f"{name}={value}" for name, value in changes.items()),
            "choose another `out` directory, or delete the file",
        )


def _require_needs(study: Study, dataset: str, model: str) -> None:
    missing = [need for need in needs(model) if not is_finished(study, dataset, need)]
    if missing:
        cells = ", ".join(f"{dataset} {need}" for need in missing)
        raise UserError(
            f"finished cells for {dataset} {model}", f"no {cells}", "compute them first"
        )
