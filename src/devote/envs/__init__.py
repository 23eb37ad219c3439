"""Environments; exported here: DeepSea and PointMaze, in JAX."""

from devote.envs.deep_sea import DeepSea, DeepSeaSettings, DeepSeaWorld
from devote.envs.layout import SPIRAL, U_MAZE, Layout, parse
from devote.envs.point_maze import (
    PointMaze,
    PointMazeSettings,
    PointMazeWorld,
    as_authors,
    spiral,
    u_maze,
)

__all__ = [
    "SPIRAL",
    "U_MAZE",
    "DeepSea",
    "DeepSeaSettings",
    "DeepSeaWorld",
    "Layout",
    "PointMaze",
    "PointMazeSettings",
    "PointMazeWorld",
    "as_authors",
    "parse",
    "spiral",
    "u_maze",
]
