"""DeepSea: a grid where one of 2^size action sequences reaches the last corner."""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from devote.core.settings import Few, Seed, check_ranges
from devote.core.types import Choice, EnvSpec, Grid, Index, Outcome

MOVE_COST = 0.01  # bsuite's cost of always going right, spread over the episode


@dataclass(frozen=True)
class DeepSeaSettings:
    """DeepSea as in bsuite, deterministic variant; the paper's is size 50 without rewards."""

    size: Few = 50
    """Rows, columns, and actions per episode."""
    mapping_seed: Seed = 42
    """Seed of which action goes right in which cell; bsuite's sweep uses 42 for every run."""
    rewards: bool = False
    """bsuite's rewards, or none at all."""


class DeepSeaWorld(NamedTuple):
    """The cell of the diver; row `size` is the end of the episode."""

    row: Int[Array, ""]
    column: Int[Array, ""]


class DeepSea:
    """Dive one row per action, left or right; the episode terminates below the last row.

    The observation is the cell as one integer, `row * size + column`. At the end of an episode,
    where bsuite observes all zeros, it is `size * size`, which is no cell.
    """

    def __init__(self, settings: DeepSeaSettings) -> None:
        check_ranges(settings)
        size = settings.size
        self.settings = settings
        self.spec = EnvSpec(
            name=f"deep_sea_{size}",
            observation=Index(size * size + 1),
            action=Choice(2),
            episode_length=size,
            grid=_grid(size),
        )
        mapping = np.random.RandomState(settings.mapping_seed)
        self._right_action = mapping.binomial(1, 0.5, [size, size]).astype(np.int32)

    def reset(self, key: PRNGKeyArray) -> DeepSeaWorld:
        """The top left cell."""
        return DeepSeaWorld(jnp.int32(0), jnp.int32(0))

    def observe(self, world: DeepSeaWorld) -> Int[Array, ""]:
        """The number of the cell, or `size * size` at the end."""
        size = self.settings.size
        return jnp.where(world.row < size, world.row * size + world.column, size * size)

    def step(
        self, world: DeepSeaWorld, action: Float[Array, "2"], key: PRNGKeyArray
    ) -> tuple[DeepSeaWorld, Outcome]:
        """One row down, one column left or right, stopping at the sides."""
        last = self.settings.size - 1
        right = jnp.argmax(action) == jnp.asarray(self._right_action)[world.row, world.column]
        column = jnp.clip(world.column + jnp.where(right, 1, -1), 0, last)
        after = DeepSeaWorld(world.row + 1, column)
        return after, Outcome(self._reward(world, right), after.row > last)

    def bin_of(self, world: DeepSeaWorld) -> Int[Array, ""]:
        """The cell; -1 at the end of the episode."""
        return jnp.where(world.row < self.settings.size, self.observe(world), -1)

    def _reward(self, world: DeepSeaWorld, right: Array) -> Float[Array, ""]:
        if not self.settings.rewards:
            return jnp.float32(0.0)
        treasure = right & (world.column == self.settings.size - 1)
        return jnp.where(treasure, 1.0, 0.0) - jnp.where(right, MOVE_COST / self.settings.size, 0.0)


def _grid(size: int) -> Grid:
    # the diver starts on the left and gains at most one column per row
    triangle = np.tri(size, dtype=bool).ravel()
    return Grid(
        shape=(size, size),
        eligible=triangle,
        reachable=triangle,
        centers=np.arange(size * size, dtype=np.int32),
        extent=(0.0, size, size, 0.0),
        labels=("column", "row"),
        bin_of=lambda obs, xp: xp.where(obs < size * size, obs, -1),
        marks=(("start", 0.5, 0.5), ("goal", size - 0.5, size - 0.5)),
    )
