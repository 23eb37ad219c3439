"""Parts for your own code: soft reset, RFN prior, TUD losses, dormant units, checkpoints, report.

All of them work on plain pytrees and arrays; docs/parts.md shows each in another library.
"""

from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from devote.core.errors import UserError
from devote.core.types import Vector
from devote.epistemic.tud import (
    bonus_of,
    bootstrap_mask,
    corrector_loss,
    dormant_fraction,
    novelty_value_loss,
    passed_on,
)
from devote.loops import checkpoint
from devote.measure.calibration import calibration_report
from devote.nets.encoder import Encoder
from devote.nets.fourier import Fourier, fourier

__all__ = [
    "bonus_of",
    "bootstrap_mask",
    "calibration_report",
    "corrector_loss",
    "dormant_fraction",
    "load_checkpoint",
    "novelty_value_loss",
    "passed_on",
    "rfn_prior",
    "save_checkpoint",
    "soft_reset",
]
T = TypeVar("T")


def soft_reset(net: T, fresh: T, strength: float) -> T:
    """(1 - strength) net + strength fresh, for every floating-point array of any pytree.

    Integers, random keys and functions stay those of `net`. A PyTorch state dict is a pytree too.
    """
    if not 0 <= strength <= 1:
        raise UserError("a strength from 0 to 1", strength, "0 keeps the network, 1 replaces it")
    structures = [str(jax.tree.structure(tree)) for tree in (net, fresh)]
    if structures[0] != structures[1]:
        fix = "build the fresh network as the other was built"
        got = " and ".join(text[:60] for text in structures)
        raise UserError("two networks of one structure", got, fix)

    def mixed(ours: Any, theirs: Any) -> Any:
        return (1 - strength) * ours + strength * theirs if _is_float(ours) else ours

    return jax.tree.map(mixed, net, fresh)


def rfn_prior(
    inputs: int, length_scale: float, features: int = 1024, seed: int = 0, squash: bool = True
) -> Fourier:
    """A fixed random function of `inputs` numbers that varies over `length_scale`.

    Call it with an array whose last axis is `inputs`. It is a pytree, as every Equinox module.
    """
    for name, number in (
        ("inputs", inputs),
        ("length_scale", length_scale),
        ("features", features),
    ):
        if not number > 0:
            raise UserError(f"{name} above 0", number, f"change {name}")
    space = Vector((-np.inf,) * inputs, (np.inf,) * inputs)
    key = jax.random.key(seed)
    return fourier(key, Encoder(space), 0, features, length_scale, "normal", squash)


def save_checkpoint(folder: str | Path, step: int, tree: Any, keep: int = 2) -> Path:
    """Save the arrays of any pytree; a crash at any instant leaves a checkpoint that verifies.

    The newest `keep` checkpoints stay.
    """
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    return checkpoint.save(path, step, tree, {}, keep)


def load_checkpoint(folder: str | Path, like: T) -> tuple[int, T] | None:
    """Step and tree of the newest checkpoint that verifies; None if there is none.

    The tree has the structure of `like`. Loading never runs code.
    """
    found = checkpoint.restore(Path(folder), like)
    return None if found is None else found[:2]


def _is_float(leaf: Any) -> bool:
    if callable(getattr(leaf, "is_floating_point", None)):  # PyTorch
        return bool(leaf.is_floating_point())
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)
