"""Mazes drawn as text: `#` wall, space or `.` open, `S` start, `G` goal.

A goal walled in on purpose is drawn `g`, so that one walled in by mistake is noticed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from textwrap import dedent
from typing import Any

import numpy as np
from jaxtyping import Bool

from devote.core.errors import UserError
from devote.core.types import Grid

WALL, START, GOAL, SEALED_GOAL = "#", "S", "G", "g"
CHARACTERS = WALL + " ." + START + GOAL + SEALED_GOAL
BINS = 2  # coverage bins along each side of a cell
Cell = tuple[int, int]

SPIRAL = """\
################
#             G#
#              #
#  #############
#  #           #
#  #           #
#  #  #######  #
#  #  #S    #  #
#  #  #     #  #
#  #  ####  #  #
#  #        #  #
#  #        #  #
#  ##########  #
#              #
#              #
################
"""

U_MAZE = """\
###############
#      S      #
#             #
#  #########  #
#  #########  #
#  #########  #
#  #########  #
#  #########  #
#  #########  #
#  #########  #
#  #########  #
#  #########  #
#  #########  #
#  ####g####  #
###############
"""


@dataclass(frozen=True, eq=False)
class Layout:
    """A maze of cells; row 0 is drawn on top, cells are (row, column)."""

    walls: Bool[np.ndarray, "rows columns"]
    reachable: Bool[np.ndarray, "rows columns"]
    """Open cells connected to the start, sideways or up and down."""
    start: Cell
    goal: Cell | None

    def center(self, cell: Cell, cell_size: float) -> np.ndarray:
        """Where a cell lies in the plane; the lower left one is centred at the origin."""
        return np.array([cell_size * cell[1], cell_size * (len(self.walls) - 1 - cell[0])])

    def extent(self, cell_size: float) -> tuple[float, float, float, float]:
        """Left, right, bottom and top."""
        rows, columns = self.walls.shape
        half = cell_size / 2
        return -half, cell_size * columns - half, -half, cell_size * rows - half

    def bin_of(self, position: Any, cell_size: float, xp: Any) -> Any:
        """The quarter of a cell at positions, in NumPy or JAX; on an edge the right or upper."""
        rows, columns = (BINS * cells for cells in self.walls.shape)
        place = xp.floor((position + cell_size / 2) / (cell_size / BINS)).astype(int)
        column, up = xp.clip(place[..., 0], 0, columns - 1), xp.clip(place[..., 1], 0, rows - 1)
        return (rows - 1 - up) * columns + column

    def grid(self, cell_size: float, observed: Callable[[np.ndarray], np.ndarray]) -> Grid:
        """Quarters of cells; `observed` gives what is seen at positions `(bins, 2)`."""
        shape = (BINS * self.walls.shape[0], BINS * self.walls.shape[1])
        row, column = np.indices(shape).reshape(2, -1)
        side, (left, right, bottom, top) = cell_size / BINS, self.extent(cell_size)
        position = np.stack([left + (column + 0.5) * side, top - (row + 0.5) * side], axis=1)
        return Grid(
            shape=shape,
            eligible=~self.walls[row // BINS, column // BINS],
            reachable=self.reachable[row // BINS, column // BINS],
            centers=observed(position).astype(np.float32),
            extent=(left, right, bottom, top),
        )


def parse(text: str) -> Layout:
    """The maze drawn in `text`, refused with the row and column of the first mistake."""
    rows = dedent(text).strip("\n").splitlines()
    _check_rectangle(rows)
    cells = np.array([list(row) for row in rows])
    _check_characters(cells)
    walls = cells == WALL
    _check_border(walls)
    start = _start(cells)
    reachable = _flood(walls, start)
    return Layout(walls, reachable, start, _goal(cells, reachable))


def _at(cell: Cell) -> str:
    return f"row {cell[0]}, column {cell[1]} (counted from 0)"


def _cells(mask: np.ndarray) -> list[Cell]:
    return [(int(row), int(column)) for row, column in np.argwhere(mask)]


def _check_rectangle(rows: list[str]) -> None:
    if not rows or not rows[0]:
        raise UserError("a maze drawn as text", "no rows", "draw one, or use SPIRAL or U_MAZE")
    width = len(rows[0])
    for number, row in enumerate(rows):
        if len(row) != width:
            edge = (number, min(len(row), width))
            change = "fill it with '#'" if len(row) < width else "remove what is too much"
            raise UserError(
                f"rows of one length, {width} as in row 0",
                f"{len(row)} characters, different from {_at(edge)} on",
                change,
            )


def _check_characters(cells: np.ndarray) -> None:
    for cell in _cells(~np.isin(cells, list(CHARACTERS))):
        raise UserError(
            "'#' wall, ' ' or '.' open, 'S' start, 'G' goal or 'g' sealed goal",
            f"{str(cells[cell])!r} at {_at(cell)}",
            "replace it by one of these",
        )


def _check_border(walls: np.ndarray) -> None:
    border = np.ones_like(walls)
    border[1:-1, 1:-1] = False
    for cell in _cells(border & ~walls):
        raise UserError(
            "walls all around the maze",
            f"an opening at {_at(cell)}, through which the point could leave",
            "put '#' there, or one more row or column of '#' outside",
        )


def _start(cells: np.ndarray) -> Cell:
    starts = _cells(cells == START)
    if not starts:
        rows, columns = cells.shape
        raise UserError(
            "one start 'S'",
            f"none from {_at((0, 0))} to {_at((rows - 1, columns - 1))}",
            "put 'S' into an open cell",
        )
    if len(starts) > 1:
        raise UserError(
            "one start 'S'",
            f"a second one at {_at(starts[1])}, the first at {_at(starts[0])}",
            "open one of them with ' '",
        )
    return starts[0]


def _goal(cells: np.ndarray, reachable: np.ndarray) -> Cell | None:
    goals = _cells((cells == GOAL) | (cells == SEALED_GOAL))
    if not goals:
        return None
    if len(goals) > 1:
        raise UserError(
            "at most one goal",
            f"a second one at {_at(goals[1])}, the first at {_at(goals[0])}",
            "open one of them with ' '",
        )
    goal = goals[0]
    if cells[goal] == GOAL and not reachable[goal]:
        raise UserError(
            "a goal 'G' that the start is connected to",
            f"one walled in at {_at(goal)}",
            "open a way to it, or draw it 'g' if it is sealed on purpose",
        )
    if cells[goal] == SEALED_GOAL and reachable[goal]:
        raise UserError(
            "a sealed goal 'g' that the start is not connected to",
            f"one within reach at {_at(goal)}",
            "draw it 'G', or wall it in",
        )
    return goal


def _flood(walls: np.ndarray, start: Cell) -> np.ndarray:
    reached = np.zeros_like(walls)
    frontier = [start]
    while frontier:
        row, column = frontier.pop()
        if reached[row, column] or walls[row, column]:
            continue
        reached[row, column] = True
        # The border is wall, so neighbours of an open cell exist.
        frontier += [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
    return reached
