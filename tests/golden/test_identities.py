"""Results that were published keep their names: identities, places and commands of before.

`identities.csv` holds what the code computed when it was written: for a command with gaps the place
of its results, and the identity for every filling of the gaps. `python
tests/golden/test_identities.py` writes it anew, which is right only where identities are meant to
change; it says nothing of runs.csv, whose identities are those of the day on which they were run.
"""

import csv
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import project
import pytest

FILE = Path(__file__).with_name("identities.csv")
RESULTS = Path(__file__).parents[2] / "results"
MOVED_ON = {
    "results/tuning/desk": 48,
    "results/mountain_car": 15,
    "results/devote_plus/cartpole_sparse": 4,
    "results/tune/CartPole-v1-devote-desk-05acf6/check": 10,
}
"""Commands that name other runs now: they were written before the winners became the preset, or
before discrete actors of tasks that nobody has tuned learned towards the softmax of values."""
Lines = dict[tuple[str, str], dict[str, str]]
"""(command, place), both with gaps -> what fills the gaps -> identity."""


def recorded() -> Iterator[tuple[str, dict[str, str]]]:
    """Study and columns of every line of every runs.csv in the repository."""
    for path in sorted(RESULTS.rglob("runs.csv")):
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                yield path.parent.relative_to(RESULTS.parent).as_posix(), row


def found() -> Lines:
    """Identities as the code computes them now."""
    lines: Lines = {}
    for preset in project.PRESET_NAMES:
        for task in project.TASK_NAMES:
            for agent in project.AGENT_NAMES:
                cell = project.preset_cell(preset, task, agent)
                if cell is not None:
                    lines.setdefault((f"preset {preset} {task} *", ""), {})[agent] = cell.identity
    for _, row in recorded():
        _add(lines, project.cell_of(_words(row["command"])), row["command"])
    for _, _, cell in project.figure_cells():
        _add(lines, cell, cell.describe()["command"])
    return lines


def _add(lines: Lines, cell: Any, command: str) -> None:
    """A run under its seed, a fit under its dataset and model."""
    words, parts = command.split(" "), cell.record.as_posix().split("/")
    fills = []
    for flag in ("--seed", "--datasets", "--models"):
        if flag in words:
            fills.append(words[words.index(flag) + 1])
            words[words.index(flag) + 1] = "*"
    if len(fills) == 1:
        assert parts[-2].endswith(f"-seed{fills[0]}-{cell.identity}")
        parts[-2] = parts[-2].removesuffix(f"{fills[0]}-{cell.identity}") + "*"
    else:
        assert parts[-2:] == [fills[0], f"{fills[1]}.json"]
        parts[-2:] = ["*"]
    line = lines.setdefault((" ".join(words), "/".join(parts)), {})
    fill = " ".join(fills)
    assert line.setdefault(fill, cell.identity) == cell.identity


def _words(command: str) -> list[str]:
    return shlex.split(command)[2:]


def kept() -> Lines:
    """Identities as they were."""
    with open(FILE, newline="") as file:
        rows = [(row[:2], row[2].split(", ")) for row in csv.reader(file)]
    return {(a, b): dict(pair.rsplit(" ", 1) for pair in pairs) for (a, b), pairs in rows}


def write() -> None:
    """Make what the code computes now the identities that are kept."""
    with open(FILE, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for key, line in found().items():
            writer.writerow([*key, ", ".join(f"{fill} {name}" for fill, name in line.items())])


@pytest.mark.slow
def test_every_identity_and_place_is_what_it_was() -> None:
    now, then = found(), kept()
    assert sum(map(len, then.values())) > 2000
    for key, line in then.items():
        assert now.get(key, {}).items() >= line.items(), key


def test_every_recorded_run_is_found_by_its_command() -> None:
    others: dict[str, int] = {}
    for study, row in recorded():
        cell = project.cell_of(_words(row["command"]))
        assert project.cell_of(_words(project.command_of(cell))).run == cell.run
        if (cell.identity, str(cell.run.seed)) != (row["identity"], row["seed"]):
            others[study] = others.get(study, 0) + 1
    assert others == MOVED_ON


def test_seed_and_steps_of_a_command_are_read_too() -> None:
    """`cell_of` takes them out of the words, for it would take long to read them all."""
    for row in {study: row for study, row in recorded()}.values():
        words = _words(row["command"])
        assert project.typed(words) == project.cell_of(words).run


def test_every_published_run_is_one_that_its_figure_asks_for() -> None:
    """Also those whose commands name other runs by now."""
    asked: dict[str, set[str]] = {}
    for label, scale, cell in project.figure_cells():
        asked.setdefault(f"results/{label.split(':')[-1]}/{scale}", set()).add(cell.identity)
    asked["results/exploration"] = asked["results/exploration/desk"]
    published = [(study, row["identity"]) for study, row in recorded() if study in asked]
    assert len(published) > 400
    assert [pair for pair in published if pair[1] not in asked[pair[0]]] == []


def test_every_fit_is_found_by_its_command() -> None:
    fits = [(line[0], fills) for line, fills in kept().items() if "--datasets" in line[0]]
    assert sum(len(fills) for _, fills in fits) > 300
    for command, fills in fits:
        for fill, identity in fills.items():
            dataset, model = fill.split(" ")
            words = command.replace("*", dataset, 1).replace("*", model, 1)
            assert project.fit_of(shlex.split(words)[3:]) == identity, words


if __name__ == "__main__":
    write()
