"""Films of an episode, or of a whole run, over its coverage grid, as GIF or MP4."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.font_manager import findfont
from PIL import Image, ImageDraw, ImageFont

from devote.core.durable import replacing
from devote.core.errors import UserError
from devote.core.types import Grid

WALL, FREE, SEEN, HERE = (60, 60, 66), (245, 245, 245), (120, 170, 215), (200, 40, 40)
LONG_SIDE, GAP = 480, 12  # pixels
SHADES = 48  # of a map in a film
KINDS = (".gif", ".mp4")


def grid_frames(grid: Grid, bins: np.ndarray) -> list[np.ndarray]:
    """One picture per step: walls, the bins visited so far, and the agent."""
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


def timelapse_frames(
    grid: Grid, panels: dict[str, np.ndarray], steps: Sequence[int]
) -> list[np.ndarray]:
    """One picture per snapshot: maps `(snapshots, bins)` side by side, each with one scale."""
    rows, columns = grid.shape
    zoom = max(1, LONG_SIDE * 3 // 4 // max(rows, columns))
    width, height, top = columns * zoom, rows * zoom, 28
    font = ImageFont.truetype(findfont("DejaVu Sans"), 16)
    drawn = {}
    for name, values in panels.items():
        values = np.where(grid.eligible, values, np.nan)
        low, high = np.nanpercentile(values, [1, 99]) if np.isfinite(values).any() else (0, 1)
        # few colours make a small GIF
        share = np.round((values - low) / max(high - low, 1e-12) * (SHADES - 1)) / (SHADES - 1)
        colours = colormaps["viridis"](share, bytes=True)[..., :3]
        colours[~np.isfinite(values)] = FREE
        colours[:, ~grid.eligible] = WALL
        drawn[name] = colours.reshape(-1, rows, columns, 3).repeat(zoom, 1).repeat(zoom, 2)
    frames = []
    for at, step in enumerate(steps):
        canvas = Image.new("RGB", (len(drawn) * (width + GAP) - GAP, height + 2 * top), "white")
        pen = ImageDraw.Draw(canvas)
        for place, (name, pictures) in enumerate(drawn.items()):
            left = place * (width + GAP)
            canvas.paste(Image.fromarray(pictures[at]), (left, top))
            pen.text((left + 2, top / 2), name, fill="black", font=font, anchor="lm")
        pen.text((2, height + 1.5 * top), f"step {step:,}", fill="black", font=font, anchor="lm")
        done = (canvas.width - 1) * (at + 1) // len(steps)
        pen.line((0, canvas.height - 2, done, canvas.height - 2), fill=HERE, width=3)
        picture = np.array(canvas)
        for text in (picture[:top], picture[-top:]):
            text[:] = text // 16 * 17  # few greys
        frames.append(picture)
    return frames


def require_film(path: Path) -> None:
    """Refuse a file that cannot be written, before an episode is played."""
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
    with replacing(path) as temporary:
        (_save_gif if path.suffix == ".gif" else _save_mp4)(frames, temporary, rate)
    return path


def _save_gif(frames: Sequence[np.ndarray], path: Path, rate: float) -> None:
    first, *rest = [Image.fromarray(frame) for frame in frames]
    # viewers read a delay below 0.02 s as 0.1 s
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
