"""Films of an episode of a run's exploitation or exploration actor."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import gymnasium
import jax
import numpy as np
import tyro

from devote.build import build_agent, build_env
from devote.core.errors import UserError
from devote.core.types import Agent, Env, Grid, HostEnv
from devote.core.worker import Worker
from devote.envs import dmc
from devote.envs.brax import BraxSettings, PlaygroundSettings, StatefulTask
from devote.envs.gymnasium import GymnasiumSettings, from_factory
from devote.envs.mujoco.batch import MujocoEnv
from devote.envs.mujoco.rendering import backend, frames
from devote.envs.naming import Factory, Registered, factory_of, import_factory, names_code
from devote.envs.vector import GymnasiumList
from devote.figures.film import grid_frames, require_film, save_film, timelapse_frames
from devote.loops import snapshots
from devote.loops.episodes import Decide, play
from devote.loops.host import SeedEnvs, play_host
from devote.loops.run_dir import MAPS, require_no_links
from devote.loops.snapshots import VISITS
from devote.measure.coverage import planes
from devote.run import Run
from devote.saved import saved_agent, saved_run, saved_task

RENDER_MODE = "rgb_array"


@dataclass(frozen=True)
class Render:
    """A film of one episode: the exploitation actor's, or the exploration actor's."""

    run: Annotated[Path, tyro.conf.Positional]
    """Directory of a run."""
    env: str | None = None
    """module:MyEnv, where the run is of an environment of your own."""
    out: Path | None = None
    """A .gif or .mp4; by default in the run's figures."""
    explore: bool = False
    """Show the exploration actor, which collects the data, instead of the exploitation actor."""
    seed: int | None = None
    """Which seed's agent; by default the first of the run."""
    episode: int = 0
    """Seed of the episode."""
    map: bool = False
    """Draw coverage bins, even if the task has pictures."""
    timelapse: bool = False
    """Show how the run explored instead: its maps, one per frame."""
    rate: float | None = None
    """Frames per second; by default 25, or 10 for a timelapse."""


class Camera(NamedTuple):
    """What is kept of every step, and how frames are made of it after the episode."""

    snap: Callable[[Any], Any]
    develop: Callable[[Sequence[Any]], Sequence[np.ndarray]]


def render(asked: Render) -> Path:
    """Play the episode, or collect the maps, and write the film."""
    actor = ("explore" if asked.explore else "exploit") + ("_map" if asked.map else "")
    name = "timelapse" if asked.timelapse else f"{actor}_{asked.episode}"
    path = asked.out or asked.run / "figures" / f"{name}.gif"
    rate = asked.rate or (10.0 if asked.timelapse else 25.0)
    require_film(path)
    _require_numbers(asked)
    require_no_links(asked.run)
    run = saved_run(asked.run)
    if asked.timelapse:
        return save_film(timelapse(asked.run, _seed(run, asked.seed)), path, rate)
    drawn_by_mujoco = isinstance(run.env, GymnasiumSettings) and run.env.id.startswith(dmc.PREFIX)
    if isinstance(run.env, BraxSettings | PlaygroundSettings) or drawn_by_mujoco:
        os.environ.setdefault("MUJOCO_GL", backend())  # they import MuJoCo, which reads this then
    seed = _seed(run, asked.seed)
    env = one_env(run, asked.env, saved_task(asked.run), pictures=not asked.map)
    camera = camera_of(env, asked.map)
    agent = build_agent(run.agent_name, run.agent, env.spec)
    decide = decision(agent, learned(asked.run, run, seed, agent), asked.explore)
    key = jax.random.fold_in(jax.random.key(seed), asked.episode)
    if isinstance(env, HostEnv):
        shots = film_host(env, decide, agent.remember(1), camera.snap, key)
    else:
        shots = film_jax(env, decide, agent.remember(1), camera.snap, key)
    return save_film(camera.develop(shots), path, rate)


def timelapse(directory: Path, seed: int) -> list[np.ndarray]:
    """A run's maps over time: visits and the agent's first two quantities."""
    history = list(snapshots.read_all(directory / MAPS))
    if not history:
        fix = "train with a map_interval below its steps, in a task that counts coverage"
        raise UserError(f"maps of the run in {directory / MAPS}", "none", fix)
    first = history[-1]
    place, plane = first.seeds.index(seed), planes(first.grid)[0]
    shown = [one.shown(place, plane) for one in history]
    panels = {name: np.stack([maps[name] for maps in shown]) for name in first.names[:3]}
    visits = panels.pop(VISITS)
    counts = np.where(visits > 0, np.log10(np.maximum(visits, 1)), np.nan)
    steps = [one.step for one in history]
    return timelapse_frames(plane.grid, {"visits (log10)": counts} | panels, steps)


def _seed(run: Run, asked: int | None) -> int:
    seeds = run.seed_range
    if asked is not None and asked not in seeds:
        raise UserError(f"a seed of the run, {seeds[0]} to {seeds[-1]}", asked, "change --seed")
    return run.seed if asked is None else asked


def _require_numbers(asked: Render) -> None:
    if asked.rate is not None and not 0.01 <= asked.rate <= 1000:
        raise UserError("a --rate from 0.01 to 1,000", asked.rate, "change --rate")
    if not 0 <= asked.episode < 2**32:
        raise UserError("an --episode from 0 to 4,294,967,295", asked.episode, "change --episode")


def one_env(
    run: Run, typed: str | None = None, task: str | None = None, pictures: bool = True
) -> Env | HostEnv:
    """A single environment of the run's task, which is named `task` if it has no id."""
    if isinstance(run.env, GymnasiumSettings):
        factory = source_of(run.env.id, typed, task)
        factory = drawing(factory) if pictures else factory
        env = from_factory(factory, replace(run.env, workers=False), 1)
        if task is not None and env.spec.name != task:
            raise UserError(f"the run's own environment, {task}", env.spec.name, "change --env")
        return env
    if typed is not None:
        raise UserError(f"no --env for {run.env_name}", typed, "leave out --env")
    return build_env(run, 1)


def source_of(saved: str, typed: str | None, task: str | None) -> Factory:
    """The factory of the run's environment; only a typed name is imported."""
    if typed is None and (names_code(saved) or not saved):
        expected = f"the environment of the run, {saved or task or 'which has no name'}"
        raise UserError(expected, "nothing", f"name it: --env {saved or 'my_package:MyEnv'}")
    if saved and typed not in (None, saved):
        raise UserError(f"the run's own environment, {saved}", typed, "change --env")
    return factory_of(saved) if typed is None else import_factory(typed)


def drawing(factory: Factory) -> Factory:
    """The factory with a render mode."""
    if isinstance(factory, Registered):
        return replace(factory, render_mode=RENDER_MODE)
    if "render_mode" in signature(factory).parameters:
        return partial(factory, render_mode=RENDER_MODE)  # type: ignore[call-arg]
    return factory


def learned(directory: Path, run: Run, seed: int, agent: Agent) -> Any:
    """The agent's state of one seed."""
    found = saved_agent(directory, agent, run.seeds)
    if found is None:
        fix = "train it first, or restore its checkpoints"
        raise UserError(f"a checkpoint in {directory}", "none that verifies", fix)
    _, state = found
    return state if run.seeds == 1 else jax.tree.map(lambda x: x[seed - run.seed], state)


def decision(agent: Agent, state: Any, explore: bool) -> Decide:
    """The actor as a function of observations."""

    def decide(memory: Any, obs: Any, first: Any, key: Any) -> tuple[Any, Any]:
        if explore:
            return agent.act(state, memory, obs, first, key)
        return agent.exploit(state, obs), memory

    return decide


def film_jax(
    env: Env, decide: Decide, memory: Any, snap: Callable[[Any], Any], key: Any
) -> list[Any]:
    """Snapshots of an episode in JAX, including its end."""

    def one(worlds: Any) -> Any:
        return jax.tree.map(lambda x: x[0], worlds)

    sums, worlds = jax.jit(lambda: play(env, decide, memory, 1, key, one))()
    worlds = jax.tree.map(np.asarray, worlds)
    length = int(sums.length[0])
    return [snap(jax.tree.map(lambda x, t=t: x[t], worlds)) for t in range(length + 1)]


def film_host(
    env: HostEnv, decide: Decide, memory: Any, snap: Callable[[Any], Any], key: Any
) -> list[Any]:
    """Snapshots of an episode on the host, without its end."""
    shots: list[Any] = []
    act = jax.jit(decide)

    def next_action(obs: np.ndarray, t: int) -> tuple[Any, Any]:
        nonlocal memory
        act_key, step_key = jax.random.split(jax.random.fold_in(key, t + 1))
        action, memory = act(memory, obs, np.asarray([t == 0]), act_key)
        return action, step_key

    worker = Worker(0)
    envs = SeedEnvs((env,), ["a film"], worker)
    limit = env.spec.episode_length
    play_host(
        envs, next_action, jax.random.fold_in(key, 0), 1, limit, lambda o: shots.append(snap(o))
    )
    worker.close()
    return shots


def camera_of(env: Env | HostEnv, bins: bool) -> Camera:
    """Frames of the task itself if it has any, otherwise of its coverage grid."""
    if isinstance(env, MujocoEnv) and not bins:
        model, physics = env.task.model, env.physics
        return Camera(
            lambda _: physics.qpos[0].copy(), lambda all: list(frames(model, np.stack(all)))
        )
    if isinstance(env, GymnasiumList) and not bins:
        return Camera(lambda _: _picture(env), list)
    if isinstance(env, StatefulTask) and not bins:
        return Camera(lambda world: world, env.pictures)
    grid = _flat_grid(env.spec.grid)
    if isinstance(env, HostEnv):
        return Camera(lambda obs: int(env.bin_of(obs)[0]), partial(_over, grid))
    bin_of = jax.jit(env.bin_of)
    return Camera(lambda world: int(bin_of(world)), partial(_over, grid))


def _over(grid: Grid, bins: Sequence[int]) -> list[np.ndarray]:
    return grid_frames(grid, np.asarray(bins))


def _flat_grid(grid: Grid | None) -> Grid:
    if grid is None or len(grid.shape) != 2:
        got = "no grid" if grid is None else f"a grid of shape {grid.shape}"
        raise UserError("a task with a coverage grid of two dimensions", got, "leave out --map")
    return grid


def _picture(env: GymnasiumList) -> np.ndarray:
    try:
        picture = env.envs[0].render()
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        fix = "install what it misses, such as pygame"
        raise UserError(f"the packages that draw {env.spec.name}", error, fix) from error
    except NotImplementedError:
        picture = None
    if not isinstance(picture, np.ndarray) or picture.ndim != 3:
        fix = 'make the environment with render_mode="rgb_array", or use --map'
        raise UserError("a picture from the environment's render()", type(picture).__name__, fix)
    return picture
