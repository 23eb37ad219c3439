"""Mazes as text: the two of the paper, and every mistake by its cell."""

import numpy as np
import pytest

from devote.core.errors import UserError
from devote.envs import SPIRAL, U_MAZE, parse
from devote.envs.layout import random_maze

# Columns of walls between the borders, row by row, as in the authors' code.
SPIRAL_WALLS = {
    3: [*range(3, 15)],
    4: [3],
    5: [3],
    6: [3, *range(6, 13)],
    7: [3, 6, 12],
    8: [3, 6, 12],
    9: [3, *range(6, 10), 12],
    10: [3, 12],
    11: [3, 12],
    12: [*range(3, 13)],
}


def bordered(size: int) -> np.ndarray:
    walls = np.ones((size, size), bool)
    walls[1:-1, 1:-1] = False
    return walls


def test_spiral_is_the_authors() -> None:
    layout = parse(SPIRAL)
    walls = bordered(16)
    for row, columns in SPIRAL_WALLS.items():
        walls[row, columns] = True
    assert np.array_equal(layout.walls, walls)
    assert (layout.start, layout.goal) == ((7, 7), (1, 14))
    assert (~layout.walls).sum() == layout.reachable.sum() == 148


def test_u_maze_is_the_authors() -> None:
    layout = parse(U_MAZE)
    walls = bordered(15)
    walls[3:14, 3:12] = True
    walls[13, 7] = False
    assert np.array_equal(layout.walls, walls)
    assert (layout.start, layout.goal) == ((1, 7), (13, 7))
    assert (~layout.walls).sum() == 71
    assert layout.reachable.sum() == 70
    assert not layout.reachable[13, 7]


def test_dots_are_open_goals_optional_and_indentation_free() -> None:
    layout = parse("""
        ####
        #S.#
        #. #
        ####
    """)
    assert layout.goal is None
    assert layout.walls.shape == (4, 4)
    assert layout.reachable.sum() == 4


def test_cells_that_touch_at_a_corner_are_not_connected() -> None:
    assert parse("####\n#S##\n## #\n####").reachable.sum() == 1


@pytest.mark.parametrize(
    ("text", "cell", "fix"),
    [
        ("", "no rows", "draw one"),
        ("####\n#  #\n####", "row 2, column 3", "put 'S'"),
        ("####\n#SS#\n####", "row 1, column 2", "open one"),
        ("####\n#S#\n####", "row 1, column 3", "fill it"),
        ("####\n#S ##\n####", "row 1, column 4", "remove"),
        ("####\n#Sx#\n####", "'x' at row 1, column 2", "replace it"),
        ("####\n#S\t#\n####", r"'\t' at row 1, column 2", "replace it"),
        ("####\n#S  \n####", "row 1, column 3", "put '#'"),
        ("# ##\n#S #\n####", "row 0, column 1", "put '#'"),
        ("####\n#S #\n###G", "row 2, column 3", "put '#'"),
        ("#####\n#S#G#\n#####", "row 1, column 3", "draw it 'g'"),
        ("#####\n#S g#\n#####", "row 1, column 3", "draw it 'G'"),
        ("#####\n#SGG#\n#####", "row 1, column 3", "open one"),
    ],
)
def test_mistakes_are_refused_by_cell(text: str, cell: str, fix: str) -> None:
    with pytest.raises(UserError) as refusal:
        parse(text)
    assert cell in str(refusal.value)
    assert fix in str(refusal.value)


def test_random_mazes_are_whole_and_those_of_their_seed() -> None:
    for seed in range(12):
        layout, again = parse(f"random:{seed}"), parse(random_maze(seed))
        np.testing.assert_array_equal(layout.walls, again.walls)
        np.testing.assert_array_equal(layout.reachable, ~layout.walls)
        assert layout.goal not in (None, layout.start)
    assert len({random_maze(seed) for seed in range(12)}) == 12
    wide = parse("random:2").walls  # corridors of three cells: no narrower opening anywhere
    rows = "\n".join("".join("# "[int(not wall)] for wall in row) for row in wide)
    assert "# #" not in rows
    assert "#  #" not in rows
    with pytest.raises(UserError, match="row 0"):
        parse("random:x")
