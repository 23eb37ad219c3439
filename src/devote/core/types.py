"""Transitions, the specification of a task, and the protocols of agents and environments."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

Metrics = dict[str, Array]
Observation = Array
"""A float vector or, for an `Index` space, one integer; leading axes are batch axes."""


class Transition(NamedTuple):
    """One step of a batch of environments."""

    obs: Observation
    action: Float[Array, "*batch action"]
    """In [-1, 1] for a continuous task, one-hot for a discrete one."""
    reward: Float[Array, "*batch"]
    discount: Float[Array, "*batch"]
    """0 where the task terminated, 1 otherwise, including at a time limit."""
    next_obs: Observation
    """The true successor, never the first observation of the next episode."""
    first: Bool[Array, "*batch"]
    """Whether `obs` is the first observation of an episode."""


@dataclass(frozen=True)
class Vector:
    """Vector observations, with the usual range of each entry."""

    low: tuple[float, ...]
    """Minus infinity where unknown."""
    high: tuple[float, ...]
    own_units: bool = False
    """Whether entries have different units, so that agents scale each by its range."""
    dtype: str = "float32"
    """How observations are stored: float32, or uint8 for images, which agents scale."""
    promised: bool = field(default=False, compare=False)
    """Whether the task guarantees the range, so that an entry far outside is an error."""
    names: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """The user's name of each entry, for messages."""
    integers: bool = field(default=False, compare=False, repr=False)
    """Whether every entry is an integer, or became one of few values by scaling."""

    @property
    def size(self) -> int:
        return len(self.low)


@dataclass(frozen=True)
class Index:
    """Integer observations, which networks see as a one-hot vector of `size` entries."""

    size: int


@dataclass(frozen=True)
class Box:
    """Continuous actions in [-1, 1]."""

    size: int


@dataclass(frozen=True)
class Choice:
    """Discrete actions, one-hot encoded."""

    size: int


@dataclass(frozen=True, eq=False)
class Grid:
    """The bins over which coverage is counted, flattened row by row (row 0 is at the top)."""

    shape: tuple[int, ...]
    eligible: np.ndarray
    """Bins that count for coverage, `(bins,)` bool."""
    reachable: np.ndarray
    """Bins that some policy can visit, `(bins,)` bool."""
    centers: np.ndarray | None = None
    """The observation at the center of each bin, for maps; None if a bin does not determine it."""
    extent: tuple[float, float, float, float] | None = None
    """Left, right, bottom and top of a two-dimensional grid, for drawing."""
    labels: tuple[str, ...] = ("x", "y")
    bin_of: Callable[[Any, Any], Any] | None = None
    """Flat bins of observations, with `numpy` or `jax.numpy` as second argument; -1 outside of all
    bins. None if observations do not determine the bin."""
    marks: tuple[tuple[str, float, float], ...] = ()
    """Start and goal as ("start", x, y), in the units of `extent`."""

    def __post_init__(self) -> None:
        bins = int(np.prod(self.shape))
        if self.eligible.shape != (bins,) or self.reachable.shape != (bins,):
            raise ValueError(f"a grid of shape {self.shape} needs masks of shape ({bins},)")

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))


@dataclass(frozen=True)
class EnvSpec:
    """What an agent and a loop need to know about a task."""

    name: str
    observation: Vector | Index
    action: Box | Choice
    episode_length: int
    grid: Grid | None = field(default=None, compare=False)
    terms: tuple[str, ...] = ()
    """Names of the parts of the reward, reported per episode."""
    says_success: bool = False
    """Whether steps report if the task is solved."""


class Outcome(NamedTuple):
    """The result of a step, besides the next state."""

    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    success: Bool[Array, ""] | bool = False
    """Whether the task is solved; an episode succeeds if any of its steps does."""
    terms: dict[str, Array] = {}  # noqa: RUF012  never written to
    """The parts of the reward, named as in `EnvSpec.terms`."""


@runtime_checkable
class Env(Protocol):
    """A single task in JAX as pure functions, which the loop batches, limits in time and resets.

    A world is the state of the simulation.
    """

    @property
    def spec(self) -> EnvSpec: ...

    def reset(self, key: PRNGKeyArray) -> Any:
        """The first world of an episode."""

    def observe(self, world: Any) -> Observation:
        """The observation of a world."""

    def step(self, world: Any, action: Array, key: PRNGKeyArray) -> tuple[Any, Outcome]:
        """The next world, with the reward and whether the task terminated."""

    def bin_of(self, world: Any) -> Int[Array, ""]:
        """The flat coverage bin of a world; -1 outside of all bins."""


class HostStep(NamedTuple):
    """One step of a batch of tasks on the host; the arrays must not be reused."""

    next_obs: np.ndarray
    """The true successors."""
    obs: np.ndarray
    """What the next action is for: the successor, or the start of a new episode."""
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    success: np.ndarray
    terms: dict[str, np.ndarray]
    valid: np.ndarray
    """False where nothing happened, as when a vector environment spends a step on a reset."""


@runtime_checkable
class HostEnv(Protocol):
    """A batch of tasks outside JAX; it applies its own time limit and resets ended episodes."""

    @property
    def spec(self) -> EnvSpec: ...

    @property
    def num_envs(self) -> int: ...

    def reset(self, key: PRNGKeyArray) -> np.ndarray:
        """Start new episodes everywhere; their first observations."""

    def step(self, action: np.ndarray, key: PRNGKeyArray) -> HostStep:
        """Step every task; randomness depends on `key` alone where the task allows that."""

    def bin_of(self, obs: np.ndarray) -> np.ndarray:
        """The flat coverage bins of observations; -1 outside of all bins."""

    def save(self) -> dict[str, np.ndarray] | None:
        """The full state, for an exact resume; None if the task cannot be saved."""

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Continue from what `save` returned."""

    def close(self) -> None: ...


class Agent(Protocol):
    """A learner as pure functions of its `state` and `memory`."""

    @property
    def spec(self) -> EnvSpec: ...

    @property
    def sequence_length(self) -> int:
        """Consecutive steps in each sequence of a batch; 1 if agents learn from single steps."""

    def init(self, key: PRNGKeyArray) -> Any:
        """A new state."""

    def remember(self, num_envs: int) -> Any:
        """What the policy carries along an episode; () for most agents."""

    def act(
        self, state: Any, memory: Any, obs: Observation, first: Array, key: PRNGKeyArray
    ) -> tuple[Array, Any]:
        """Exploratory actions in a batch of environments."""

    def exploit(self, state: Any, obs: Observation, key: PRNGKeyArray | None = None) -> Array:
        """The exploitation actor's mode, as evaluated; with a key, a sample."""

    def update(self, state: Any, batch: Transition, key: PRNGKeyArray) -> tuple[Any, Metrics]:
        """One gradient update of everything that learns; a batch concatenates its sequences."""

    def refresh(self, state: Any, key: PRNGKeyArray) -> Any:
        """What happens every `reset_interval`: a soft reset, or nothing."""

    def diagnose(self, state: Any, batch: Transition) -> Metrics:
        """Metrics that are too expensive to compute in every update."""

    def maps(self, state: Any, obs: Observation) -> dict[str, Array]:
        """Named quantities at given observations, for maps."""


def observe(
    agent: Agent,
    state: Any,
    steps: Transition,
    valid: Array | None,
    key: PRNGKeyArray,
    number: Int[Array, ""],
) -> Any:
    """The agent's state after new steps, if it has `observe`; most learn from replay alone.

    `valid` is None if all steps are; `number` counts rounds and is the same for all seeds.
    """
    if not hasattr(agent, "observe"):
        return state
    return agent.observe(state, steps, valid, key, number)
