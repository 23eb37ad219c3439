"""A run that does not fit is refused before it takes any memory."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from scripted import Counter, Scripted

from devote.core.errors import UserError
from devote.loops import memory
from devote.loops.fused import FusedLoop, FusedProgram
from devote.loops.memory import available_bytes, device_bytes, group_bytes, tree_bytes
from devote.loops.schedule import LoopSettings
from devote.loops.train import Plan, train

GIB = 2**30
V2 = {"memory.max": "{}", "memory.current": "300", "memory.stat": "anon 9\ninactive_file 40"}
V1 = {
    "memory.limit_in_bytes": "{}",
    "memory.usage_in_bytes": "300",
    "memory.stat": "inactive_file 1\ntotal_inactive_file 40",
}


def test_bytes_of_a_tree_count_keys_and_every_entry() -> None:
    tree = {"a": jnp.zeros((3, 5)), "b": jnp.zeros(7, bool), "key": jax.random.key(0)}
    assert tree_bytes(tree) == 4 * 15 + 7 + 8


def test_a_run_that_does_not_fit_is_refused_before_anything_is_made(monkeypatch, tmp_path) -> None:
    settings = LoopSettings(num_envs=4, batch_size=8, replay_capacity=2**40)  # never allocated
    program = FusedProgram(FusedLoop(Scripted(), Counter(), settings), (0,))
    monkeypatch.setattr(memory, "available_bytes", lambda: 3 * GIB)
    with pytest.raises(UserError) as refusal:
        train(Plan(program, 2**38, tmp_path, {}), silent=True)
    words = str(refusal.value)
    assert "fits into the 3.0 GiB of free memory" in words
    assert "activations come on top" in words
    assert "lower replay_capacity" in words
    assert not (tmp_path / "metrics.csv").exists()


@pytest.mark.parametrize(("needed", "refused"), [(1000, False), (1001, True)])
def test_a_run_may_take_all_that_is_free_and_no_more(monkeypatch, needed, refused) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    if not refused:
        memory.require_memory(needed, 10)
        return
    with pytest.raises(UserError):
        memory.require_memory(needed, 10)


def test_where_nobody_knows_what_is_free_nothing_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    memory.require_memory(2**60, 0)


def group(folder: Path, files: dict[str, str], limit: str) -> None:
    """A made-up control group."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(content.format(limit) + "\n")


@pytest.mark.parametrize(
    ("line", "files", "inside"),
    [("0::/a/b", V2, "."), ("4:cpu,memory:/a/b", V1, "memory")],
)
@pytest.mark.parametrize(
    ("own", "outer", "left"),
    [
        ("1000", None, 740),  # what is cached is not in use
        ("1000", "500", 240),  # the tightest limit on the way up holds
        (None, "500", 240),  # a container sees its own group as the root
        (None, None, None),
    ],
)
def test_the_limit_of_a_container_holds(tmp_path, line, files, inside, own, outer, left) -> None:
    (tmp_path / "groups").write_text(f"9:name=systemd:/x\n7:cpuset:/\n{line}\n")
    for folder, limit in (("a/b", own), ("", outer)):
        if limit is not None:
            group(tmp_path / "mount" / inside / folder, files, limit)
    assert group_bytes(tmp_path / "groups", tmp_path / "mount") == left


def test_no_limit_and_no_groups_at_all_leave_all_to_the_host(tmp_path) -> None:
    (tmp_path / "groups").write_text("0::/a\n")
    group(tmp_path / "mount" / "a", V2, "max")
    assert group_bytes(tmp_path / "groups", tmp_path / "mount") is None
    assert group_bytes(tmp_path / "nowhere", tmp_path / "mount") is None


@pytest.mark.parametrize(
    ("device", "host", "limit", "free"),
    [
        (None, 7, 5, 5),
        (None, 5, 7, 5),
        (None, 7, None, 7),
        (None, None, None, None),
        (9, 7, 5, 9),
    ],
)
def test_the_least_of_what_is_told_is_free(monkeypatch, device, host, limit, free) -> None:
    told: dict[str, Any] = {"device_bytes": device, "host_bytes": host, "group_bytes": limit}
    for name, value in told.items():
        monkeypatch.setattr(memory, name, lambda value=value: value)
    assert available_bytes() == free


@pytest.mark.parametrize(
    ("said", "free"),
    [(None, None), ({"bytes_in_use": 3}, None), ({"bytes_limit": 10, "bytes_in_use": 3}, 7)],
)
def test_an_accelerator_says_what_is_free(monkeypatch, said, free) -> None:
    device = SimpleNamespace(memory_stats=lambda: said)
    monkeypatch.setattr(jax, "devices", lambda: [device])
    assert device_bytes() == free
