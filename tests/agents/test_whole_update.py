"""Three whole updates of every agent against NumPy, in double precision, every leaf of the state.

`tests/reference` says where the reference comes from. Start states are noise, Adam's moments too,
and no two settings that could be mistaken for one another are equal.
"""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from devote.agents.devote import DevoteSettings
from devote.agents.model_uncertainty import UncertaintySettings
from devote.agents.sac import SacSettings
from devote.agents.world_model import WorldModelSettings
from devote.build import AGENTS
from devote.core.types import Box, Choice, EnvSpec, Index, Transition, Vector
from reference.devote import Devote, JointTd
from reference.rnd_classic import RndClassic
from reference.sombrl import Sombrl
from reference.thompson import Thompson
from tiny import slow_but

SAC = SacSettings(
    discount=0.9,
    polyak=0.2,
    critic_width=6,
    critic_depth=2,
    actor_width=5,
    actor_depth=2,
    value_head="scalar",
    learning_rate=3e-3,
    critic_weight_decay=0.3,
    temperature_rate=7e-3,
    target_entropy_per_dimension=-0.7,
    target_entropy_fraction=0.6,
)
TWO_HOT = replace(SAC, value_head="two_hot")
LAPROP = replace(SAC, optimiser="laprop")  # of the `authors` preset
# what the networks of the `desk` presets see
SCALED = replace(SAC, scale_inputs=True, input_features=3, input_length=2.0, action_gain=1.5)
DEVOTE = DevoteSettings(
    sac=SAC,
    num_indices=3,
    num_features=8,
    corrector_rate=5e-3,
    corrector_polyak=0.07,
    optimism=1.7,
)
UNCERTAINTY = UncertaintySettings(
    model=WorldModelSettings(
        model_width=6,
        model_depth=2,
        memory_size=6,
        memory_blocks=2,
        code_groups=2,
        code_classes=3,
        free_nats=0.9,
        dynamics_weight=0.8,
        representation_weight=0.3,
    ),
    sequence_length=4,
    num_guessers=3,
    guesser_width=6,
    embedding_size=3,
    model_rate=2e-3,
)
SOMBRL = {"uncertainty": UNCERTAINTY, "intrinsic_weight_rate": 6e-3, "slow_explorer_polyak": 0.3}

BOUNDS = ((-3.0, -2.0, -1.0), (2.0, 4.0, 3.0))
SPECS = {
    "box": EnvSpec("box", Vector(*BOUNDS), Box(2), 10),
    "choice": EnvSpec("choice", Vector(*BOUNDS), Choice(3), 10),
    "index": EnvSpec("index", Index(20), Choice(3), 10),
}
REFERENCES = {
    "devote": Devote,
    "devote-no-tud": JointTd,
    "devote-no-tud-ucb": JointTd,
    "rnd": Devote,
    "rnd-classic": RndClassic,
    "thompson": Thompson,
    "sombrl": Sombrl,
}
CASES = [
    ("devote", "box", SAC, {}),
    ("devote", "box", TWO_HOT, {"readout": "normal", "prior_sees_action": False}),
    ("devote", "choice", LAPROP, {"bonus_has_novelty": False}),
    ("devote", "index", TWO_HOT, {}),
    ("devote-no-tud", "box", SAC, {}),
    ("devote-no-tud-ucb", "index", SAC, {"normalise_value": False}),
    ("rnd", "box", SCALED, {}),
    ("rnd-classic", "box", SAC, {"observation_clip": 1.0}),
    ("rnd-classic", "index", TWO_HOT, {}),
    ("thompson", "box", SCALED, {"prior_scale": 1.3}),
    ("thompson", "index", TWO_HOT, {"prior_in_actor": False}),
    ("sombrl", "box", TWO_HOT, SOMBRL),
    ("sombrl", "index", SCALED, SOMBRL),
]


@pytest.fixture(autouse=True)
def double_precision(monkeypatch):
    """Doubles, and an exact cosine: that of `nets.cosine`, which has a test of its own, is a
    polynomial whose slope is good to 1e-8."""
    monkeypatch.setattr("devote.nets.fourier.cos", jnp.cos)
    monkeypatch.setattr("devote.nets.encoder.cos", jnp.cos)
    with jax.enable_x64(True):
        yield


def nested(state: Any) -> dict:
    """The state as dictionaries of arrays, by the names of its fields."""
    whole: dict = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        *names, last = (getattr(key, "name", getattr(key, "idx", None)) for key in path)
        part = whole
        for name in names:
            part = part.setdefault(name, {})
        part[last] = np.asarray(leaf)
    return whole


def flat(tree: Any, name: str = "") -> dict[str, np.ndarray]:
    """Every array under the names that lead to it."""
    if not isinstance(tree, dict):
        return {name: np.asarray(tree)}
    parts = [flat(part, f"{name}.{key}") for key, part in tree.items()]
    return {n: leaf for part in parts for n, leaf in part.items()}


def some_state(agent: Any) -> Any:
    """Noise in the shapes of the agent's state, such as might have come out of 7 updates."""
    rng = np.random.default_rng(1)

    def leaf(path: Any, shape: jax.ShapeDtypeStruct) -> jax.Array:
        name, noise = jax.tree_util.keystr(path), rng.normal(size=shape.shape)
        if name.endswith("numbers.table"):  # which observation a row is
            return jnp.arange(shape.shape[0], dtype=shape.dtype)[:, None]
        if not jnp.issubdtype(shape.dtype, jnp.floating):
            return jnp.full(shape.shape, 7, shape.dtype)
        if ".mu" in name:
            noise = 0.1 * noise
        elif ".nu" in name or name.endswith(("number", "variance")):
            noise = 0.1 + noise**2
        elif name.endswith("scale"):
            noise = 1 + 0.3 * noise
        elif name.endswith("bias"):
            noise = 0.3 * noise  # small, so that what is seen matters
            if shape.shape[-1] % 255 == 0:  # bins of symexp: those far out would hide all others
                noise = noise - 0.5 * np.abs(np.arange(shape.shape[-1]) % 255 - 127)
        elif name.endswith(("value_scale.low", "value_scale.high")):
            noise = np.array(-1.1 if name.endswith("low") else 1.4)
        elif len(shape.shape) > 1:
            noise = 1.5 * noise * shape.shape[-2] ** -0.5
        return jnp.asarray(noise)

    return jax.tree_util.tree_map_with_path(leaf, jax.eval_shape(agent.init, jax.random.key(0)))


def some_batch(seed: int, spec: EnvSpec, size: int = 12) -> Transition:
    """Random transitions, about a quarter of them terminal, about a fifth opening an episode."""
    rng = np.random.default_rng(seed)
    space, number = spec.observation, spec.action.size

    def observations() -> np.ndarray:
        if isinstance(space, Index):
            return rng.integers(space.size, size=size)
        return rng.normal(size=(size, space.size))

    if isinstance(spec.action, Choice):
        action = np.eye(number)[rng.integers(number, size=size)]
    else:
        action = rng.uniform(-1, 1, size=(size, number))
    return Transition(
        obs=observations(),
        action=action,
        reward=rng.normal(size=size),
        discount=(rng.uniform(size=size) < 0.75).astype(np.float64),
        next_obs=observations(),
        first=rng.uniform(size=size) < 0.2,
    )


@pytest.mark.parametrize(
    ("name", "kind", "sac", "changes"),
    slow_but([CASES[i] for i in (0, 3, 4, 6, 7, 9)], CASES),
    ids=[f"{name}-{kind}-{sac.value_head}" for name, kind, sac, _ in CASES],
)
def test_three_updates_are_numpy_s(name, kind, sac, changes) -> None:
    spec, entry = SPECS[kind], AGENTS[name]
    settings = replace(entry.like(replace(DEVOTE, sac=sac)), **changes)
    agent, reference = entry.build(settings, spec), REFERENCES[name](settings, spec)

    @jax.jit
    def learn(state, batch, key):
        return agent.update(state, batch, key)[0]

    found = some_state(agent)
    wanted = nested(found)
    for step in range(3):
        batch, key = some_batch(step, spec), jax.random.key(step)
        before, found, wanted = found, learn(found, batch, key), reference.learn(wanted, batch, key)
        assert_same(flat(nested(found)), flat(wanted), f"update {step + 1}")
    assert_everything_moved(flat(nested(before)), flat(nested(found)))


def assert_same(found: dict, wanted: dict, when: str) -> None:
    assert found.keys() == wanted.keys()
    for name, leaf in found.items():
        np.testing.assert_allclose(
            leaf, wanted[name], rtol=1e-9, atol=1e-12, err_msg=f"{name} after {when}"
        )


def assert_everything_moved(before: dict, after: dict) -> None:
    """Or else the comparison would not have been one."""
    frozen = {n for n in before if np.array_equal(before[n], after[n])}
    frozen.discard(".beliefs.numbers.table")  # which observation a row is
    assert {n.split(".")[1] for n in frozen} <= {"prior", "resets", "seen"}
