"""`devote.parts` from the outside: its page's snippets run, and it does what it says."""

import re
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from devote.core.errors import UserError
from devote.parts import load_checkpoint, rfn_prior, save_checkpoint, soft_reset

PAGE = Path(__file__).parent.parent / "docs" / "parts.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)


OTHERS = [next((x for x in ("flax", "torch", "sbx") if f"{x}" in code), "") for code in SNIPPETS]
NUMBERS = [
    pytest.param(n, marks=[pytest.mark.services] if other in ("torch", "sbx") else [])
    for n, other in enumerate(OTHERS)
]


@pytest.mark.parametrize("number", NUMBERS)
def test_the_snippets_of_the_page_run(number: int, tmp_path: Path, monkeypatch: Any) -> None:
    if OTHERS[number]:
        pytest.importorskip(OTHERS[number])
    monkeypatch.chdir(tmp_path)
    small = SNIPPETS[number].replace('Devote("CartPole-v1", ', 'Devote("CartPole-v1", 0, "smoke", ')
    small = small.replace("learn(20_000)", "learn(800, progress_bar=False)")
    exec(small, {})  # noqa: S102  our own page


def test_a_soft_reset_mixes_floats_and_leaves_all_else() -> None:
    nets = [eqx.nn.MLP(2, 1, 4, 1, key=jax.random.key(seed)) for seed in (0, 1)]
    mixed = soft_reset(*nets, 0.25)
    expected = 0.75 * nets[0].layers[0].weight + 0.25 * nets[1].layers[0].weight
    np.testing.assert_allclose(mixed.layers[0].weight, expected, rtol=1e-6)
    assert mixed.activation is nets[0].activation
    old = {"w": np.ones(2, np.float32), "n": np.int32(3), "key": jax.random.key(4)}
    new = {"w": np.zeros(2, np.float32), "n": np.int32(9), "key": jax.random.key(5)}
    found = soft_reset(old, new, 0.5)
    assert found["w"].tolist() == [0.5, 0.5]
    assert found["n"] == 3
    assert (jax.random.key_data(found["key"]) == jax.random.key_data(old["key"])).all()
    with pytest.raises(UserError, match="one structure"):
        soft_reset(old, {"w": new["w"]}, 0.5)
    with pytest.raises(UserError, match="strength"):
        soft_reset(old, new, 1.5)


def test_a_prior_is_smooth_at_its_length_scale_and_its_seeds_differ() -> None:
    x = jnp.linspace(0, 1, 50)[:, None]
    smooth, rough = (np.ptp(rfn_prior(1, length, seed=2)(x)) for length in (50.0, 0.05))
    assert smooth < 0.2 < rough
    assert not np.allclose(rfn_prior(1, 1.0, seed=0)(x), rfn_prior(1, 1.0, seed=1)(x))
    with pytest.raises(UserError, match="length_scale above 0"):
        rfn_prior(2, 0.0)


def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path / "none", {"a": jnp.zeros(2)}) is None
    for step in (1, 2):
        newest = save_checkpoint(tmp_path, step, {"a": jnp.full(2, float(step))})
    assert load_checkpoint(tmp_path, {"a": jnp.zeros(2)})[0] == 2
    (newest / "state.safetensors").write_bytes(b"damaged")
    with pytest.warns(UserWarning, match="damaged"):
        step, tree = load_checkpoint(tmp_path, {"a": jnp.zeros(2)})
    assert (step, tree["a"].tolist()) == (1, [1.0, 1.0])
