"""Settings found by trials: Optuna proposes them, cells on tuning seeds try them out."""

import csv
import secrets
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from devote.core.durable import atomic_write_text
from devote.core.errors import UserError, extra
from devote.core.settings import digest, flat, require_known
from devote.experiments.comparison import Method, Study, TrainingCell, command
from devote.experiments.durations import Board, Durations
from devote.experiments.results import csv_text, final_value, metric_in_words, metric_of
from devote.experiments.runner import CellQueue, Engine, locked
from devote.figures.learning_curves import save_tuning
from devote.loops.signals import StopRequest
from devote.regression.table import markdown_table

TENTHS = 10  # of the budget: after each, a trial is held against the median of the others
UNPRUNED_TENTHS = 2  # in which nobody is given up
ENDED = ("COMPLETE", "PRUNED")  # states of Optuna's trials


@dataclass(frozen=True)
class Space:
    """The search space of a setting: a range, a factor around the preset's value, or choices."""

    low: float = 0.0
    high: float = 0.0
    log: bool = False
    times: float = 0.0
    """The range is the preset's value divided and multiplied by this, where given."""
    choices: tuple[str, ...] = ()

    def around(self, default: Any, given: bool = False) -> "Space":
        """A plain range; it includes the preset's value unless a user has given the range."""
        if self.times:
            return Space(default / self.times, default * self.times, log=True)
        if given:
            return self
        return replace(self, low=min(self.low, default), high=max(self.high, default))

    def texts(self) -> tuple[str, ...]:
        """The choices, or the ends of the range."""
        return self.choices or (f"{self.low:.3g}", f"{self.high:.3g}")

    def holds(self, value: Any) -> bool:
        """Whether a value lies in it."""
        return str(value) in self.choices if self.choices else self.low <= value <= self.high

    def suggest(self, trial: Any, name: str) -> str:
        """A value proposed by Optuna, with three digits."""
        if self.choices:
            return str(trial.suggest_categorical(name, self.choices))
        return f"{trial.suggest_float(name, self.low, self.high, log=self.log):.3g}"


def main_settings(agent: str) -> dict[str, Space]:
    """The search spaces of an agent's main settings."""
    with files("devote.experiments").joinpath("spaces.csv").open() as file:
        return dict(
            parse_space(f"{row['setting']}={row['space']}")
            for row in csv.DictReader(file)
            if {"all", agent} & set(row["agents"].split())
        )


def parse_space(text: str) -> tuple[str, Space]:
    """`name=low:high`, `name=low:high:log`, `name=x8` for a factor around the preset's value,
    `name=a,b,c`, or `name=value` for one that is fixed."""
    name, _, where = text.partition("=")
    ends, fix = where.split(":"), "as in optimism=0.1:10:log or optimiser=adam,laprop"
    if not name or not where or len(ends) > 3 or ends[2:] not in ([], ["log"]):
        raise UserError("name=low:high, name=low:high:log or name=a,b", text, fix)
    try:
        if len(ends) == 1 and where.startswith("x"):
            return name, Space(times=float(where[1:]))
        if len(ends) == 1:
            return name, Space(choices=tuple(where.split(",")))
        low, high = map(float, ends[:2])
    except ValueError as error:
        raise UserError(f"numbers as the ends of {name}", where, fix) from error
    if not low < high or (low <= 0 and len(ends) == 3):
        raise UserError(f"low below high for {name}, above 0 with log", where, fix)
    return name, Space(low, high, len(ends) == 3)


@dataclass(frozen=True)
class Tuning:
    """Trials of one agent on one task; `study` has both and the tuning seeds."""

    study: Study
    trials: int
    given: tuple[tuple[str, Space], ...] = ()  # search spaces given by the user

    @property
    def method(self) -> Method:
        """The agent before tuning."""
        return self.study.methods[0]

    @property
    def default(self) -> Any:
        """A run with the default settings."""
        return self.run_with({})

    @property
    def seeds(self) -> range:
        """Seeds of every trial."""
        return self.study.seeds(self.study.tasks[0])

    @property
    def spaces(self) -> dict[str, Space]:
        """Search spaces by setting, checked against the ranges of the settings."""
        known = flat(self.default.agent)
        require_known(dict(self.given), known, f"setting of {self.method.agent}")
        fixed, own = dict(self.method.changes), main_settings(self.method.agent)
        found = {n: space.around(known[n]) for n, space in own.items() if n not in fixed}
        found |= {name: space.around(known[name], given=True) for name, space in self.given}
        for name, text in [(name, text) for name, s in found.items() for text in s.texts()]:
            self.run_with({name: text}).check()
        return found

    @property
    def journal(self) -> Path:
        """Optuna's journal, shared by all processes with the same tuning."""
        asked = [self.study.scale.name, repr(self.study.tasks), repr(self.method)]
        asked += [repr(self.seeds), repr(self.study.metric), repr(sorted(self.spaces.items()))]
        name = f"{self.study.tasks[0].name}-{self.method.agent}-{digest({'asked': asked})[:8]}"
        return self.study.root / "tune" / f"{name}.journal"

    def run_with(self, changes: Mapping[str, str]) -> Any:
        """A run with some settings changed."""
        method = replace(self.method, changes=(*self.method.changes, *changes.items()))
        return self.study.run(self.study.tasks[0], method, self.seeds[0])

    def cells(self, changes: Mapping[str, str]) -> list[TrainingCell]:
        """The cells of a trial, one a seed."""
        run = self.run_with(changes)
        return [TrainingCell(replace(run, seed=seed), self.study.root) for seed in self.seeds]

    def open(self) -> Any:
        """Create or load Optuna's study."""
        with extra("tune"):
            import optuna
            from optuna.storages.journal import JournalFileBackend, JournalStorage
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.journal.parent.mkdir(parents=True, exist_ok=True)
        first = max(2, min(10, self.trials // 4))
        return optuna.create_study(
            study_name="tuning",
            storage=JournalStorage(JournalFileBackend(str(self.journal))),
            sampler=optuna.samplers.TPESampler(n_startup_trials=first),
            pruner=optuna.pruners.MedianPruner(first, UNPRUNED_TENTHS),
            direction="maximize",
            load_if_exists=True,
        )

    def run(self, engine: Engine) -> str | None:
        """Run trials until all processes together have enough; the signal that ended it early, if
        any."""
        with ExitStack() as held, StopRequest() as stop:
            tuner = _Tuner(self, self.open(), engine, held)
            try:
                while not stop.requested and tuner.advance():
                    pass
            finally:
                tuner.queue.stop()
            return stop.signal_name

    def score(self, cells: Sequence[TrainingCell], share: float = 1.0) -> float:
        """Score of a trial after a share of its steps: the mean over seeds; NaN before that."""
        found = []
        for cell in cells:
            table = cell.metrics()
            steps = table.get("step", np.zeros(0))
            reached = np.flatnonzero(steps >= share * cell.run.steps)
            if not len(reached):
                return float("nan")
            part = {name: column[: reached[0] + 1] for name, column in table.items()}
            metric = metric_of(self.study, part)
            found.append(final_value(metric, part["step"], part[metric]))
        return float(np.mean(found))

    def best(self) -> tuple[dict[str, str], float] | None:
        """The settings of the best trial so far, and its score; None before the first."""
        done = [t for t in self.finished() if t.state.name == "COMPLETE"]
        if not done:
            return None
        trial = max(done, key=lambda t: t.value)
        return dict(trial.user_attrs["changes"]), trial.value

    def finished(self) -> list[Any]:
        """Complete and pruned trials."""
        return trials_of(self.open(), *ENDED) if self.journal.is_file() else []


def trials_of(study: Any, *states: str) -> list[Any]:
    """Trials of an Optuna study that are in one of some states."""
    return study.get_trials(deepcopy=False, states=[_state(name) for name in states])


class _Tuner:
    """The trials of this process."""

    def __init__(self, tuning: Tuning, study: Any, engine: Engine, held: ExitStack) -> None:
        self.tuning, self.study, self.spaces = tuning, study, tuning.spaces
        self.folder = tuning.study.root / "work"
        board = Board([], Durations(), engine.slots, silent=True)
        self.queue = CellQueue(self.folder, engine, board, [])
        self.live: dict[Any, list[TrainingCell]] = {}  # Optuna's trials, and their cells by seed
        self.told: dict[Any, int] = {}  # tenths that were reported
        self.owner = secrets.token_hex(4)
        self.folder.mkdir(parents=True, exist_ok=True)
        assert locked(held.enter_context(self._lock(self.owner).open("a")))
        if not study.get_trials(deepcopy=False):  # the first is the default
            known = {n: (s, flat(tuning.default.agent)[n]) for n, s in self.spaces.items()}
            study.enqueue_trial(
                {n: str(v) if s.choices else v for n, (s, v) in known.items() if s.holds(v)}
            )

    def _lock(self, owner: str) -> Path:
        return self.folder / f"tuner-{owner}.lock"

    def advance(self) -> bool:
        """Start trials, wait briefly, report and prune; whether there is more to do."""
        self._adopt()
        while len(self.queue.waiting) + len(self.queue.running) < self.queue.engine.slots:
            if not self._begin():
                break
        self.queue.fill()
        self.queue.poll()
        for trial, cells in list(self.live.items()):
            self._look(trial, cells)
        # others may still be at theirs, or die at them
        return bool(self.live) or len(trials_of(self.study, *ENDED)) < self.tuning.trials

    def _adopt(self) -> None:
        """Requeue trials whose process has died; their cells resume from checkpoints."""
        for trial in trials_of(self.study, "RUNNING"):
            owner = trial.user_attrs.get("owner", self.owner)  # none for a moment, while it begins
            if owner != self.owner:
                with self._lock(owner).open("a") as lock:
                    still = trials_of(self.study, "RUNNING") if locked(lock) else []
                    if trial.number in [t.number for t in still]:  # nobody else has adopted it
                        self.study.tell(trial.number, state=_state("FAIL"))
                        self.study.enqueue_trial(trial.params)

    def _begin(self) -> bool:
        """Start a trial; False where there are enough."""
        if len(trials_of(self.study, *ENDED, "RUNNING")) >= self.tuning.trials:
            return False
        trial = self.study.ask()
        trial.set_user_attr("owner", self.owner)
        changes = {name: space.suggest(trial, name) for name, space in self.spaces.items()}
        trial.set_user_attr("changes", changes)
        counted = trials_of(self.study, *ENDED, "RUNNING")
        if sum(t.number <= trial.number for t in counted) > self.tuning.trials:
            self.study.tell(trial, state=_state("FAIL"))  # another process was faster
            return False
        self.live[trial], self.told[trial] = self.tuning.cells(changes), 0
        self.queue.waiting += [cell for cell in self.live[trial] if not cell.finished()]
        return True

    def _look(self, trial: Any, cells: Sequence[TrainingCell]) -> None:
        """Report a trial's curve so far; end it where it is finished, failed or pruned."""
        for cell in [cell for cell in cells if cell.identity in self.queue.failed]:
            return self._end(trial, f"given up: {self.queue.failed.pop(cell.identity)}")
        done = all(cell.finished() for cell in cells)
        for tenth in range(self.told[trial] + 1, TENTHS):
            value = self.tuning.score(cells, tenth / TENTHS)
            if np.isnan(value) and not done:
                return None
            self.told[trial] = tenth
            if not np.isnan(value):
                trial.report(value, tenth)
                if not done and trial.should_prune():
                    return self._end(trial, f"below the median at {tenth * 10} %")
        if done:
            value = self.tuning.score(cells)
            known = np.isfinite(value)
            self._end(trial, f"{value:.4g}" if known else "no value", value if known else None)

    def _end(self, trial: Any, words: str, value: float | None = None) -> None:
        self.queue.stop(self.live.pop(trial))
        trial.set_user_attr("words", words)
        self.study.tell(trial, value, _state("PRUNED") if value is None else None)
        changes = " ".join(f"{n}={v}" for n, v in trial.user_attrs["changes"].items())
        print(f"trial {trial.number}: {words}; {changes}", flush=True)


def _state(name: str) -> Any:
    import optuna

    return optuna.trial.TrialState[name]


def write_tuning(tuning: Tuning, out: Path, typed: str) -> list[Path]:
    """Write table, figure and README of all trials; nothing before the first complete one."""
    best, trials = tuning.best(), tuning.finished()
    if best is None:
        return []
    from optuna.importance import get_param_importances

    changes, value = best
    # Optuna gives a pruned trial the last value that it reported, which is of a shorter run
    scores = [(t.number, t.value if t.state.name == "COMPLETE" else None) for t in trials]
    whole = [score for _, score in scores if score is not None]
    varied = len(set(whole)) > 1 and len(whole) > 3
    weights = get_param_importances(tuning.open()) if varied else {}
    cell = next(c for c in tuning.cells(changes) if c.finished())
    metric, record = metric_in_words(metric_of(tuning.study, cell.metrics())), cell.recorded()
    assert record is not None
    rows = [
        {"trial": number, "score": "" if score is None else f"{score:.5g}"}
        | dict(t.user_attrs["changes"])
        | {"outcome": t.user_attrs["words"]}
        for t, (number, score) in zip(trials, scores, strict=True)
    ]
    run = replace(tuning.run_with(changes), seed=0)
    task, seeds = tuning.study.tasks[0], ", ".join(map(str, tuning.seeds))
    caption = (
        f"{tuning.method.name} in {task.title or task.name}, preset {tuning.study.scale.preset}, "
        f"{len(trials)} trials on seed{'s' * (len(tuning.seeds) > 1)} {seeds}; score: {metric}"
    )
    out.mkdir(parents=True, exist_ok=True)
    picture = save_tuning(out / "tuning.png", caption, metric, scores, weights)
    table = markdown_table(list(rows[0]), [list(row.values()) for row in rows])
    readme = (
        f"# Trials of {tuning.method.name}\n\n{caption}.\n\n    {typed}\n\nThe best scores "
        f"{value:.4g}, finished {record['finished']} on {record['machine']}:\n\n    {command(run)}"
        f"\n\n![history and importance]({picture.name})\n\n{table}\n"
    )
    texts = {"trials.csv": csv_text(rows), "table.md": f"{caption}\n\n{table}\n"}
    for name, text in (texts | {"README.md": readme}).items():
        atomic_write_text(out / name, text)
    print(f"best: {value:.4g}\n{command(run)}")
    return [picture, *(out / name for name in texts), out / "README.md"]
