"""Small runs give the numbers of before, killed or not, and go on from a checkpoint of before.

The last bits of a number depend on the processor, on JAX and on how programs are compiled, so the
first two rows of metrics are compared with `values.json` to one part in ten thousand. Compiled with
and without optimisations they differ by one part in a million, in the cheetah, whose contacts make
rounding grow, by two in a hundred thousand; that one is held to one in a thousand. Another order of
keys or another batch changes the first digits. All pairs of agents and tasks, to the last bit, are
in `record.py`.

`python tests/golden/test_runs.py` writes `values.json` anew, for when numbers are meant to change.
`before` was written by `begin`, once; its worth is that it is never written again.
"""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import project
import pytest
from record import SCHEDULE, TASKS, digest, kill, outcome, rows_of, words_of

from tiny import slow_but

BEFORE = Path(__file__).with_name("before")
VALUES = Path(__file__).with_name("values.json")
PAIRS = (
    ("spiral", "sombrl"),
    ("deep_sea", "devote-no-tud"),
    ("cheetah", "thompson"),
    ("CartPole-v1", "devote"),
)
"""Every agent and every task once; to compile all sixteen would take minutes."""
STEPS = 384
"""Rows at 144, 224, 304 and 384, checkpoints at 224 and 384."""
BEGUN, CONTINUED = 224, 384
TINY = {
    "episode_length": 20,
    "num_envs": 4,
    "batch_size": 8,
    "replay_capacity": 128,
    "num_features": 8,
    "critic_width": 8,
    "actor_width": 8,
    "eval_interval": 0,
    "reset_interval": 100_000,
}
NEAR, CHAOTIC = 1e-4, 1e-3
NOTHING = 1e-6
"""Below this a number is as good as 0."""
PLACES = np.linspace([2.0, 2.0], [30.0, 30.0], 7, dtype=np.float32)


def run_words(task: str, agent: str) -> list[str]:
    """A run without anything rare, which would have to be compiled."""
    words = [task, "--agent", agent, *TASKS[task]]
    return words_of(words, STEPS, eval_interval=0, reset_interval=0)


def before_words(steps: int) -> list[str]:
    """The run of which there is a checkpoint, up to some step."""
    return words_of(["spiral", "--agent", "devote"], steps, **TINY)


def begin() -> None:
    """Write `before`: a run with a checkpoint, and a model."""
    model = project.learn("spiral", BEGUN, BEFORE / "run", **(SCHEDULE | TINY))
    model.save(BEFORE / "model")
    (BEFORE / "run" / ".lock").unlink()


def form(found: dict[str, Any]) -> str:
    """Hash of what a state is made of: names, kinds and shapes."""
    return digest(json.dumps(sorted((n, t.rsplit(" ", 1)[0]) for n, t in found["leaves"].items())))


def numbers(rows: list[dict[str, str]]) -> dict[str, list[float]]:
    """Rows of metrics as columns of numbers; what is not known is NaN."""
    return {name: [float(row[name] or "nan") for row in rows] for name in rows[0]}


def require_close(
    rows: list[dict[str, str]], expected: list[dict[str, str]], share: float = NEAR
) -> None:
    """The same columns in the same order, and values that differ by rounding alone."""
    mine, theirs = numbers(rows), numbers(expected)
    assert list(mine) == list(theirs)
    for name, values in mine.items():
        np.testing.assert_allclose(values, theirs[name], share, NOTHING, err_msg=name)


@pytest.fixture(scope="module")
def values() -> dict[str, Any]:
    return json.loads(VALUES.read_text())


@pytest.mark.parametrize(("task", "agent"), slow_but(PAIRS[1:2] + PAIRS[3:], PAIRS))
def test_numbers_are_those_of_before_also_after_a_kill(
    task: str, agent: str, values: dict[str, Any], tmp_path: Path
) -> None:
    words = run_words(task, agent)
    plan = project.plan(words, tmp_path)
    project.train(plan)
    whole, expected = outcome(tmp_path), values[f"{task} {agent}"]
    rows = rows_of(tmp_path)
    require_close(rows[:2], expected["rows"], CHAOTIC if task == "cheetah" else NEAR)
    assert form(whole) == expected["form"]
    kill(tmp_path)
    project.train(plan if project.can_go_on(plan) else project.plan(words, tmp_path))
    if task == "CartPole-v1":  # Gymnasium cannot save it: its episodes start again
        assert rows_of(tmp_path)[:2] == rows[:2]
        assert form(outcome(tmp_path)) == form(whole)
    else:
        assert outcome(tmp_path) == whole


def test_a_run_that_was_begun_before_goes_on(values: dict[str, Any], tmp_path: Path) -> None:
    shutil.copytree(BEFORE / "run", tmp_path / "run")
    project.train(project.plan(before_words(CONTINUED), tmp_path / "run"))
    rows = rows_of(tmp_path / "run")
    assert rows[:2] == rows_of(BEFORE / "run")
    assert [row["step"] for row in rows] == ["144", "224", "304", "384"]
    require_close(rows[2:], values["before"]["rows"])
    assert form(outcome(tmp_path / "run")) == form(outcome(BEFORE / "run"))


def test_a_model_that_was_saved_before_is_loaded(values: dict[str, Any]) -> None:
    actions = project.load(BEFORE / "model").predict(PLACES)
    np.testing.assert_allclose(actions, values["before"]["actions"], NEAR, NOTHING)


def write() -> None:
    """Make what the code computes now the values that are expected."""
    found: dict[str, Any] = {}
    for task, agent in PAIRS:
        with tempfile.TemporaryDirectory() as folder:
            project.train(project.plan(run_words(task, agent), Path(folder)))
            entry = {"form": form(outcome(Path(folder))), "rows": rows_of(Path(folder))[:2]}
            found[f"{task} {agent}"] = entry
    with tempfile.TemporaryDirectory() as folder:
        project.train(project.plan(before_words(CONTINUED), Path(folder)))
        actions = project.load(BEFORE / "model").predict(PLACES).tolist()
        found["before"] = {"rows": rows_of(Path(folder))[2:], "actions": actions}
    VALUES.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    write()
