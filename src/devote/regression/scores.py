"""Results of cells as estimates: over splits, over sets, and what the automatic length costs."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from devote.measure.calibration import Estimate, over_sets, over_splits

COLUMNS = ("concrete", "energy", "kin8nm", "naval", "protein", "power", "wine", "yacht", "gp")
UCI = COLUMNS[:-1]
LENGTHS = ("rfn-0.25", "rfn-0.5", "rfn-1", "rfn-2", "rfn-4")
AUTO = "rfn-auto"
"""Put together from the cells of the fixed lengths."""
REFERENCE = "gp-exact"
"""No competitor: it knows the kernel and the noise of the GP task."""
AUROC, RHO, POOLED = "auroc_y", "rho_f", "pooled_rho_f"
"""Headline choices: a misfit errs against the observation, the correlation is with |f - mu|."""


class Cell(NamedTuple):
    """A model on a dataset: every score of every split, and how long it took."""

    model: str
    dataset: str
    splits: Mapping[str, Sequence[float]]
    seconds: float = 0.0
    pooled: Mapping[str, float] = {}
    """Scores of the points of all splits together."""
    lengths: Sequence[float] = ()
    """What the automatic length scale chose in every split."""

    def estimate(self, score: str) -> Estimate:
        """Over the splits that have a value; NaN where the score is not known."""
        if score in self.pooled:
            return Estimate(self.pooled[score], float("nan"), self.asked)
        return over_splits(self.splits.get(score, ()))

    @property
    def asked(self) -> int:
        """How many splits there are, with a value or without."""
        return len(next(iter(self.splits.values()), ()))

    @property
    def scores(self) -> list[str]:
        """Names of all scores."""
        return [*self.splits, *self.pooled]


def read_cell(result: Mapping[str, Any]) -> Cell:
    """A cell from what was written of it."""
    nan, rows = float("nan"), result["splits"]
    splits = {name: [nan if row[name] is None else row[name] for row in rows] for name in rows[0]}
    pooled = {f"pooled_{n}": nan if v is None else v for n, v in result["pooled"].items()}
    lengths = result.get("lengths", ())
    return Cell(result["model"], result["dataset"], splits, result["seconds"], pooled, lengths)


def find(cells: Sequence[Cell], model: str, score: str, column: str) -> Estimate:
    """The score of a model on a dataset, or "mean": over the UCI sets that the cells have, NaN
    where the model lacks one of them."""
    found = {c.dataset: c.estimate(score) for c in cells if c.model == model}
    nothing = Estimate(float("nan"), float("nan"), 0)
    if column == "mean":
        there = {cell.dataset for cell in cells}
        return over_sets([found.get(name, nothing) for name in UCI if name in there])
    return found.get(column, nothing)


def regret(cells: Sequence[Cell], score: str = AUROC) -> dict[str, Estimate]:
    """Per dataset, how far the automatic length is below the best of the fixed ones.

    The best is that with the highest mean over splits; the standard error is that of the
    difference, split by split. "mean" is over the UCI sets that are there.
    """
    found = {(c.model, c.dataset): np.asarray(c.splits[score]) for c in cells if c.splits}
    complete = [n for n in COLUMNS if all((m, n) in found for m in (*LENGTHS, AUTO))]
    regrets = {}
    for name in complete:
        means = {m: over_splits(found[m, name].tolist()).mean for m in LENGTHS}
        best = max(LENGTHS, key=lambda m: np.nan_to_num(means[m], nan=-np.inf))
        regrets[name] = over_splits((found[best, name] - found[AUTO, name]).tolist())
    sets = [regrets[name] for name in complete if name in UCI]
    return regrets | ({"mean": over_sets(sets)} if sets else {})
