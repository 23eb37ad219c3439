"""Moving pictures: frames of an episode over its coverage grid, and the file that holds them."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from devote.core.errors import UserError
from devote.core.types import Grid

WALL, FREE, SEEN, HERE = (60, 60, 66), (245, 245, 245), (120, 170, 215), (200, 40, 40)
LONG_SIDE = 480  # pixels
KINDS = (".gif", ".mp4")


def grid_frames(grid: Grid, bins: np.ndarray) -> list[np.ndarray]:
    """One picture per step: walls, the bins seen so far, and where the agent is."""
    rows, columns = grid.shape
    zoom = max(1, LONG_SIDE // max(rows, columns))
    canvas = np.where(grid.eligible[:, None], FREE, WALL).astype(np.uint8)
    frames = []
    for now in bins:
        if now >= 0:
            canvas[now] = SEEN
        picture = canvas.copy()
        if now >= 0:
            picture[now] = HERE
        frames.append(picture.reshape(rows, columns, 3).repeat(zoom, 0).repeat(zoom, 1))
    return frames


def require_film(path: Path) -> None:
    """Refuse a file that could not be written, before an episode is played for it."""
    if path.suffix not in KINDS:
        raise UserError("a file that ends in .gif or .mp4", path, "change --out")
    if path.suffix == ".mp4" and shutil.which("ffmpeg") is None:
        raise UserError(
            "ffmpeg, which writes MP4", "none on this machine", "install it, or write a .gif"
        )


def save_film(frames: Sequence[np.ndarray], path: Path, rate: float) -> Path:
    """Write frames `(height, width, 3)` at `rate` per second, as GIF or MP4."""
    require_film(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gif":
        _save_gif(frames, path, rate)
    else:
        _save_mp4(frames, path, rate)
    return path


def _save_gif(frames: Sequence[np.ndarray], path: Path, rate: float) -> None:
    first, *rest = [Image.fromarray(frame) for frame in frames]
    # viewers take a delay below two hundredths for a tenth
    delay = max(20, round(1000 / rate / 10) * 10)
    first.save(path, save_all=True, append_images=rest, duration=delay, loop=0)


def _save_mp4(frames: Sequence[np.ndarray], path: Path, rate: float) -> None:
    height, width = (side - side % 2 for side in frames[0].shape[:2])  # the codec wants even sides
    size = ["-s", f"{width}x{height}", "-r", f"{rate:g}"]
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", *size, "-i", "-"]
    words = ["ffmpeg", "-y", "-loglevel", "error", *source, "-pix_fmt", "yuv420p", str(path)]
    pixels = b"".join(np.ascontiguousarray(f[:height, :width]).tobytes() for f in frames)
    done = subprocess.run(words, input=pixels, capture_output=True)
    if done.returncode:
        raise UserError("ffmpeg to write the film", done.stderr.decode().strip(), "write a .gif")
