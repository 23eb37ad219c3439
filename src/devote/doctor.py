"""Diagnose a run from its own metrics, maps and settings. A check returns the numbers that show a
problem, or None; `doctor.toml` puts them into words."""

import math
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import tyro

from devote.core.errors import UserError
from devote.core.settings import entries
from devote.loops import snapshots
from devote.loops.metrics_log import read
from devote.loops.run_dir import MAPS, METRICS, SETTINGS, read_settings
from devote.loops.snapshots import VISITS, WEIGHTS, Snapshot

NOVELTY = ("novelty |c + g|", "prediction error", "disagreement")
VALUE = ("novelty value rb", "intrinsic value")
Numbers = dict[str, Any] | None
"""What shows a problem; `form` says which, where a check finds more than one kind."""


@dataclass(frozen=True)
class Doctor:
    """What is wrong with a run, how that shows, and what to try."""

    run: Annotated[Path, tyro.conf.Positional]
    """Directory of a run, still training or finished."""


class Finding(NamedTuple):
    """One problem, in the first seed that has it."""

    name: str
    words: str
    evidence: str
    threshold: str
    remedy: str
    page: str
    seed: int


@dataclass(frozen=True)
class Patient:
    """One seed of a run: its settings by leaf name, rows of metrics, and maps in order of steps."""

    settings: dict[str, Any]
    table: dict[str, np.ndarray]
    maps: list[dict[str, np.ndarray]]
    last: Snapshot | None

    def of(self, name: str, default: float = 0.0) -> float:
        """A setting that is a number."""
        value = self.settings.get(name)
        return float(value) if isinstance(value, int | float) else default

    def late(self, name: str) -> float:
        """Mean of a metric over the last quarter of its rows; NaN where nothing was logged."""
        values = np.asarray(self.table.get(name, []), float)
        values = values[np.isfinite(values)]
        return float(values[-max(1, len(values) // 4) :].mean()) if len(values) else math.nan

    @property
    def rows(self) -> int:
        return len(self.table["step"])

    @property
    def step(self) -> float:
        return float(self.table["step"][-1])

    def map(self, names: Sequence[str], at: int = -1) -> np.ndarray | None:
        """A map by the first name that the agent has; None unless every bin has a value."""
        if not self.maps or WEIGHTS in self.maps[at]:
            return None
        found = [self.maps[at][name].astype(float) for name in names if name in self.maps[at]]
        return found[0] if found else None

    @cached_property
    def visited(self) -> np.ndarray:
        assert self.last is not None
        return (self.maps[-1][VISITS] > 0) & self.last.grid.eligible

    @cached_property
    def unseen(self) -> np.ndarray:
        """Reachable bins that were not visited."""
        assert self.last is not None
        return self.last.grid.eligible & self.last.grid.reachable & ~self.visited

    @cached_property
    def frontier(self) -> np.ndarray:
        """Unvisited bins next to a visited one."""
        assert self.last is not None
        seen = np.pad(self.visited.reshape(self.last.grid.shape), 1)
        near = seen[:-2, 1:-1] | seen[2:, 1:-1] | seen[1:-1, :-2] | seen[1:-1, 2:]
        return self.unseen & near.ravel()

    @property
    def reward(self) -> float:
        """Mean reward of a step."""
        names = ("rollout/ep_rew_mean", "rollout/ep_len_mean")
        total, length = (self.table.get(name, np.zeros(1)) for name in names)
        known = np.isfinite(total) & np.isfinite(length)
        return float(total[known].sum() / max(length[known].sum(), 1.0))

    @property
    def practised(self) -> bool:
        """Whether there were enough updates to judge what they come to."""
        return self.late("train/n_updates") >= 1000

    @property
    def horizon(self) -> float:
        return 1 / max(1 - self.of("discount"), 1e-6)

    def replays(self, updates: float) -> float:
        """How often a transition is replayed in so many updates, on average."""
        return updates * self.of("batch_size") / max(min(self.of("replay_capacity"), self.step), 1)


def stalled(p: Patient) -> Numbers:
    """No new bins for long, though the frontier still looks new."""
    covered, novelty = p.table.get("explore/coverage_reachable", np.ones(1)), p.map(NOVELTY)
    if novelty is None or p.rows < 8 or covered[-1] > 0.95 or not p.frontier.any():
        return None
    grew = p.table["step"][np.flatnonzero(np.diff(covered, prepend=-1.0) > 0)[-1]]
    quiet, ahead = 1 - grew / p.step, novelty[p.frontier].mean()
    floor = np.median(novelty[p.visited])
    told = {"grew": grew, "quiet": quiet, "covered": covered[-1], "ahead": ahead, "floor": floor}
    return told if quiet >= 0.3 and ahead >= 2 * floor else None


def value_bubble(p: Patient) -> Numbers:
    """The novelty value is highest where nothing is new."""
    value, novelty = p.map(VALUE), p.map(NOVELTY)
    if value is None or novelty is None or not p.frontier.any():
        return None
    bins = p.visited | p.unseen
    top = bins & (value >= np.quantile(value[bins], 0.9))
    there, floor = novelty[top].mean(), np.median(novelty[p.visited])
    ratio = value[p.frontier].mean() / max(value[top].mean(), 1e-12)
    ill = there < floor and ratio < 0.5 and value[top].mean() > 0
    return {"there": there, "floor": floor, "ratio": ratio} if ill else None


def floor_against_horizon(p: Patient) -> Numbers:
    """The residual on data, summed over the horizon, outweighs the novelty of unvisited bins."""
    novelty, floor = p.map(NOVELTY), p.late("explore/novelty")
    if novelty is None or not (p.practised and p.unseen.any() and math.isfinite(floor)):
        return None
    new, total = novelty[p.unseen].mean(), floor * p.horizon
    told = {"floor": floor, "horizon": p.horizon, "total": total, "new": new}
    return told if total >= 10 * new else None


def unknown_worthless(p: Patient) -> Numbers:
    """The novelty value drops where there is no data."""
    value = p.map(VALUE)
    if value is None or not p.unseen.any() or p.rows < 4:
        return None
    out, inside = value[p.unseen].mean(), value[p.visited].mean()
    return {"out": out, "inside": inside} if inside > 0 and out < 0.4 * inside else None


def corrector(p: Patient) -> Numbers:
    """The corrector leaves too much of the prior on data, or cancels it where there is none."""
    first, now, left = p.map(NOVELTY, 0), p.map(NOVELTY), p.late("explore/novelty")
    if first is None or now is None or not math.isfinite(left) or p.rows < 4:
        return None
    assert p.last is not None
    began = first[p.last.grid.eligible].mean()
    if left > 0.5 * began and p.practised:
        return {"form": "slow", "left": left, "began": began}
    if not p.unseen.any() or p.late("explore/coverage_reachable") > 0.8:
        return None
    new = now[p.unseen].mean()
    return {"form": "fast", "new": new, "began": began} if new <= 0.2 * began else None


def dormant(p: Patient) -> Numbers:
    """Many units of the exploration actor respond to nothing."""
    share = p.late("plasticity/dormant_frac")
    return {"share": share} if share > 0.3 else None


def entropy(p: Patient) -> Numbers:
    """Entropy far below its target, or still near that of the uniform policy."""
    actor = "explore" if "explore/entropy" in p.table else "train"
    now = p.late(f"{actor}/entropy")
    if p.last is None or not (math.isfinite(now) and p.practised):
        return None
    size = p.last.actions
    if p.last.discrete:
        top = math.log(max(size, 2))
        target = p.of("target_entropy_fraction") * top
        low = 0.1 * target
    else:
        top, target = size * math.log(2), size * p.of("target_entropy_per_dimension", -1.0)
        low = target - 2 * size
    high = target + 0.9 * (top - target)
    told = {"now": now, "target": target, "top": top, "low": low, "high": high}
    told |= {"weight": p.late(f"{actor}/ent_coef")}
    if now < low:
        return {"form": "collapsed", **told}
    random = now >= high and (actor == "explore" or p.reward)
    return {"form": "random", **told} if random else None


def length_scale(p: Patient) -> Numbers:
    """Before learning, neighbouring bins are unrelated, or the whole map is alike."""
    first = p.map(NOVELTY[:1], 0)
    if first is None or p.last is None or p.last.index or p.settings.get("prior") != "fourier":
        return None
    image = np.where(p.last.grid.eligible, first, np.nan).reshape(p.last.grid.shape)
    pairs = np.stack([image[:, :-1].ravel(), image[:, 1:].ravel()])
    pairs = pairs[:, np.isfinite(pairs).all(axis=0)]
    if pairs.shape[1] < 30:
        return None
    spread = float(np.nanstd(image)) / max(float(np.nanmean(image)), 1e-12)
    alike = float(np.corrcoef(pairs)[0, 1]) if spread > 0 else 0.0
    told = {"length": p.of("length_scale"), "alike": alike, "spread": spread}
    form = "long" if spread < 0.1 else "short" if alike < 0.15 else None
    return {"form": form, **told} if form else None


def flat_task_value(p: Patient) -> Numbers:
    """Rewards were collected, but the task value is no larger than those of a step or two."""
    reward, value, length = p.reward, p.late("train/target_mean"), p.late("rollout/ep_len_mean")
    horizon = min(p.horizon, length if math.isfinite(length) else 1.0)
    if reward == 0 or horizon < 5 or not p.practised:
        return None
    told = {"reward": reward, "value": value, "horizon": horizon}
    return told if abs(value) <= 2 * abs(reward) else None


def resets_outrun_replay(p: Patient) -> Numbers:
    """Soft resets follow each other faster than the replay comes round."""
    interval = p.of("reset_interval")
    seen = p.replays(interval * p.of("updates_per_step"))
    resets = p.of("reset_strength") > 0 and 0 < interval <= p.step
    return {"seen": seen, "interval": interval} if resets and seen < 0.5 else None


def too_few_updates(p: Patient) -> Numbers:
    """Hardly any replay since the first reward."""
    found = np.flatnonzero(np.nan_to_num(p.table.get("rollout/ep_rew_mean", np.zeros(1))) > 0)
    updates = p.table.get("train/n_updates")
    if not len(found) or updates is None:
        return None
    at, seen = p.table["step"][found[0]], p.replays(float(updates[-1] - updates[found[0]]))
    return {"at": at, "seen": seen} if p.step - at >= 0.25 * p.step and seen < 1 else None


CHECKS = {
    "stalled": stalled,
    "value bubble": value_bubble,
    "floor against horizon": floor_against_horizon,
    "unknown looks worthless": unknown_worthless,
    "corrector too slow or too fast": corrector,
    "dormant explorer": dormant,
    "entropy collapsed or never fell": entropy,
    "length scale far from the data's spacing": length_scale,
    "rewards seen but task value flat": flat_task_value,
    "reset interval against replay of rare transitions": resets_outrun_replay,
    "too few updates for the rewards found": too_few_updates,
}


def examine(
    settings: dict[str, Any], table: dict[str, np.ndarray], history: Sequence[Snapshot]
) -> list[Finding]:
    """All that is wrong with a run; what several seeds have is reported for the first of them."""
    sayings = tomllib.loads((resources.files("devote") / "doctor.toml").read_text())
    found: dict[str, Finding] = {}
    for patient, seed in _patients(settings, table, history):
        for name, check in CHECKS.items():
            told = None if name in found else check(patient)
            if told is not None:
                said = sayings[name].get(told.get("form"), sayings[name])
                words = [said[x].format(**told) for x in ("words", "seen", "threshold", "try")]
                page = "docs/watch.md#" + name.replace("'", "").replace(" ", "-")
                found[name] = Finding._make([name, *words, page, seed])
    return list(found.values())


def scope(history: Sequence[Snapshot]) -> str:
    """How many checks there are, and how many a run with these maps does not allow."""
    flat = [one for one in history if len(one.grid.shape) == 2]
    if not flat:
        return f"{len(CHECKS)} checks, of which 7 need maps over two axes; this run has none"
    if WEIGHTS in flat[-1].arrays:  # means over replayed states
        return f"{len(CHECKS)} checks, of which 6 need maps with a value in every bin"
    return f"{len(CHECKS)} checks"


def _patients(
    settings: dict[str, Any], table: dict[str, np.ndarray], history: Sequence[Snapshot]
) -> Iterator[tuple[Patient, int]]:
    plain = {name.rsplit(".", 1)[-1]: value for name, value in entries(settings)}
    flat = [one for one in history if len(one.grid.shape) == 2]
    for seed in map(int, np.unique(table.get("seed", []))):
        mine = {name: column[table["seed"] == seed] for name, column in table.items()}
        shown = [one for one in flat if seed in one.seeds]
        maps = [{n: a[one.seeds.index(seed)] for n, a in one.arrays.items()} for one in shown]
        yield Patient(plain, mine, maps, shown[-1] if shown else None), seed


def doctor(asked: Doctor) -> int:
    """Print what is wrong; 1 if anything is."""
    for name in (SETTINGS, METRICS):
        if not (asked.run / name).is_file():
            raise UserError(f"a run in {asked.run}", f"no {name} there", "name a run directory")
    history, table = list(snapshots.read_all(asked.run / MAPS)), read(asked.run / METRICS)
    if not len(table["step"]):
        raise UserError(f"rows in {asked.run / METRICS}", "none yet", "wait for the first")
    found = examine(read_settings(asked.run / SETTINGS), table, history)
    for one in found:
        print(f"{one.name} (seed {one.seed})\n  {one.words}\n  seen: {one.evidence}")
        print(f"  threshold: {one.threshold}\n  try: {one.remedy}\n  more: {one.page}\n")
    print(f"{len(found) or 'no'} finding{'s' * (len(found) != 1)} in {scope(history)}")
    return 1 if found else 0
