"""What the figures of the GP task show besides the models' answers."""

import jax
import numpy as np

from devote.regression.gp_task import PAPER, draw_function, draw_task
from devote.regression.priors import MLP, RFN, Net
from devote.regression.tasks import Variant


def prior_draws(variant: Variant, count: int = 10) -> dict[str, np.ndarray]:
    """Functions from a GP, an MLP prior and an RFN prior of length 1 on the grid of the task."""
    grid = np.linspace(PAPER.low, PAPER.high, PAPER.grid)
    generator = np.random.default_rng(0)
    rfn = RFN(1.0, variant.features, variant.readout)
    return {
        "grid": grid,
        "GP": np.stack([draw_function(generator, grid, 1.0) for _ in range(count)]),
        "MLP": _values(MLP(init=variant.init).draw(generator, count, 1), grid),
        "RFN": _values(rfn.draw(generator, count, 1), grid),
    }


def task_draws(count: int) -> dict[str, np.ndarray]:
    """The sampled functions on the grid, and where they were observed."""
    draws = [draw_task(seed) for seed in range(count)]
    return {
        "grid": draws[0].grid_x,
        "f": np.stack([draw.grid_f for draw in draws]),
        "x": np.stack([draw.split.train.x[:, 0] for draw in draws]),
        "y": np.stack([draw.split.train.y for draw in draws]),
    }


def _values(nets: Net, grid: np.ndarray) -> np.ndarray:
    return np.asarray(jax.vmap(lambda net: net(grid[:, None]))(nets))
