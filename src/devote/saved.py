"""From a run directory or a model file to its run and its agent; nothing in either is executed.

A model file is a checkpoint that is always of one step, so that a new model takes the place of an
old one in a single rename; a table in its manifest describes it.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import jax
from gymnasium import spaces

from devote.build import AGENTS, TASKS, EnvSource, env_source, spaces_seen
from devote.core.errors import UserError
from devote.core.settings import fit, from_table
from devote.core.types import Agent, Env, EnvSpec, HostEnv, Vector
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
"""The folder of the checkpoint, beside which there may be anything."""
PLACE = 0
"""The step of the checkpoint; the table says how long the agent has learned."""
SCHEMA = 2
NAMES = {"schema", "recipe", "agent", "preset", "settings", "task", "step"}
TASK = {"name", "episode_length", "own_units", "terms", "says_success", "observation", "action"}


def saved_run(directory: Path) -> Run:
    """The run that a directory's settings describe."""
    return run_of(_settings(directory))


def saved_task(directory: Path) -> str | None:
    """What the task of a run calls itself, where no name of ours or Gymnasium's tells."""
    return fit(str | None, "task", _settings(directory).get("task"))


def run_of(saved: dict[str, Any]) -> Run:
    """The run that saved settings describe; one newer than them is at its class's default."""
    base = PRESETS[saved["preset"]](saved["env_name"], saved["agent_name"])
    return from_table(base, saved, "the saved settings", complete=False)


def saved_agent(directory: Path, agent: Agent, seeds: int = 1) -> tuple[int, Any] | None:
    """Step and agent of the newest checkpoint that verifies; None where none was ever saved."""
    keys = seed_keys(tuple(range(seeds)))
    shape = (
        jax.eval_shape(agent.init, keys[0])
        if seeds == 1
        else jax.eval_shape(jax.vmap(agent.init), keys)
    )
    found = checkpoint.restore(directory / CHECKPOINTS, shape, root=".agent")
    return None if found is None else found[:2]


def _settings(directory: Path) -> dict[str, Any]:
    path = directory / SETTINGS
    if not path.is_file():
        raise UserError(f"a run in {directory}", f"no {SETTINGS} there", "name a run directory")
    saved = read_settings(path)
    for name, known in (("preset", PRESETS), ("env_name", TASKS), ("agent_name", AGENTS)):
        if saved.get(name) not in known:
            fix = "use the version of devote that wrote it"
            raise UserError(f"a known {name} in {path}", repr(saved.get(name)), fix)
    return saved


@dataclass(frozen=True)
class SavedModel:
    """What a model says of itself."""

    recipe: str
    run: Run
    spec: EnvSpec
    observation: spaces.Space
    action: spaces.Space
    step: int

    def source(self) -> EnvSource | None:
        """The task by the name that the model has for it; None where nobody here knows it."""
        env = self.run.env
        name = env.id if isinstance(env, GymnasiumSettings) else self.recipe
        try:
            if isinstance(env, GymnasiumSettings):
                factory_of(name)  # a file names it, so nothing is imported
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
    """Save an agent; whoever reads meanwhile, or after a crash, sees the old one or the new."""
    note: dict[str, Json] = json.loads(json.dumps({"model": _table(described)}, allow_nan=False))
    checkpoint.save(path / MODEL, PLACE, agent_state, note, keep=1)


def read_model(path: Path) -> SavedModel:
    """Read and check the table of a model."""
    found = checkpoint.newest(path / MODEL)
    if found is None or "model" not in found[1]:
        fix = "give the directory that save wrote"
        raise UserError(f"a model in {path}", "none that verifies", fix)
    where, table = str(found[0]), cast("dict[str, Any]", found[1]["model"])
    _require_names(table, NAMES, where)
    if table["schema"] != SCHEMA:
        fix = "use the version of devote that wrote it"
        raise UserError(f"schema {SCHEMA} in {where}", table["schema"], fix)
    for name, known in (("recipe", TASKS), ("agent", AGENTS), ("preset", PRESETS)):
        if table[name] not in known:
            fix = "use the version of devote that wrote it"
            raise UserError(f"a known {name} in {where}", repr(table[name]), fix)
    base = PRESETS[table["preset"]](table["recipe"], table["agent"])
    run = from_table(base, table["settings"], where)
    observation, action, spec = _task(table["task"], where)
    step = fit(int, "step", table["step"])
    return SavedModel(table["recipe"], run, spec, observation, action, step)


def read_model_state(path: Path, like: Any) -> Any:
    """The arrays of a model, shaped as those of `like`."""
    restored = checkpoint.restore(path / MODEL, like)
    assert restored is not None, "its table was read before"
    return restored[1]


def _table(described: SavedModel) -> dict[str, Any]:
    spec = described.spec
    return {
        "schema": SCHEMA,
        "recipe": described.recipe,
        "agent": described.run.agent_name,
        "preset": described.run.preset,
        "settings": asdict(described.run),
        "task": {
            "name": spec.name,
            "episode_length": spec.episode_length,
            "own_units": isinstance(spec.observation, Vector) and spec.observation.own_units,
            "terms": list(spec.terms),
            "says_success": spec.says_success,
            "observation": space_to_table(described.observation),
            "action": space_to_table(described.action),
        },
        "step": described.step,
    }


def _task(table: Any, where: str) -> tuple[spaces.Space, spaces.Space, EnvSpec]:
    _require_names(table, TASK, where)
    observation = space_from_table(table["observation"], where)
    action = space_from_table(table["action"], where)
    spec = EnvSpec(
        name=fit(str, "name", table["name"]),
        observation=Observations(observation, fit(bool, "own_units", table["own_units"])).spec,
        action=Actions(action).spec,
        episode_length=fit(int, "episode_length", table["episode_length"]),
        terms=fit(tuple[str, ...], "terms", table["terms"]),
        says_success=fit(bool, "says_success", table["says_success"]),
    )
    return observation, action, spec


def _require_names(table: Any, names: set[str], where: str) -> None:
    if not isinstance(table, dict) or set(table) != names:
        found = sorted(table) if isinstance(table, dict) else type(table).__name__
        raise UserError(f"{sorted(names)} in {where}", found, "save the model again")
