"""Films of what a run's agent does: one episode of the exploitation or the exploration actor."""

import math
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
from devote.figures.film import grid_frames, require_film, save_film
from devote.loops.evaluate import Decide, play
from devote.loops.host import SeedEnvs, play_host
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
    """A .gif or .mp4; in the run's figures where not given."""
    explore: bool = False
    """The behaviour that makes the data, instead of the exploitation actor's best guess."""
    seed: int | None = None
    """Which seed's agent; the first of the run where not given."""
    episode: int = 0
    """Another number, another draw of all that chance decides."""
    map: bool = False
    """Draw coverage bins, also of a task that could be pictured itself."""
    rate: float = 25.0
    """Frames a second."""


class Camera(NamedTuple):
    """What is kept of every step, and how pictures are made of it when the episode is over."""

    snap: Callable[[Any], Any]
    develop: Callable[[Sequence[Any]], Sequence[np.ndarray]]


def render(asked: Render) -> Path:
    """Play the episode and write the film."""
    actor = ("explore" if asked.explore else "exploit") + ("_map" if asked.map else "")
    path = asked.out or asked.run / "figures" / f"{actor}_{asked.episode}.gif"
    require_film(path)
    _require_numbers(asked)
    run = saved_run(asked.run)
    drawn_by_mujoco = isinstance(run.env, GymnasiumSettings) and run.env.id.startswith(dmc.PREFIX)
    if isinstance(run.env, BraxSettings | PlaygroundSettings) or drawn_by_mujoco:
        os.environ.setdefault("MUJOCO_GL", backend())  # they import MuJoCo, which reads this then
    seed = run.seed if asked.seed is None else asked.seed
    env = one_env(run, asked.env, saved_task(asked.run), pictures=not asked.map)
    camera = camera_of(env, asked.map)
    agent = build_agent(run.agent_name, run.agent, env.spec)
    decide = decision(agent, learned(asked.run, run, seed, agent), asked.explore)
    key = jax.random.fold_in(jax.random.key(seed), asked.episode)
    if isinstance(env, HostEnv):
        shots = film_host(env, decide, agent.remember(1), camera.snap, key)
    else:
        shots = film_jax(env, decide, agent.remember(1), camera.snap, key)
    return save_film(camera.develop(shots), path, asked.rate)


def _require_numbers(asked: Render) -> None:
    if not (math.isfinite(asked.rate) and asked.rate > 0):
        raise UserError("a --rate above 0", asked.rate, "change --rate")
    if not 0 <= asked.episode < 2**32:
        raise UserError("an --episode from 0 on", asked.episode, "change --episode")


def one_env(
    run: Run, typed: str | None = None, task: str | None = None, pictures: bool = True
) -> Env | HostEnv:
    """A single environment of the run's task, which calls itself `task` where it has no id."""
    if isinstance(run.env, GymnasiumSettings):
        factory = source_of(run.env.id, typed, task)
        factory = drawing(factory) if pictures else factory
        env = from_factory(factory, replace(run.env, workers=False), 1)
        if task is not None and env.spec.name != task:
            raise UserError(f"the run's own environment, {task}", env.spec.name, "change --env")
        return env
    if typed is not None:
        raise UserError(f"no --env for {run.env_name}", typed, "leave --env away")
    return build_env(run, 1)


def source_of(saved: str, typed: str | None, task: str | None) -> Factory:
    """How the run's environment is made; only what a person types is imported."""
    if typed is None and (names_code(saved) or not saved):
        expected = f"the environment of the run, {saved or task or 'which has no name'}"
        raise UserError(expected, "nothing", f"name it: --env {saved or 'my_package:MyEnv'}")
    if saved and typed not in (None, saved):
        raise UserError(f"the run's own environment, {saved}", typed, "change --env")
    return factory_of(saved) if typed is None else import_factory(typed)


def drawing(factory: Factory) -> Factory:
    """How the environment is made so that it draws itself."""
    if isinstance(factory, Registered):
        return replace(factory, render_mode=RENDER_MODE)
    if "render_mode" in signature(factory).parameters:
        return partial(factory, render_mode=RENDER_MODE)  # type: ignore[call-arg]
    return factory


def learned(directory: Path, run: Run, seed: int, agent: Agent) -> Any:
    """The agent's state of one seed."""
    seeds = range(run.seed, run.seed + run.seeds)
    if seed not in seeds:
        raise UserError(f"a seed of the run, {seeds[0]} to {seeds[-1]}", seed, "change --seed")
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
    """Snapshots of an episode of a task in JAX, its end included."""

    def one(worlds: Any) -> Any:
        return jax.tree.map(lambda x: x[0], worlds)

    sums, worlds = jax.jit(lambda: play(env, decide, memory, 1, key, one))()
    worlds = jax.tree.map(np.asarray, worlds)
    length = int(sums.length[0])
    return [snap(jax.tree.map(lambda x, t=t: x[t], worlds)) for t in range(length + 1)]


def film_host(
    env: HostEnv, decide: Decide, memory: Any, snap: Callable[[Any], Any], key: Any
) -> list[Any]:
    """Snapshots of an episode on the host, until the step before the next one starts."""
    shots: list[Any] = []
    act = jax.jit(decide)

    def next_action(obs: np.ndarray, t: int) -> tuple[Any, Any]:
        nonlocal memory
        act_key, step_key = jax.random.split(jax.random.fold_in(key, t + 1))
        action, memory = act(memory, obs, np.asarray([t == 0]), act_key)
        return action, step_key

    worker = Worker(0)  # nobody waits for it in another thread
    envs = SeedEnvs((env,), ["a film"], worker)
    limit = env.spec.episode_length
    play_host(
        envs, next_action, jax.random.fold_in(key, 0), 1, limit, lambda o: shots.append(snap(o))
    )
    worker.close()
    return shots


def camera_of(env: Env | HostEnv, bins: bool) -> Camera:
    """Pictures of the task itself where it has any, else of its coverage grid."""
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
        raise UserError("a task with a coverage grid of two dimensions", got, "leave --map away")
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
