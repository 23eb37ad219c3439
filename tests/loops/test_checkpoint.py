"""Checkpoints: what goes in comes out, what does not fit is named, what is damaged is not used."""

import dataclasses
import json
import os
import shutil
import warnings
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file

from devote.core.errors import UserError
from devote.loops import checkpoint


class Pair(NamedTuple):
    left: Any
    right: Any


def odd_tree() -> Any:
    bits = np.random.default_rng(0).integers(0, 2**16, 64, dtype=np.uint16)
    return {
        "every bfloat16, nan and all": jnp.asarray(bits.view(ml_dtypes.bfloat16)),
        "key": jax.random.key(7),
        "keys": jax.random.split(jax.random.key(1, impl="rbg"), (2, 3)),
        "pair": Pair(jnp.float32(-0.0), [np.array(True), np.bool_(False), jnp.arange(3) > 1]),
        "empty": np.zeros((0, 3), np.int64),
        "wide": np.array([2**63 - 1, -(2**63)]),
        "big": np.uint64(2**64 - 1),
        "turned": np.arange(6.0).reshape(2, 3).T,
        "half": jnp.asarray([np.nan, np.inf, 6e-8], jnp.float16),
        "small": (jnp.int8(-3), np.array(1j, np.complex64)),
        "nothing": None,
        "ordered": OrderedDict(a=jnp.zeros((1, 1, 1)), b=()),
        'quote"\n\u2603': jnp.uint32(3),
    }


def raw(leaf: Any) -> tuple[type, str, tuple[int, ...], bytes]:
    data = leaf
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        data = jax.random.key_data(leaf)
    return type(leaf), str(leaf.dtype), leaf.shape, np.asarray(data).tobytes()


def state(step: int) -> dict[str, np.ndarray]:
    return {"w": np.full(50, step, np.float32), "count": np.array(step)}


def saved(directory: Path, *steps: int) -> Path:
    for step in steps:
        checkpoint.save(directory, step, state(step), {"at": step})
    return directory


def newest(directory: Path) -> int:
    restored = checkpoint.restore(directory, state(0))
    assert restored is not None
    step, tree, note = restored
    assert note == {"at": step}
    assert {name: raw(leaf) for name, leaf in tree.items()} == {
        name: raw(leaf) for name, leaf in state(step).items()
    }
    return step


def test_odd_tree_comes_back_bit_for_bit(tmp_path: Path) -> None:
    tree, note = odd_tree(), {"best": 0.1, "seeds": [1, None, True], "name": "\u2603"}
    path = checkpoint.save(tmp_path, 123, tree, note)
    assert path == tmp_path / "step_000000123"
    restored = checkpoint.restore(tmp_path, jax.tree.map(lambda leaf: leaf, tree))
    assert restored is not None
    assert (restored[0], restored[2]) == (123, note)
    assert jax.tree.structure(restored[1]) == jax.tree.structure(tree)
    assert jax.tree.map(raw, restored[1]) == jax.tree.map(raw, tree)


def test_shapes_alone_are_enough_to_restore(tmp_path: Path) -> None:
    tree = {"key": jax.random.key(3), "w": jnp.arange(4.0)}
    checkpoint.save(tmp_path, 0, tree, {})
    restored = checkpoint.restore(tmp_path, jax.eval_shape(lambda: tree))
    assert restored is not None
    assert jax.tree.map(raw, restored[1]) == jax.tree.map(raw, tree)


def test_library_reads_our_file(tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, 1, odd_tree(), {})
    tensors = load_file(path / "state.safetensors")
    np.testing.assert_array_equal(tensors["['turned']"], odd_tree()["turned"])
    stated = json.loads((path / "manifest.json").read_text())
    assert stated["versions"]["jax"] == jax.__version__
    assert stated["leaves"]["['turned']"] == {"shape": [3, 2], "dtype": "float64"}
    assert stated["leaves"].keys() == tensors.keys()


def test_root_leaf_and_empty_tree(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "leaf", 1, np.arange(3), {})
    restored = checkpoint.restore(tmp_path / "leaf", np.zeros(3, int))
    assert restored is not None
    assert restored[1].tolist() == [0, 1, 2]
    checkpoint.save(tmp_path / "empty", 1, {}, {})
    assert checkpoint.restore(tmp_path / "empty", {}) == (1, {}, {})


@pytest.mark.parametrize("leaf", [1.5, "text", np.array(["a"]), np.zeros(2, ">f4"), object()])
def test_unstorable_leaf_is_named(tmp_path: Path, leaf: object) -> None:
    with pytest.raises(UserError, match=r"\['bad'\]"):
        checkpoint.save(tmp_path, 1, {"bad": leaf}, {})
    assert not list(tmp_path.iterdir())


def test_nothing_saved_is_none(tmp_path: Path) -> None:
    assert checkpoint.restore(tmp_path / "absent", {}) is None
    (tmp_path / ".tmp_step_000000005").mkdir()
    (tmp_path / "step_5").mkdir()
    assert checkpoint.restore(tmp_path, {}) is None


def test_newest_are_kept_and_leftovers_removed(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2)
    leftover = tmp_path / ".tmp_step_000000009"
    shutil.copytree(tmp_path / "step_000000002", leftover)
    assert newest(tmp_path) == 2
    assert leftover.exists()  # a reader beside the run must not delete what is being written
    saved(tmp_path, 10**9 + 1)
    assert {path.name for path in tmp_path.iterdir()} == {"step_000000002", "step_1000000001"}
    checkpoint.prune(tmp_path, keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["step_1000000001"]
    with pytest.raises(UserError, match="keep"):
        checkpoint.prune(tmp_path, keep=0)


def test_same_step_again_replaces(tmp_path: Path) -> None:
    for value in (1, 2, 3):
        checkpoint.save(tmp_path, 5, {"w": np.array(value)}, {"value": value})
    assert checkpoint.restore(tmp_path, {"w": np.array(0)}) == (5, {"w": 3}, {"value": 3})
    assert [path.name for path in tmp_path.iterdir()] == ["step_000000005"]


@pytest.mark.parametrize(
    ("like", "words"),
    [
        (
            {"w": np.zeros(51, np.float32), "count": np.array(0)},
            r"float32\[51\] at \['w'\].*\[50\]",
        ),
        ({"w": np.zeros(50, np.float16), "count": np.array(0)}, r"float16.*\['w'\].*float32"),
        ({"w": np.zeros(50, np.float32)}, r"nothing at \['count'\]"),
        ({**state(0), "more": np.array(0)}, r"\['more'\]; got nothing"),
        ({"a": state(0)}, r"\['a'\]\['count'\]; got nothing.* 3 more"),
        ({"w": np.zeros(50, np.float32), "count": jax.random.key(0)}, r"key<fry>.*int64"),
    ],
)
def test_other_tree_is_refused_by_name(tmp_path: Path, like: Any, words: str) -> None:
    saved(tmp_path, 1, 2)
    with pytest.raises(UserError, match=words):
        checkpoint.restore(tmp_path, like)


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def swap_states(old: Path, new: Path) -> None:
    shutil.copy(old / "state.safetensors", new / "state.safetensors")


def swap_folders(old: Path, new: Path) -> None:
    shutil.rmtree(new)
    shutil.copytree(old, new)


def link_state(old: Path, new: Path) -> None:
    (new / "state.safetensors").rename(new.parent / "elsewhere")
    (new / "state.safetensors").symlink_to(new.parent / "elsewhere")


def link_folder(old: Path, new: Path) -> None:
    new.rename(new.parent / "elsewhere")
    new.symlink_to(new.parent / "elsewhere")


def nested_manifest(old: Path, new: Path) -> None:
    (new / "manifest.json").write_text("[" * 100_000)


def pipe_state(old: Path, new: Path) -> None:
    (new / "state.safetensors").unlink()
    os.mkfifo(new / "state.safetensors")


def reseal(new: Path, **changes: Any) -> None:
    stated = checkpoint.decode_manifest((new / "manifest.json").read_bytes())
    (new / "manifest.json").write_bytes(
        checkpoint.encode_manifest(dataclasses.replace(stated, **changes))
    )


def lying_header(old: Path, new: Path) -> None:
    like = {"w": np.zeros(25, np.float64), "count": np.array(0)}
    other = checkpoint.save(new.parent / "other", 2, like, {})
    shutil.copy(other / "state.safetensors", new)
    digest = checkpoint.digest_of(new / "state.safetensors")
    reseal(new, files={"state.safetensors": digest})


def schema_flipped(old: Path, new: Path) -> None:
    stated = (new / "manifest.json").read_text()
    (new / "manifest.json").write_text(stated.replace('"schema": 1', '"schema": 3'))


def sealed_nonsense(old: Path, new: Path) -> None:
    (new / "manifest.json").write_bytes(checkpoint._seal({"schema": 1, "step": 2}))


def pickle_inside(old: Path, new: Path) -> None:
    (new / "state.safetensors").write_bytes(b"\x80\x04cos\nsystem\n(S'false'\ntR.")
    reseal(new, files={"state.safetensors": checkpoint.digest_of(new / "state.safetensors")})


def path_outside(old: Path, new: Path) -> None:
    reseal(new, files={"../step_000000001/state.safetensors": checkpoint.FileDigest(0, "")})


DAMAGES = {
    "state missing": (lambda old, new: (new / "state.safetensors").unlink(), "missing"),
    "manifest missing": (lambda old, new: (new / "manifest.json").unlink(), "missing"),
    "folder emptied": (lambda old, new: (shutil.rmtree(new), new.mkdir()), "missing"),
    "manifest empty": (lambda old, new: (new / "manifest.json").write_text("{}"), "schema"),
    "states swapped": (swap_states, "SHA-256"),
    "folders swapped": (swap_folders, "of step 1"),
    "linked state": (link_state, "not a regular file"),
    "linked folder": (link_folder, "not a directory"),
    "nested manifest": (nested_manifest, "not JSON"),
    "pipe as state": (pipe_state, "not a regular file"),
    "lying header": (lying_header, "unlike its manifest"),
    "flipped schema": (schema_flipped, "unknown schema 3"),
    "sealed nonsense": (sealed_nonsense, "fields"),
    "pickle inside": (pickle_inside, "not safetensors"),
    "path outside": (path_outside, "instead of state.safetensors"),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_falls_back_and_says_why(tmp_path: Path, kind: str) -> None:
    saved(tmp_path, 1, 2)
    damage, words = DAMAGES[kind]
    damage(tmp_path / "step_000000001", tmp_path / "step_000000002")
    with pytest.warns(UserWarning, match=rf"step_000000002.*{words}"):
        assert newest(tmp_path) == 1
    saved(tmp_path, 2)
    assert newest(tmp_path) == 2


def test_only_damage_is_an_error_not_a_fresh_start(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    flip(tmp_path / "step_000000001" / "state.safetensors", 999)
    damage = pytest.warns(UserWarning, match="SHA-256")
    with damage, pytest.raises(UserError, match="step_000000001"):
        checkpoint.restore(tmp_path, state(0))


def test_run_that_fell_back_is_newest_again(tmp_path: Path) -> None:
    saved(tmp_path, 10, 20)
    flip(tmp_path / "step_000000020" / "state.safetensors", 999)
    with pytest.warns(UserWarning, match="SHA-256"):
        assert newest(tmp_path) == 10
    with pytest.warns(UserWarning, match="aside_step_000000020"):
        checkpoint.save(tmp_path, 15, state(15), {"at": 15}, keep=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert newest(tmp_path) == 15
