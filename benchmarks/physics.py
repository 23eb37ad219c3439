"""Native MuJoCo tasks against raw `mujoco.rollout`, Gymnasium's and dm_control's loops.

Every contestant runs in turn, several times, and its best round counts; read the ratios. A step is
one decision of one environment. `whole` lets our environments end and start episodes again, which
for Cheetah costs 200 time steps of settling in every start (a round must have 500 decisions to
contain one); `mid` stays within episodes.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import jax
import mujoco
import numpy as np
from dm_control import suite
from mujoco.rollout import Rollout

from devote.envs.mujoco.ant_maze import AntMaze, AntMazeSettings
from devote.envs.mujoco.batch import MujocoEnv
from devote.envs.mujoco.cheetah import Cheetah, CheetahSettings
from devote.envs.mujoco.gym import MujocoGymEnv
from devote.envs.mujoco.pick_and_place import PickAndPlace, PickAndPlaceSettings

THREADS = os.cpu_count() or 1
KEY = jax.random.key(0)
RECORDED = 500  # decisions until controls repeat
Play = Callable[[int], None]
TASKS = {
    "cheetah": lambda: Cheetah(CheetahSettings(rewards=True)),
    "ant_maze": lambda: AntMaze(AntMazeSettings()),
    "pick_and_place": lambda: PickAndPlace(PickAndPlaceSettings()),
}


def random_actions(env: MujocoEnv, steps: int) -> np.ndarray:
    """The same for every contestant."""
    size = (steps, env.num_envs, env.spec.action.size)
    return np.random.default_rng(0).uniform(-1, 1, size).astype(np.float32)


def ours(task: Any, num_envs: int, endless: bool) -> Play:
    """Our batch under random actions."""
    env = MujocoEnv(task, num_envs)
    env.reset(KEY)
    start = env.save()
    actions = random_actions(env, RECORDED)

    def play(steps: int) -> None:
        if endless:
            env.restore(start)
        for step in range(steps):
            env.step(actions[step % RECORDED], None if endless else KEY)

    return play


def raw(task: Any, num_envs: int) -> Play:
    """MuJoCo's own rollout of the same model from the same states under the same controls."""
    env = MujocoEnv(task, num_envs)
    env.reset(KEY)
    model, spec = task.model, mujoco.mjtState.mjSTATE_FULLPHYSICS
    size, substeps = mujoco.mj_stateSize(model, spec), round(task.step_time / model.opt.timestep)
    start = env.physics.state[:, :size].copy()
    controls = []
    for action in random_actions(env, RECORDED):
        env.step(action, None)
        controls.append(np.repeat(env.physics.ctrl[:, None], substeps, axis=1))
    datas, models = [mujoco.MjData(model) for _ in range(THREADS)], [model] * num_envs
    states = np.empty((num_envs, substeps, size))
    sensors = np.empty((num_envs, substeps, model.nsensordata))
    pool = Rollout(nthread=THREADS)

    def play(steps: int) -> None:
        state = start.copy()
        for step in range(steps):
            pool.rollout(
                *(models, datas, state, controls[step % RECORDED]),
                **dict(skip_checks=True, nstep=substeps, state=states, sensordata=sensors),
            )
            state[:] = states[:, -1]

    return play


def gymnasium_loop(make: Callable[[], gymnasium.Env], num_envs: int) -> Play:
    """Gymnasium's sync vector environment."""
    env = gymnasium.vector.SyncVectorEnv([make] * num_envs)
    env.reset(seed=0)
    actions = [env.action_space.sample() for _ in range(64)]

    def play(steps: int) -> None:
        for step in range(steps):
            env.step(actions[step % 64])

    return play


def dm_control_loop() -> Play:
    """dm_control's cheetah with every action twice, one environment."""
    env = suite.load("cheetah", "run")
    actions = np.random.default_rng(0).uniform(-1, 1, (64, 6))
    env.reset()

    def play(steps: int) -> None:
        for step in range(steps):
            for _ in range(2):
                if env.step(actions[step % 64]).last():
                    env.reset()

    return play


def race(players: dict[str, tuple[Play, int]], steps: int, rounds: int) -> dict[str, Any]:
    """Steps per second, and processor time per step, of each: the best of alternating rounds."""
    speed, cost = dict.fromkeys(players, 0.0), dict.fromkeys(players, float("inf"))
    for _ in range(rounds):
        for name, (play, num_envs) in players.items():
            count = max(steps // num_envs, 1)
            began, spent = time.perf_counter(), time.process_time()
            play(count)
            spent = time.process_time() - spent
            speed[name] = max(speed[name], count * num_envs / (time.perf_counter() - began))
            cost[name] = min(cost[name], 1e6 * spent / (count * num_envs))
    return {"steps_per_second": speed, "processor_microseconds_per_step": cost}


def against_rollout(num_envs: int, steps: int, rounds: int) -> dict[str, Any]:
    """Each task and the raw rollout of its model."""
    rows = {}
    for name, build in TASKS.items():
        players = {
            "rollout": (raw(build(), num_envs), num_envs),
            "ours_mid": (ours(build(), num_envs, endless=True), num_envs),
            "ours_whole": (ours(build(), num_envs, endless=False), num_envs),
        }
        found = race(players, steps, rounds)
        speed = found["steps_per_second"]
        ratios = {part: speed[part] / speed["rollout"] for part in ("ours_mid", "ours_whole")}
        rows[name] = found | {"ratio_to_rollout": ratios}
    return rows


def against_loops(num_envs: int, steps: int, rounds: int) -> dict[str, Any]:
    """Cheetah and the loops that step one environment after another."""
    settings = CheetahSettings(rewards=True)
    players = {
        "ours_whole": (ours(Cheetah(settings), num_envs, endless=False), num_envs),
        "gymnasium_same_task": (gymnasium_loop(lambda: MujocoGymEnv(settings), 8), 8),
        "gymnasium_half_cheetah": (gymnasium_loop(lambda: gymnasium.make("HalfCheetah-v5"), 8), 8),
        "dm_control": (dm_control_loop(), 1),
    }
    found = race(players, steps, rounds)
    speed = found["steps_per_second"]
    ratios = {name: speed["ours_whole"] / speed[name] for name in list(players)[1:]}
    return found | {"times_as_fast_as": ratios}


def main() -> None:
    """Print all figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--steps", type=int, default=32_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    found = {
        "threads": THREADS,
        "num_envs": args.num_envs,
        "against_rollout": against_rollout(args.num_envs, args.steps, args.rounds),
        "cheetah_against_loops": against_loops(args.num_envs, args.steps, args.rounds),
    }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
