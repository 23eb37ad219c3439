"""`devote compare`, `devote figure` and `devote figures`."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from devote.core.errors import UserError
from devote.core.settings import require_known
from devote.experiments.catalogue import ABSENT, FIGURES
from devote.experiments.compare import (
    Compare,
    command_of,
    output_of,
    require_buildable,
    study_of,
)
from devote.experiments.coverage import figure_of
from devote.experiments.durations import Durations, expected, in_words
from devote.experiments.figure import Figure
from devote.experiments.runner import Outcome, available_cores, run_cells
from devote.loops.signals import exit_code
from devote.regression.uci import VARIABLE

LINE = "{:<33} {:>7} {:>8}  {:<20} {}"
ScaleName = Literal["smoke", "desk", "paper"]


@dataclass(frozen=True)
class Make:
    """Make one figure or table of the paper: run what is missing, then draw."""

    label: tyro.conf.Positional[str]
    """A label that `devote figures` lists."""
    scale: ScaleName = "desk"
    """smoke: seconds; desk: two cores; paper: the paper's own settings."""
    only: tuple[str, ...] = ()
    """Tasks to run; the figure shows whatever there is."""
    draw_only: bool = False
    """Run nothing."""
    keep: bool = False
    """Do not make again runs that are recorded in the directory of results, though not on this
    disk."""
    out: Path | None = None
    """Where it is written; results/LABEL/SCALE where not given."""
    runs: Path = Path("runs")
    """Directory of the runs, which all figures share."""
    data: Path | None = None
    """Directory of the UCI tables; else $DEVOTE_DATA, else the cache, else a download."""
    cores: int | None = None
    """Runs at a time, one core each; every core where not given."""


@dataclass(frozen=True)
class Listing:
    """What is run, what is missing, and how long it would take."""

    scale: ScaleName = "desk"
    """smoke: seconds; desk: two cores; paper: the paper's own settings."""
    runs: Path = Path("runs")
    """Directory of the runs."""


def compare_command(words: list[str]) -> int:
    """Compare agents; the same command goes on after an interruption."""
    asked = tyro.cli(Compare, args=words, prog="devote compare")
    study, command = study_of(asked), command_of(asked)
    figure = figure_of(study, output_of(asked))
    if asked.draw_only:
        return 0 if _draw(figure, figure.out, command) else 1
    require_buildable(study)
    return make(figure, figure.out, command, asked.runs, cores=asked.cores, keep=asked.keep)


def figure_command(words: list[str]) -> int:
    """Make one figure or table."""
    asked = tyro.cli(Make, args=words, prog="devote figure")
    if asked.label in [absent.label for absent in ABSENT]:
        raise UserError("a figure that the library makes", asked.label, "see: devote figures")
    require_known([asked.label], FIGURES, "figure")
    if asked.data is not None:
        if not asked.data.is_dir():
            raise UserError("a directory of UCI tables", asked.data, "change --data")
        os.environ[VARIABLE] = str(asked.data)  # for the processes that read them
    figure = FIGURES[asked.label](asked.scale, asked.runs)
    command = f"devote figure {asked.label} --scale {asked.scale}"
    if asked.draw_only:
        figure.cells(asked.only)  # refuses unknown names; what there is, is drawn whole
        return 0 if _draw(figure, asked.out or figure.out, command) else 1
    out = asked.out or figure.out
    return make(figure, out, command, asked.runs, asked.only, asked.cores, asked.keep)


def figures_command(words: list[str]) -> int:
    """List every figure and table."""
    asked = tyro.cli(Listing, args=words, prog="devote figures")
    durations, cores = Durations.known(asked.runs), len(available_cores())
    print(LINE.format("label", "done", "recorded", "time left", "shows"))
    for label, build in FIGURES.items():
        figure = build(asked.scale, asked.runs)
        outdated = len(figure.outdated())
        shows = figure.title + (f"; lacks {', '.join(figure.missing)}" if figure.missing else "")
        shows += f"; {outdated} of other settings" if outdated else ""
        shows += f"; drawn in {figure.out}" if (figure.out / "README.md").is_file() else ""
        print(LINE.format(label, *state(figure, durations, cores), shows))
    for absent in ABSENT:
        where = f" (see {absent.where})" if absent.where else ""
        print(
            LINE.format(
                absent.label, "-", "-", "not made yet" if not where else "-", absent.shows + where
            )
        )
    print(
        f"\nscale {asked.scale}; times for {cores} cores, from runs that were measured here or, "
        f"where there are none, elsewhere\nrecorded: in results, not on this disk; made again "
        f"without --keep\nmake one: devote figure LABEL --scale {asked.scale} --keep"
    )
    return 0


def state(figure: Figure, durations: Durations, cores: int) -> tuple[str, str, str]:
    """What is done here, what is recorded elsewhere, and how long the rest takes."""
    cells, recorded = figure.cells(), figure.recorded(figure.out)
    open_cells = [cell for cell in cells if not cell.finished()]
    rest = [cell for cell in open_cells if cell.identity not in recorded]
    seconds, unknown = expected(rest, durations, cores)
    left = in_words(seconds) if rest else "-"
    if unknown:
        left = f"{left} + {unknown} unknown" if unknown < len(rest) else "unknown"
    done = f"{len(cells) - len(open_cells)}/{len(cells)}"
    return done, str(len(recorded) or "-"), left


def make(
    figure: Figure,
    out: Path,
    command: str,
    root: Path,
    only: tuple[str, ...] = (),
    cores: int | None = None,
    keep: bool = False,
) -> int:
    """Run what is missing, draw what there is, and say what failed; the exit code."""
    cells, chosen = figure.cells(only), _cores(cores)
    for place in (root, out):
        _require_writable(place)  # now, not after hours of work
    if figure.missing:
        print(f"not in the library yet, left out: {', '.join(figure.missing)}")
    held = figure.recorded(out)
    recorded = [cell for cell in cells if cell.identity in held]
    if keep:
        cells = [cell for cell in cells if cell.identity not in held]
    elif recorded:
        print(
            f"{len(recorded)} runs are recorded in {out} but not on this disk; they are made again "
            "(--keep takes them as they are)"
        )
    outcome = run_cells(cells, root, chosen)
    if outcome.stopped_by is not None:
        left = sum(not cell.finished() for cell in cells)
        print(f"stopped by {outcome.stopped_by}; {left} left; the same command continues")
        return exit_code(outcome.stopped_by)
    _draw(figure, out, command)
    return _failures(outcome)


def _cores(number: int | None) -> list[int]:
    if number is not None and number < 1:
        raise UserError("at least one core", number, "raise --cores")
    return available_cores()[:number]


def _require_writable(place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    if not os.access(place, os.W_OK):
        raise UserError("a directory that can be written to", place, "name another place")


def _draw(figure: Figure, out: Path, command: str) -> bool:
    """Whether there was anything to draw."""
    written = figure.draw(out, command)
    print("".join(f"wrote {path}\n" for path in written) or "nothing is finished yet")
    for readme in [path for path in written if path.name == "README.md"]:
        print("".join(f"{x}\n" for x in readme.read_text().splitlines() if x.startswith("- ")))
    return bool(written)


def _failures(outcome: Outcome) -> int:
    for failure in outcome.failures:
        print(f"failed: {failure.name}: {failure.reason}")
    if outcome.failures:
        print("the same command tries the failed ones again")
    return 1 if outcome.failures else 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "compare": compare_command,
    "figure": figure_command,
    "figures": figures_command,
}
