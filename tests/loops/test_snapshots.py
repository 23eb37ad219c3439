"""Maps of a run: the same in both loops, without influence on it, and never half a file."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hosts import SETTINGS, counter_bins, program
from safetensors.numpy import load_file
from scripted import LIMIT, Counter, Scripted

from devote.core.arrays import write_npz
from devote.core.errors import UserError
from devote.core.types import Box, Grid
from devote.loops import snapshots
from devote.loops.fused import FusedLoop, FusedProgram
from devote.loops.metrics_log import read
from devote.loops.train import Plan, train

CHUNK = SETTINGS.log_interval
STEPS = 4 * CHUNK
EVERY = {"map_interval": CHUNK, "checkpoint_interval": 2 * CHUNK}


class Seen(Counter):
    """Counter whose grid knows the bins of observations."""

    spec = replace(Counter.spec, grid=replace(Counter.spec.grid, bin_of=counter_bins))


class Mapped(Scripted):
    """Thinks of every state ten times its age, and of all alike 1e6."""

    def maps(self, state: Any, obs: Any) -> Any:
        return {"age": 10 * obs[:, 0], "large": jnp.full(len(obs), 1e6)}


def fused(seeds: tuple[int, ...] = (0,), **changes: Any) -> FusedProgram:
    loop = FusedLoop(Mapped(), Seen(), replace(SETTINGS, **{**EVERY, **changes}))
    return FusedProgram(loop, seeds)


def run(made: Any, directory: Path, steps: int = STEPS) -> Path:
    train(Plan(made, steps, directory, {"length": 1}), silent=True)
    return directory


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((directory / "maps").iterdir())}


def metrics(directory: Path) -> dict[str, str]:
    table = read(directory / "metrics.csv")
    return {name: str(x.tolist()) for name, x in table.items() if not name.startswith("time/")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(fused(), tmp_path_factory.mktemp("whole") / "run")


def test_a_snapshot_holds_the_first_steps_every_interval_and_the_last_step(whole: Path) -> None:
    steps = [24, *read(whole / "metrics.csv")["step"]]
    found = list(snapshots.read_all(whole / "maps"))
    assert [snapshot.step for snapshot in found] == steps
    assert found[-1].seeds == (0,)
    assert found[-1].names == ["visits", "age", "large"]
    assert found[-1].arrays["large"].dtype == np.float32  # more than half precision holds


def test_values_are_means_over_replayed_states_and_visits_are_exact(whole: Path) -> None:
    *_, last = snapshots.read_all(whole / "maps")
    visits, ages = last.arrays["visits"][0], last.arrays["age"][0]
    saved = load_file(max(whole.glob("checkpoints/*/state.safetensors")))
    np.testing.assert_array_equal(visits, saved[".visits"])
    seen = last.arrays["weights"][0] > 0
    # the end of an episode is acted in by nobody, and bin 1 counts nowhere
    assert seen.tolist() == [True, False, *[True] * (LIMIT - 2), False]
    np.testing.assert_array_equal(ages[seen], 10 * np.flatnonzero(seen))
    assert np.isnan(ages[~seen]).all()


def test_the_path_follows_the_last_steps_of_some_environments(whole: Path) -> None:
    *_, last = snapshots.read_all(whole / "maps")
    path, first = last.arrays["path"][0], last.arrays["first"][0]
    assert path.shape == first.shape == (LIMIT, 4)
    assert (path[first] == 0).all()
    later = ~first[1:] & (path[1:] > 1) & (path[:-1] > 1)
    assert (path[1:] - path[:-1])[later].tolist() == [1] * later.sum()
    assert later.any()
    early = next(iter(snapshots.read_all(whole / "maps")))
    assert (early.arrays["path"][0] == -1).any()  # there were fewer steps than a path has


def test_maps_change_no_number(whole: Path, tmp_path: Path) -> None:
    other = run(fused(map_interval=0), tmp_path)
    assert not (other / "maps").exists()
    assert metrics(other) == metrics(whole)
    states = [max(run.glob("checkpoints/*/state.safetensors")) for run in (other, whole)]
    assert states[0].read_bytes() == states[1].read_bytes()


def test_a_run_shorter_than_the_interval_has_none(tmp_path: Path) -> None:
    assert not (run(fused(map_interval=STEPS), tmp_path, STEPS - 1) / "maps").exists()


def test_both_loops_write_the_same_bytes(whole: Path, tmp_path: Path) -> None:
    assert files(run(program(agent=Mapped(), **EVERY), tmp_path)) == files(whole)


def test_a_run_that_goes_on_drops_what_it_will_draw_again(whole: Path, tmp_path: Path) -> None:
    run(fused(), tmp_path, 2 * CHUNK)
    stale = tmp_path / "maps" / f"step_{3 * CHUNK:09d}-{'0' * 16}.npz"
    torn = tmp_path / "maps" / f".{stale.name}.1.tmp"
    stale.touch()
    torn.touch()
    run(fused(), tmp_path)
    assert not stale.exists()
    assert not torn.exists()
    assert files(tmp_path) == files(whole)


def test_every_seed_has_its_own(tmp_path: Path) -> None:
    *_, last = snapshots.read_all(run(fused(seeds=(3, 4)), tmp_path, CHUNK) / "maps")
    assert last.seeds == (3, 4)
    assert last.arrays["visits"].shape == (2, LIMIT + 1)
    assert not np.array_equal(*last.arrays["visits"])


def flipped(content: bytes) -> bytes:
    return content[:100] + bytes([content[100] ^ 1]) + content[101:]


@pytest.mark.parametrize("damage", [flipped, lambda x: x[:-1], lambda x: b""])
def test_a_damaged_file_is_refused_and_left_out(whole: Path, tmp_path: Path, damage: Any) -> None:
    for name, content in files(whole).items():
        (tmp_path / name).write_bytes(content)
    second = sorted(tmp_path.iterdir())[1]
    second.write_bytes(damage(second.read_bytes()))
    with pytest.raises(UserError, match="damaged"):
        snapshots.read(second)
    assert len(list(snapshots.read_all(tmp_path))) == len(files(whole)) - 1


@pytest.mark.parametrize("large", [False, True])
def test_a_whole_file_of_something_else_is_refused(tmp_path: Path, large: bool) -> None:
    header = {"schema": 99, "step": 7}
    path = tmp_path / "x.npz"
    arrays = {"header": np.array(json.dumps(header))}
    write_npz(path, arrays | ({"map/a": np.zeros(2**26, np.uint8)} if large else {}))
    sealed = tmp_path / f"step_000000007-{snapshots._seal(path.read_bytes())}.npz"
    path.rename(sealed)
    with pytest.raises(
        UserError, match="more than 67,108,864 bytes" if large else "use the version"
    ):
        snapshots.read(sealed)


def test_middles_of_bins_give_maps_everywhere_and_arrows_where_actions_are_directions() -> None:
    every = np.ones(6, bool)
    every[4] = False
    middles = np.stack([np.arange(6.0), np.zeros(6)], axis=1).astype(np.float32)
    grid = Grid((2, 3), every, every, middles, bin_of=counter_bins)
    spec = replace(Counter.spec, action=Box(2), grid=grid)

    class Plane(Seen):
        pass

    Plane.spec = spec
    made = FusedProgram(FusedLoop(Mapped(spec), Plane(), SETTINGS), (0,))
    taken = snapshots.take(made, made.prefill(made.init()), 24)
    assert taken.arrays["arrows"].shape == (1, 6, 2)
    assert np.nanmax(np.abs(taken.arrays["arrows"])) <= 1
    np.testing.assert_array_equal(taken.arrays["age"], [[0, 10, 20, 30, np.nan, 50]])
    assert "weights" not in taken.arrays
