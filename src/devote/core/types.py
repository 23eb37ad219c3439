"""What every room speaks: transitions, the sizes of a task, and the two protocols."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

Metrics = dict[str, Array]
Observation = Array
"""Either a float vector or, for an `Index` space, one integer; leading axes are batch axes."""


class Transition(NamedTuple):
    """One step of a batch of environments."""

    obs: Observation
    action: Float[Array, "*batch action"]
    """In [-1, 1] for a continuous task, one-hot for a discrete one."""
    reward: Float[Array, "*batch"]
    discount: Float[Array, "*batch"]
    """0 at a true termination, 1 otherwise, also at a time limit."""
    next_obs: Observation
    """The real successor, never the first observation of the next episode."""
    first: Bool[Array, "*batch"]
    """Whether `obs` opens an episode."""


@dataclass(frozen=True)
class Vector:
    """Observations that are vectors, with the range each entry usually moves in."""

    low: tuple[float, ...]
    """Minus infinity where nothing is known."""
    high: tuple[float, ...]
    own_units: bool = False
    """Whether every entry has a unit of its own, so that agents see it relative to its range."""
    dtype: str = "float32"
    """How observations are kept: float32, or uint8 for pictures, which agents see scaled."""
    promised: bool = field(default=False, compare=False)
    """Whether no entry leaves its range, so that one far outside is a mistake."""
    names: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """What a user calls each entry, for messages."""

    @property
    def size(self) -> int:
        return len(self.low)


@dataclass(frozen=True)
class Index:
    """Observations that are one integer, seen by networks as a one-hot vector of `size` entries."""

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
    """The bins over which coverage is counted, flattened row by row (row 0 is drawn on top)."""

    shape: tuple[int, ...]
    eligible: np.ndarray
    """Bins that count for coverage, `(bins,)` bool."""
    reachable: np.ndarray
    """Bins that some behaviour can visit, `(bins,)` bool."""
    centers: np.ndarray | None = None
    """The observation in the middle of each bin, for maps; None where bins do not determine it."""
    extent: tuple[float, float, float, float] | None = None
    """Left, right, bottom and top of a two-dimensional grid, for drawing."""
    labels: tuple[str, ...] = ("x", "y")

    def __post_init__(self) -> None:
        bins = int(np.prod(self.shape))
        if self.eligible.shape != (bins,) or self.reachable.shape != (bins,):
            raise ValueError(f"a grid of shape {self.shape} needs masks of shape ({bins},)")

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))


@dataclass(frozen=True)
class EnvSpec:
    """What an agent and a loop need to know of a task."""

    name: str
    observation: Vector | Index
    action: Box | Choice
    episode_length: int
    grid: Grid | None = field(default=None, compare=False)
    terms: tuple[str, ...] = ()
    """Names of the parts of the reward, reported per episode."""
    says_success: bool = False
    """Whether the task says when it is solved."""


class Outcome(NamedTuple):
    """What a step gives besides the next world."""

    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    success: Bool[Array, ""] | bool = False
    """Whether the task is solved now; an episode succeeds when any of its steps does."""
    terms: dict[str, Array] = {}  # noqa: RUF012  never written to
    """The parts of the reward under the names of `EnvSpec.terms`."""


@runtime_checkable
class Env(Protocol):
    """A task in JAX, one instance; loops batch it, limit its time and reset it."""

    @property
    def spec(self) -> EnvSpec: ...

    def reset(self, key: PRNGKeyArray) -> Any:
        """The world at the start of an episode."""
        ...

    def observe(self, world: Any) -> Observation:
        """What the agent stores of a world."""
        ...

    def step(self, world: Any, action: Array, key: PRNGKeyArray) -> tuple[Any, Outcome]:
        """The next world, its reward, and whether the task itself has ended."""
        ...

    def bin_of(self, world: Any) -> Int[Array, ""]:
        """The flat coverage bin of a world; -1 where it counts nowhere."""
        ...


class HostStep(NamedTuple):
    """One step of a batch of tasks on the host, in arrays that nobody else will write to."""

    next_obs: np.ndarray
    """The real successors."""
    obs: np.ndarray
    """Where the next decision is made: the successor, or the start of a new episode."""
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    success: np.ndarray
    terms: dict[str, np.ndarray]
    valid: np.ndarray
    """False where nothing happened, as in a vector environment that spends a step on a reset."""


@runtime_checkable
class HostEnv(Protocol):
    """A batch of tasks outside JAX; it limits its own time and starts ended episodes again."""

    @property
    def spec(self) -> EnvSpec: ...

    @property
    def num_envs(self) -> int: ...

    def reset(self, key: PRNGKeyArray) -> np.ndarray:
        """Start every episode afresh; the first observations."""
        ...

    def step(self, action: np.ndarray, key: PRNGKeyArray) -> HostStep:
        """Step every task; whatever chance decides is a function of `key` where the task allows."""
        ...

    def bin_of(self, obs: np.ndarray) -> np.ndarray:
        """The flat coverage bins of observations; -1 where they count nowhere."""
        ...

    def save(self) -> dict[str, np.ndarray] | None:
        """Everything that changes, for an exact resume; None where the task cannot tell."""
        ...

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Go on from what `save` gave."""
        ...

    def close(self) -> None: ...


class Agent(Protocol):
    """A learner as pure functions; all that changes is in `state` and `memory`."""

    @property
    def spec(self) -> EnvSpec: ...

    @property
    def sequence_length(self) -> int:
        """Consecutive steps of one environment in each run of a batch; 1 where order is nothing."""
        ...

    def init(self, key: PRNGKeyArray) -> Any:
        """A fresh state."""
        ...

    def remember(self, num_envs: int) -> Any:
        """What the behaviour carries along an episode; () for most."""
        ...

    def act(
        self, state: Any, memory: Any, obs: Observation, first: Array, key: PRNGKeyArray
    ) -> tuple[Array, Any]:
        """Behaviour in a batch of environments."""
        ...

    def exploit(self, state: Any, obs: Observation, key: PRNGKeyArray | None = None) -> Array:
        """The exploitation actor's best guess, as evaluated; with a key, a draw from it."""
        ...

    def update(self, state: Any, batch: Transition, key: PRNGKeyArray) -> tuple[Any, Metrics]:
        """One gradient update of everything that learns; runs of a batch follow one another."""
        ...

    def refresh(self, state: Any, key: PRNGKeyArray) -> Any:
        """What happens every reset interval: a soft reset; identity for most."""
        ...

    def diagnose(self, state: Any, batch: Transition) -> Metrics:
        """Metrics too costly for every update."""
        ...

    def maps(self, state: Any, obs: Observation) -> dict[str, Array]:
        """Named quantities at given observations, for pictures."""
        ...
