"""Mazes drawn as text: `#` wall, space or `.` open, `S` start, `G` goal.

A goal that is walled in on purpose is drawn `g`, so that a `G` walled in by mistake is refused.
`random:7` stands for a maze drawn by a generator with seed 7.
"""

import re
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
            bin_of=lambda obs, xp: self.bin_of(obs[..., :2], cell_size, xp),
            marks=tuple(
                (name, *self.center(cell, cell_size).tolist())
                for name, cell in (("start", self.start), ("goal", self.goal))
                if cell is not None
            ),
        )


RANDOM = re.compile(r"random:(\d{1,9})")
SPAN = 15  # cells along the inside of a random maze, about
LOOPS = 0.15  # share of the other walls between rooms that are opened


def random_maze(seed: int) -> str:
    """A maze with dead ends and a few loops. The seed also decides whether corridors are one, two
    or three cells wide. The goal is as far from the start as possible."""
    draw, width = np.random.default_rng(seed), 1 + seed % 3
    rooms = round(SPAN / (width + 1))
    side = rooms * (width + 1) + 1
    cells = np.full((side, side), WALL)
    corners = {
        (i, j): (1 + i * (width + 1), 1 + j * (width + 1)) for i, j in np.ndindex(rooms, rooms)
    }

    def join(a: Cell, b: Cell) -> None:
        (top, left), (bottom, right) = sorted((corners[a], corners[b]))
        cells[top : bottom + width, left : right + width] = " "

    pairs = [(a, (a[0] + i, a[1] + j)) for a in corners for i, j in ((0, 1), (1, 0))]
    pairs = [(a, b) for a, b in pairs if b in corners]
    groups = {room: {room} for room in corners}
    for at in draw.permutation(len(pairs)):
        a, b = pairs[at]
        if groups[a] is not groups[b]:
            merged = groups[a] | groups[b]
            groups |= dict.fromkeys(merged, merged)
            join(a, b)
        elif draw.random() < LOOPS:
            join(a, b)
    start = corners[int(draw.integers(rooms)), int(draw.integers(rooms))]
    cells[start] = START
    cells[_by_distance(cells == WALL, start)[-1]] = GOAL
    return "\n".join("".join(row) for row in cells)


def parse(text: str) -> Layout:
    """The maze drawn in `text`; errors name the row and column of the first mistake."""
    if drawn := RANDOM.fullmatch(text.strip()):
        text = random_maze(int(drawn[1]))
    cells = _cells_of(dedent(text).strip("\n").splitlines())
    walls = cells == WALL
    start, goal = _only(cells, START), _only(cells, GOAL + SEALED_GOAL)
    if start is None:
        got = f"none up to {_at((len(cells) - 1, cells.shape[1] - 1))}"
        raise UserError("one start 'S'", got, "put 'S' into an open cell")
    reachable = _flood(walls, start)
    if goal is not None and cells[goal] == GOAL and not reachable[goal]:
        expected, got = "a goal 'G' that the start is connected to", f"one walled in at {_at(goal)}"
        fix = "open a way to it, or draw it 'g' if it is sealed on purpose"
        raise UserError(expected, got, fix)
    if goal is not None and cells[goal] == SEALED_GOAL and reachable[goal]:
        expected, got = "a sealed goal 'g' out of reach", f"one within reach at {_at(goal)}"
        raise UserError(expected, got, "draw it 'G', or wall it in")
    return Layout(walls, reachable, start, goal)


def _at(cell: Cell) -> str:
    return f"row {cell[0]}, column {cell[1]} (counted from 0)"


def _cells_in(mask: np.ndarray) -> list[Cell]:
    return [(int(row), int(column)) for row, column in np.argwhere(mask)]


def _cells_of(rows: list[str]) -> np.ndarray:
    """One character per cell: a rectangle of known characters with walls all around."""
    if not rows or not rows[0]:
        raise UserError("a maze drawn as text", "no rows", "draw one, or use SPIRAL or U_MAZE")
    width = len(rows[0])
    for number, row in enumerate(rows):
        if len(row) != width:
            where = _at((number, min(len(row), width)))
            fix = "fill it with '#'" if len(row) < width else "remove the characters after that"
            got = f"{len(row)} characters, different from {where} on"
            raise UserError(f"rows of one length, {width} as in row 0", got, fix)
    cells = np.array([list(row) for row in rows])
    for cell in _cells_in(~np.isin(cells, list(CHARACTERS))):
        expected = "'#' wall, ' ' or '.' open, 'S' start, 'G' goal or 'g' sealed goal"
        raise UserError(expected, f"{str(cells[cell])!r} at {_at(cell)}", "replace it")
    inner = np.zeros(cells.shape, bool)
    inner[1:-1, 1:-1] = True
    for cell in _cells_in(~inner & (cells != WALL)):
        got = f"an opening at {_at(cell)}, through which the point could leave"
        fix = "put '#' there, or add a row or column of '#' outside"
        raise UserError("walls all around the maze", got, fix)
    return cells


def _only(cells: np.ndarray, marks: str) -> Cell | None:
    """The only cell with one of these marks, None if there is none."""
    found = _cells_in(np.isin(cells, list(marks)))
    if len(found) > 1:
        got = f"a second one at {_at(found[1])}, the first at {_at(found[0])}"
        name = "start" if marks == START else "goal"
        raise UserError(f"one {name} {marks[0]!r}", got, "open one of them with ' '")
    return found[0] if found else None


def _flood(walls: np.ndarray, start: Cell) -> np.ndarray:
    reached = np.zeros_like(walls)
    for cell in _by_distance(walls, start):
        reached[cell] = True
    return reached


def _by_distance(walls: np.ndarray, start: Cell) -> list[Cell]:
    """The open cells that are connected to the start, nearest first."""
    found = {start}
    for row, column in (queue := [start]):
        # the border is wall, so an open cell has four neighbours
        for cell in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
            if cell not in found and not walls[cell]:
                found.add(cell)
                queue.append(cell)
    return queue
