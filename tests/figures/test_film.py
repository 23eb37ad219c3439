"""Films: what is on a frame, and that a viewer finds every frame in the file."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from devote.core.errors import UserError
from devote.core.types import Grid
from devote.figures.film import FREE, HERE, SEEN, WALL, grid_frames, require_film, save_film

# two rows of three bins, the middle of the upper row a wall
GRID = Grid((2, 3), np.array([1, 0, 1, 1, 1, 1], bool), np.ones(6, bool))
PATH = np.array([0, 3, -1, 4])


def colours(frame: np.ndarray) -> list[tuple[int, ...]]:
    """The colour in the middle of every bin."""
    rows, columns = np.array(frame.shape[:2]) // GRID.shape
    middle = frame[rows // 2 :: rows, columns // 2 :: columns].reshape(-1, 3)
    return [tuple(int(part) for part in colour) for colour in middle]


def test_a_frame_shows_walls_the_way_and_the_agent() -> None:
    frames = grid_frames(GRID, PATH)
    assert colours(frames[0]) == [HERE, WALL, FREE, FREE, FREE, FREE]
    assert colours(frames[1]) == [SEEN, WALL, FREE, HERE, FREE, FREE]
    assert colours(frames[2]) == [SEEN, WALL, FREE, SEEN, FREE, FREE]  # outside every bin
    assert colours(frames[3]) == [SEEN, WALL, FREE, SEEN, HERE, FREE]


def test_a_gif_holds_every_frame(tmp_path: Path) -> None:
    path = save_film(grid_frames(GRID, PATH), tmp_path / "new" / "film.gif", rate=25)
    with Image.open(path) as film:
        assert film.n_frames == len(PATH)
        assert film.info["duration"] == 40
        film.seek(3)
        assert colours(np.asarray(film.convert("RGB")))[4] == HERE


def test_what_cannot_be_written_is_refused_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"\.gif or \.mp4"):
        require_film(Path("film.avi"))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(UserError, match="ffmpeg"):
        require_film(Path("film.mp4"))
