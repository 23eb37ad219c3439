"""How much is done, and how often. Every number counts environment steps (agent decisions)."""

from dataclasses import dataclass
from fractions import Fraction

from devote.core.settings import Count, NonNegative, Positive, Whole


@dataclass(frozen=True)
class LoopSettings:
    """The schedule of a run; paper values where the paper gives them."""

    num_envs: Count = 32
    """Environments stepped side by side (authors' code)."""
    updates_per_step: Positive = 1.0
    """Gradient updates per environment step, summed over the parallel environments."""
    batch_size: Count = 2048
    """Transitions in a gradient update."""
    replay_capacity: Count = 1_000_000
    """Newest transitions kept (authors' code)."""
    learning_starts: Whole = 2048
    """Environment steps before the first update."""
    reset_interval: Whole = 250_000
    """Environment steps between soft resets; 0 for none."""
    log_interval: Count = 10_000
    """Environment steps between rows of metrics; other intervals are kept to multiples of it."""
    eval_interval: Whole = 100_000
    """Environment steps between evaluations of the exploitation actor; 0 for none."""
    eval_episodes: Count = 16
    """Complete episodes in an evaluation."""
    checkpoint_interval: Count = 100_000
    """Environment steps between checkpoints."""
    overlap: bool = True
    """On the host, step while learning, with an agent one round old; off: as the compiled loop."""
    env_timeout: NonNegative = 300.0
    """Seconds that environments on the host may take for one step; 0 waits for ever."""

    def prefill_vector_steps(self, sequence_length: int) -> int:
        """Vector steps before the first update, at least the length of a sequence."""
        return max(-(-self.learning_starts // self.num_envs), sequence_length)

    def rounds_per_chunk(self) -> int:
        """Rounds between two rows of metrics."""
        return max(1, self.log_interval // Round.of(self).steps(self.num_envs))

    def chunk_steps(self) -> int:
        """Environment steps between two rows of metrics, in whole rounds."""
        return self.rounds_per_chunk() * Round.of(self).steps(self.num_envs)

    def whole_steps(self, steps: int, sequence_length: int) -> int:
        """What a run of `steps` really takes: those before the first update, then whole chunks."""
        first, chunk = (
            self.prefill_vector_steps(sequence_length) * self.num_envs,
            self.chunk_steps(),
        )
        return first + max(0, -(-(steps - first) // chunk)) * chunk


@dataclass(frozen=True)
class Round:
    """Vector steps, then updates: the smallest unit of the schedule."""

    vector_steps: int
    updates: int

    @classmethod
    def of(cls, settings: LoopSettings) -> "Round":
        """The round that comes closest to the wanted ratio with one of the two numbers being 1."""
        per_vector_step = Fraction(settings.updates_per_step) * settings.num_envs
        if per_vector_step >= 1:
            return cls(1, round(per_vector_step))
        pause = int(1 / per_vector_step)  # 1 / pause is just above what is wanted, or equal
        near = min((pause, pause + 1), key=lambda steps: abs(Fraction(1, steps) - per_vector_step))
        return cls(near, 1)

    def steps(self, num_envs: int) -> int:
        """Environment steps in a round."""
        return self.vector_steps * num_envs
