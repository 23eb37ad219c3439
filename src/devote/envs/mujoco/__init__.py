"""Tasks in native MuJoCo, many worlds at once in threads."""

from devote.envs.mujoco.ant_maze import AntMaze, AntMazeSettings
from devote.envs.mujoco.batch import MujocoEnv, native
from devote.envs.mujoco.cartpole import Cartpole, CartpoleSettings
from devote.envs.mujoco.cheetah import Cheetah, CheetahSettings
from devote.envs.mujoco.pick_and_place import PickAndPlace, PickAndPlaceSettings

__all__ = [
    "AntMaze",
    "AntMazeSettings",
    "Cartpole",
    "CartpoleSettings",
    "Cheetah",
    "CheetahSettings",
    "MujocoEnv",
    "PickAndPlace",
    "PickAndPlaceSettings",
    "native",
]
