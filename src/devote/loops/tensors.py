"""A pytree of arrays as one safetensors file, a tensor for each leaf, and back."""

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import jax
import numpy as np
from safetensors import SafetensorError, safe_open

from devote.core.durable import FileDigest, write_synced
from devote.core.errors import UserError
from devote.loops.manifest import DamagedError, Leaf

Array: TypeAlias = Any  # jax.Array, np.ndarray, np.generic, or jax.ShapeDtypeStruct as a pattern

ARRAYS = (jax.Array, np.ndarray, np.generic, jax.ShapeDtypeStruct)
KEY_KINDS = ("threefry2x32", "rbg", "unsafe_rbg")
CODES = {
    "bool": "BOOL",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
}


def named_leaves(tree: Any) -> dict[str, Array]:
    """The leaves of a tree by their path, in the order of the tree."""
    leaves: dict[str, Array] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        name = jax.tree_util.keystr(path)
        if name in leaves:
            raise UserError("one leaf for each path", f"two at {name}", "rename one of the keys")
        _require_storable(name, leaf)
        leaves[name] = leaf
    return leaves


def describe(leaf: Array) -> Leaf:
    """Shape and dtype as the manifest states them."""
    return Leaf(tuple(leaf.shape), str(leaf.dtype))


def write(path: Path, leaves: dict[str, Array]) -> FileDigest:
    """Write a safetensors file leaf by leaf, so that the host never holds a second copy."""
    # The library's own writer reports a full disk as something else than an OSError.
    # Wide items come first so that every tensor is aligned.
    names = sorted(leaves, key=lambda name: -_stored(leaves[name]).dtype.itemsize)
    return write_synced(path, _pieces({name: leaves[name] for name in names}))


def read(path: Path, like: dict[str, Array], held: Collection[str]) -> list[Array]:
    """Read the leaves that `like` names from a file of those `held`, whose header must agree."""
    try:
        with safe_open(path, framework="numpy") as file:
            if set(file.keys()) != set(held):
                raise DamagedError(f"{path.name} does not hold the leaves of its manifest")
            for name, leaf in like.items():
                _require_header(file.get_slice(name), name, _stored(leaf))
            return [_as_like(file.get_tensor(name), leaf) for name, leaf in like.items()]
    except SafetensorError as error:
        raise DamagedError(f"{path.name} is not safetensors ({error})") from error


def require_fit(saved: dict[str, Leaf], like: dict[str, Array], origin: Path) -> None:
    """Refuse a checkpoint of another tree, naming the first leaf that differs."""
    wanted = {name: describe(leaf) for name, leaf in like.items()}
    differing = [name for name in wanted | saved if wanted.get(name) != saved.get(name)]
    if differing:
        name, more = differing[0], len(differing) - 1
        raise UserError(
            f"{wanted.get(name, 'nothing')} at {name}",
            f"{saved.get(name, 'nothing')} in {origin}"
            + f" and {more} more differences" * (more > 0),
            "resume with the settings the run was started with, or use a new run directory",
        )


def _require_storable(name: str, leaf: Array) -> None:
    stored = isinstance(leaf, ARRAYS) and (_is_key(leaf) or str(leaf.dtype) in CODES)
    if not stored:
        kind = f"{type(leaf).__name__} {leaf!r:.60}"
        fix = f"make it an array of {', '.join(CODES)}, or a typed PRNG key"
        raise UserError(f"an array at {name}", kind, fix)


def _pieces(leaves: dict[str, Array]) -> Iterator[bytes | memoryview]:
    header, end = {}, 0
    for name, leaf in leaves.items():
        stored = _stored(leaf)
        start, end = end, end + stored.size * stored.dtype.itemsize
        code = CODES[str(stored.dtype)]
        header[name] = {"dtype": code, "shape": stored.shape, "data_offsets": (start, end)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little")
    yield text
    for leaf in leaves.values():
        host = np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf, order="C")
        yield host.reshape(-1).view(np.uint8).data


def _require_header(header: Any, name: str, stored: jax.ShapeDtypeStruct) -> None:
    found = (tuple(header.get_shape()), header.get_dtype())
    if found != (stored.shape, CODES[str(stored.dtype)]):
        raise DamagedError(f"state.safetensors holds {found} at {name}, unlike its manifest")


def _is_key(leaf: Array) -> bool:
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _stored(leaf: Array) -> jax.ShapeDtypeStruct:
    """Shape and dtype of a leaf in the file: a PRNG key becomes its words."""
    if _is_key(leaf):
        return jax.eval_shape(jax.random.key_data, leaf)
    return leaf


def _as_like(value: np.ndarray, like: Array) -> Array:
    if _is_key(like):
        return jax.random.wrap_key_data(jax.numpy.asarray(value), impl=_key_kind(like))
    if isinstance(like, np.generic):
        return value[()]
    if isinstance(like, np.ndarray):
        return value
    place = like.sharding if isinstance(like, jax.Array) and like.committed else None
    # The run donates its state, so the memory must belong to JAX and not to this array.
    return jax.device_put(value, place, may_alias=False)


def _key_kind(like: Array) -> str:
    for kind in KEY_KINDS:
        if jax.eval_shape(lambda kind=kind: jax.random.key(0, impl=kind)).dtype == like.dtype:
            return kind
    raise UserError(f"a PRNG key of {', '.join(KEY_KINDS)}", like.dtype, "use one of JAX's own")
