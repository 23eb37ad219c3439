"""Reads runs and agents from run directories and model files; nothing in them is executed.

A model file is a checkpoint of step 0, so that a new model replaces an old one in a single rename;
a table in its manifest describes it.
"""

import json
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from devote.build import AGENTS, TASKS, EnvSource, env_source, spaces_seen
from devote.core.durable import replacing
from devote.core.errors import UserError, extra
from devote.core.settings import fit, from_table
from devote.core.types import Agent, Box, Env, EnvSpec, HostEnv, Vector
from devote.envs.gymnasium import GymnasiumSettings
from devote.envs.naming import factory_of
from devote.envs.spaces import Actions, Observations, space_from_table, space_to_table
from devote.loops import checkpoint
from devote.loops.checkpoint import Json
from devote.loops.loop import seed_keys
from devote.loops.run_dir import CHECKPOINTS, SETTINGS, read_settings
from devote.presets import PRESETS
from devote.run import Run

MODEL = "model"
"""Folder of the checkpoint; other files may lie beside it."""
PLACE = 0
"""Step of the checkpoint; the table says how long the agent has learned."""
SCHEMA = 2
NAMES = {"schema", "recipe", "agent", "preset", "settings", "task", "step"}
SPEC = dict(name=str, episode_length=int, terms=tuple[str, ...], says_success=bool)
TASK = {*SPEC, "own_units", "observation", "action"}


def saved_run(directory: Path) -> Run:
    """The run of a directory."""
    return run_of(_settings(directory))


def saved_task(directory: Path) -> str | None:
    """The name of a run's task, if it has no id."""
    return fit(str | None, "task", _settings(directory).get("task"))


def run_of(saved: dict[str, Any]) -> Run:
    """The run of saved settings; newer settings are at their class's default."""
    base = PRESETS[saved["preset"]](saved["env_name"], saved["agent_name"])
    run = from_table(base, saved, "the saved settings", strict=False)
    run.check()
    return run


def saved_agent(directory: Path, agent: Agent, seeds: int = 1) -> tuple[int, Any] | None:
    """Step and agent of the newest checkpoint that verifies; None if none was ever saved."""
    keys = seed_keys(tuple(range(seeds)))
    init = agent.init if seeds == 1 else jax.vmap(agent.init)
    shape = jax.eval_shape(init, keys[0] if seeds == 1 else keys)
    found = checkpoint.restore(directory / CHECKPOINTS, shape, root=".agent")
    return None if found is None else found[:2]


def _settings(directory: Path) -> dict[str, Any]:
    path = directory / SETTINGS
    if not path.is_file():
        raise UserError(f"a run in {directory}", f"no {SETTINGS} there", "name a run directory")
    saved = read_settings(path)
    if own := saved.get("own"):
        fix = "use it from Python, with the same objects: Devote(env, directory=..., prior=...)"
        raise UserError(
            f"a run whose parts are all in {path}", f"one with its own {own!r:.200}", fix
        )
    _require_known(saved, {"preset": PRESETS, "env_name": TASKS, "agent_name": AGENTS}, path)
    return saved


def _require_known(table: dict[str, Any], known: dict[str, Iterable[str]], where: object) -> None:
    for name, names in known.items():
        if table.get(name) not in list(names):
            fix = "use the version of devote that wrote it"
            raise UserError(f"a known {name} in {where}", f"{table.get(name)!r:.80}", fix)


@dataclass(frozen=True)
class SavedModel:
    """The description of a saved model."""

    recipe: str
    run: Run
    spec: EnvSpec
    observation: spaces.Space
    action: spaces.Space
    step: int
    own: dict[str, str] = field(default_factory=dict)
    """Names of the objects that took the place of settings, which no file can hold."""

    def source(self) -> EnvSource | None:
        """The model's task, if its name is known here."""
        env = self.run.env
        name = env.id if isinstance(env, GymnasiumSettings) else self.recipe
        try:
            if isinstance(env, GymnasiumSettings):
                factory_of(name)  # without importing: the name comes from a file
            return env_source(name)
        except UserError:
            return None

    def require_fit(self, recipe: str, env: Env | HostEnv) -> None:
        """Refuse an environment that the saved agent does not fit."""
        saved, found, fix = self.spec, env.spec, "give the environment it was trained in"
        if recipe != self.recipe:
            raise UserError(f"an environment like {saved.name}", recipe, fix)
        if saved.observation != found.observation:
            raise UserError(f"observations {saved.observation}", found.observation, fix)
        if saved.action != found.action:
            raise UserError(f"actions {saved.action}", found.action, fix)
        names, others = (Observations(s).names for s in (self.observation, spaces_seen(env)[0]))
        if names != others:
            raise UserError(f"observations with the entries {names}", others, fix)


def write_model(path: Path, described: SavedModel, agent_state: Any) -> None:
    """Save an agent in one step: readers, also after a crash, find the old one or the new."""
    note: dict[str, Json] = json.loads(json.dumps({"model": _table(described)}, allow_nan=False))
    checkpoint.save(path / MODEL, PLACE, agent_state, note, keep=1)


def read_model(path: Path) -> SavedModel:
    """Read and check the table of a model."""
    found = checkpoint.newest(path / MODEL)
    if found is None or "model" not in found[1]:
        fix = "give the directory that save wrote"
        raise UserError(f"a model in {path}", "none that verifies", fix)
    where, table = str(found[0]), cast("dict[str, Any]", found[1]["model"])
    own = fit(dict, "own", table.pop("own", {}))
    _require_names(table, NAMES, where)
    if table["schema"] != SCHEMA:
        fix = "use the version of devote that wrote it"
        raise UserError(f"schema {SCHEMA} in {where}", table["schema"], fix)
    _require_known(table, {"recipe": TASKS, "agent": AGENTS, "preset": PRESETS}, where)
    base = PRESETS[table["preset"]](table["recipe"], table["agent"])
    run = from_table(base, table["settings"], where)
    run.check()
    observation, action, spec = _task(table["task"], where)
    step = fit(int, "step", table["step"])
    return SavedModel(table["recipe"], run, spec, observation, action, step, own)


def read_model_state(path: Path, like: Any) -> Any:
    """The agent's state, with the shapes of `like`."""
    restored = checkpoint.restore(path / MODEL, like)
    assert restored is not None, "its table was read before"
    return restored[1]


def export_policy(path: Path, described: SavedModel, agent: Agent, state: Any) -> None:
    """Write the exploitation actor for other programs, after comparing its actions.

    `.onnx` for ONNX Runtime, `.stablehlo` for `jax.export.deserialize`. Both take a batch of
    observations, a vector each (an integer for Discrete spaces), and return the environment's
    actions.
    """
    if path.suffix not in (".onnx", ".stablehlo"):
        raise UserError("a name that ends in .onnx or .stablehlo", path.name, "rename it")
    if described.run.agent_name == "thompson":
        raise UserError("an agent with one exploitation actor", "thompson", "export another agent")
    with extra("export"):
        import flatbuffers  # noqa: F401  what jax.export needs

        if path.suffix == ".onnx":
            from jax2onnx import to_onnx
            from onnxruntime import InferenceSession
    space, actions = described.spec.observation, Actions(described.action)
    shape: tuple[int, ...] = (space.size,) if isinstance(space, Vector) else ()
    tried = _samples(described.observation) if shape else np.arange(space.size, dtype=np.int32)
    expected = actions.to_env(np.asarray(jax.jit(agent.exploit)(state, tried)))
    if isinstance(described.spec.action, Box):
        low, high = (np.float32(bound) for bound in (described.action.low, described.action.high))  # type: ignore[attr-defined]
    else:
        choices = actions.to_env(np.eye(described.spec.action.size)).astype(np.int32)

    def policy(obs: Any) -> Any:
        if not shape:  # an action for each of finitely many observations
            return jnp.take(jnp.asarray(expected), obs, axis=0)
        action = agent.exploit(state, obs)
        if not isinstance(described.spec.action, Box):
            return jnp.take(jnp.asarray(choices), jnp.argmax(action, axis=-1), axis=0)
        share = (action.reshape(-1, *low.shape) + 1) / 2
        return jnp.clip(low + share * (high - low), low, high)

    if path.suffix == ".onnx":
        batch = jax.ShapeDtypeStruct((*jax.export.symbolic_shape("B"), *shape), tried.dtype)
        names = {"input_names": ["obs"], "output_names": ["action"]}
        written = to_onnx(policy, [batch], model_name="policy", **names).SerializeToString()
        found = InferenceSession(written).run(None, {"obs": tried})[0]
    else:
        batch = jax.ShapeDtypeStruct((*jax.export.symbolic_shape("batch"), *shape), tried.dtype)
        written = bytes(jax.export.export(jax.jit(policy))(batch).serialize())
        found = jax.export.deserialize(bytearray(written)).call(tried)
    if (wrong := np.max(np.abs(found - expected) / np.maximum(1, np.abs(expected)))) > 1e-5:
        fix = "report it, with the model; nothing was written"
        raise UserError("an exported policy within 1e-5 of predict", f"{wrong:.2g} off", fix)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_bytes(written)


def _samples(space: spaces.Space) -> np.ndarray:
    """Observations of a space as agents see them."""
    space = deepcopy(space)
    space.seed(0)
    layout = Observations(space)
    return np.stack([layout.flatten_one(space.sample()) for _ in range(64)]).astype(np.float32)


def _table(described: SavedModel) -> dict[str, Any]:
    spec = described.spec
    return {
        "schema": SCHEMA,
        "recipe": described.recipe,
        "agent": described.run.agent_name,
        "preset": described.run.preset,
        "settings": asdict(described.run),
        "task": {
            **{name: getattr(spec, name) for name in SPEC},
            "own_units": isinstance(spec.observation, Vector) and spec.observation.own_units,
            "observation": space_to_table(described.observation),
            "action": space_to_table(described.action),
        },
        "step": described.step,
    } | ({"own": described.own} if described.own else {})


def _task(table: Any, where: str) -> tuple[spaces.Space, spaces.Space, EnvSpec]:
    _require_names(table, TASK, where)
    observation = space_from_table(table["observation"], where)
    action = space_from_table(table["action"], where)
    seen = Observations(observation, fit(bool, "own_units", table["own_units"])).spec
    told = {name: fit(kind, name, table[name]) for name, kind in SPEC.items()}
    return observation, action, EnvSpec(observation=seen, action=Actions(action).spec, **told)


def _require_names(table: Any, names: set[str], where: str) -> None:
    if not isinstance(table, dict) or set(table) != names:
        found = sorted(table) if isinstance(table, dict) else type(table).__name__
        raise UserError(f"{sorted(names)} in {where}", found, "save the model again")
