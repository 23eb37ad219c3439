"""Who in a vector environment failed, died or keeps silent."""

import traceback
from typing import Any

from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv


def part_of(obs: Any, index: int) -> Any:
    """The observation of one environment in a batch of them."""
    if isinstance(obs, dict):
        return {key: part_of(value, index) for key, value in obs.items()}
    if isinstance(obs, tuple):
        return tuple(part_of(value, index) for value in obs)
    return obs[index]


def raiser(envs: VectorEnv, error: BaseException) -> int | None:
    """The environment of a `SyncVectorEnv` in whose own code an error was raised."""
    inner = envs.unwrapped
    if not isinstance(inner, SyncVectorEnv):
        return None
    numbers = {id(env): index for index, env in enumerate(inner.envs)}
    for frame, _ in traceback.walk_tb(error.__traceback__):
        index = numbers.get(id(frame.f_locals.get("self")))
        if index is not None:
            return index
    return None


def culprits(envs: VectorEnv) -> str:
    """The environments whose worker has died or given up, as far as the parent can tell."""
    inner = envs.unwrapped
    if not isinstance(inner, AsyncVectorEnv):
        return str(envs)
    for process in inner.processes:
        process.join(timeout=0.2)  # one that is dying may not be dead yet
    dead = [
        f"environment {index} (its process ended with exit code {process.exitcode})"
        for index, process in enumerate(inner.processes)
        if inner.parent_pipes[index] is None or not process.is_alive()
    ]
    return ", ".join(dead) or f"a worker of {envs}"


def silent(envs: VectorEnv) -> str:
    """The environments that have not answered yet."""
    late = [
        f"environment {index}"
        for index, pipe in enumerate(getattr(envs.unwrapped, "parent_pipes", ()))
        if pipe is not None and not pipe.poll()
    ]
    return ", ".join(late) or f"a worker of {envs}"


def end_workers(envs: AsyncVectorEnv) -> None:
    """End worker processes that can no longer be asked to."""
    for process in envs.processes:
        process.kill()
        process.join()
    for pipe in envs.parent_pipes:
        if pipe is not None:
            pipe.close()
    envs.closed = True
