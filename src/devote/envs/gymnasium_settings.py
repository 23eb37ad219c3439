"""What a user says of a Gymnasium task; read without importing Gymnasium."""

from dataclasses import dataclass

from devote.envs.coverage_bins import CoverageSettings


@dataclass(frozen=True)
class GymnasiumSettings(CoverageSettings):
    """A task by its Gymnasium id, and what its environment leaves open."""

    id: str = "MountainCarContinuous-v0"
    """The Gymnasium id."""
    time_limit: int = 0
    """Steps after which an episode is cut; 0: the task's own limit, 1,000 where it has none."""
    normalise: bool = True
    """Whether agents see every entry of the observation relative to its range."""
    reports_success: bool = False
    """Whether info["is_success"] (or "success") says that the task is solved."""
    workers: bool = False
    """Whether every environment gets a process of its own."""
    worker_timeout: float = 60.0
    """Seconds after which a process that does not answer is given up."""
