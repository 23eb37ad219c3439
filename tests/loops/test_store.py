"""What a run directory holds is continued, or refused with a reason, and never lost in silence."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hosts import SETTINGS
from scripted import Counter, Scripted

from devote import Sac
from devote.core.errors import DivergedError, UserError
from devote.loops import checkpoint
from devote.loops.fused import FusedLoop, FusedProgram
from devote.loops.progress import Reporter
from devote.loops.run_dir import DirectoryStore, RunDirectory
from devote.loops.train import Plan, Training, train

STEPS = 2 * SETTINGS.log_interval


def run(directory: Path, steps: int = STEPS, settings: dict[str, Any] | None = None) -> int:
    program = FusedProgram(FusedLoop(Scripted(), Counter(), SETTINGS), (0,))
    return train(Plan(program, steps, directory, settings or {"length": 1}), silent=True).step


class Refreshing(Scripted):
    """Its soft reset leaves a mark."""

    def refresh(self, state: Any, key: jax.Array) -> Any:
        return state | {"weight": state["weight"] + jax.random.normal(key)}


def test_a_due_reset_comes_before_the_next_update_and_never_after_the_last(tmp_path: Path) -> None:
    chunk = SETTINGS.chunk_steps()
    loop = replace(SETTINGS, reset_interval=chunk, eval_interval=0, checkpoint_interval=chunk)
    program = FusedProgram(FusedLoop(Refreshing(), Counter(), loop), (0,))
    whole = SETTINGS.whole_steps(0, 1) + 4 * chunk

    def training(name: str) -> Training:
        store = DirectoryStore(tmp_path / name, {})
        begun = Training(program, Reporter(whole, silent=True), store)
        begun.begin()
        return begun

    def learned(name: str, *ends: int) -> Any:
        """The state after starts that end, or are killed, at so many chunks."""
        for chunks in ends:
            with RunDirectory(tmp_path / name):
                begun = training(name)
                for _ in range(chunks):
                    begun.advance()
                assert begun.reset_due  # after every chunk, the last included
        return jax.tree.map(
            np.asarray, begun.state._replace(key=jax.random.key_data(begun.state.key))
        )

    uninterrupted = learned("whole", 4)
    # a checkpoint is written after each chunk, before the reset: here everything after it is lost
    for ends in ((1, 1, 2), (3, 1), (2, 2)):
        jax.tree.map(np.testing.assert_array_equal, learned(str(ends), *ends), uninterrupted)
    resets = uninterrupted.agent["weight"] - learned("one", 1).agent["weight"]
    assert resets != 0


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("run") / "finished"
    run(directory)
    return directory


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished, tmp_path / "copy")


def unmounted(folder: Path) -> None:
    shutil.rmtree(folder)


def emptied(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("")


@pytest.mark.parametrize("lose", [unmounted, emptied, a_file])
def test_metrics_outlive_checkpoints_that_are_out_of_reach(
    copy: Path, lose: Callable[[Path], None]
) -> None:
    before = (copy / "metrics.csv").read_bytes()
    lose(copy / "checkpoints")
    with pytest.raises((UserError, OSError)):
        run(copy)
    assert (copy / "metrics.csv").read_bytes() == before


def test_a_run_killed_before_its_first_checkpoint_starts_again(finished: Path, copy: Path) -> None:
    shutil.rmtree(copy / "checkpoints")
    (copy / "progress.json").write_text('{"saved_step": null}')
    assert run(copy) == run(finished)


def cut(path: Path) -> None:
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


def doubled(path: Path) -> None:
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines, lines[-1]]))


def reordered(path: Path) -> None:
    header, *lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([header, *lines[::-1]]))


def one_digit(path: Path) -> None:
    path.write_text(path.read_text().replace("0.", "1.", 1))


@pytest.mark.parametrize("harm", [Path.unlink, cut, doubled, reordered, one_digit])
def test_changed_metrics_are_noticed(copy: Path, harm: Callable[[Path], None]) -> None:
    metrics = copy / "metrics.csv"
    harm(metrics)
    left = metrics.read_bytes() if metrics.exists() else None
    with pytest.raises(UserError, match=r"as it was when step .* was saved"):
        run(copy, 2 * STEPS)
    assert left == (metrics.read_bytes() if metrics.exists() else None)


def test_a_checkpoint_belongs_to_its_settings_even_without_their_file(copy: Path) -> None:
    (copy / "settings.json").unlink()
    with pytest.raises(UserError, match="checkpoints of other settings"):
        run(copy, settings={"length": 2})
    assert not (copy / "settings.json").exists()
    assert run(copy) >= STEPS


LINKED = ["checkpoints", ".lock", "figures", "metrics.csv", "tensorboard", "tensorboard/seed_0"]


@pytest.mark.parametrize("name", LINKED)
def test_no_link_is_followed_out_of_the_directory(copy: Path, tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    if (copy / name).exists():
        (copy / name).rename(elsewhere)
    (copy / name).parent.mkdir(exist_ok=True)
    (copy / name).symlink_to(elsewhere)
    with pytest.raises(UserError, match="a link to"):
        run(copy, 2 * STEPS)


def test_a_checkpoint_of_a_newer_version_is_left_alone(copy: Path) -> None:
    for path in (copy / "checkpoints").rglob("manifest.json"):
        manifest = json.loads(path.read_text())
        manifest.pop("sha256")
        path.write_bytes(checkpoint._seal(manifest | {"schema": checkpoint.SCHEMA + 1}))
    with pytest.raises(UserError, match="newer version of devote"):
        run(copy, 2 * STEPS)


def test_what_cannot_be_continued_is_not_saved(tmp_path: Path) -> None:
    program = FusedProgram(FusedLoop(Scripted(), Counter(), SETTINGS), (0,))
    with RunDirectory(tmp_path):
        training = Training(program, Reporter(STEPS, silent=True), DirectoryStore(tmp_path, {}))
        training.begin()
        training.end()
        agent = training.state.agent | {"weight": jnp.float32(jnp.nan)}
        training.state = training.state._replace(
            agent=agent, clock=training.state.clock._replace(vector_steps=jnp.int32(99))
        )
        with pytest.raises(DivergedError, match="weight"):
            training.end()
    found = checkpoint.newest(tmp_path / "checkpoints")
    assert found is not None
    assert found[0].name == f"step_{training.saved_step:09d}"


def test_two_models_in_turns_do_not_mix_their_runs(tmp_path: Path) -> None:
    def model() -> Sac:
        return Sac("spiral", preset="smoke", directory=tmp_path / "run", eval_interval=0)

    one, other = model(), model()
    one.learn(500, progress_bar=False)
    other.learn(1_000, progress_bar=False)
    with pytest.raises(UserError, match="another model or process"):
        one.learn(500, progress_bar=False)
