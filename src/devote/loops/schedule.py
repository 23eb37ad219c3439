"""The schedule of a run. All intervals are in environment steps (agent decisions)."""

from dataclasses import dataclass
from fractions import Fraction

from devote.core.settings import Count, Many, Positive, Seconds, Share, Whole


@dataclass(frozen=True)
class LoopSettings:
    """The schedule of a run; paper values where the paper gives them."""

    num_envs: Many = 32
    """Parallel environments (authors' code)."""
    updates_per_step: Positive = 1.0
    """Gradient updates per environment step, over all parallel environments."""
    exploit_share: Share = 0.0
    """Share of the environments that follow the exploitation actor, so that its critic learns from
    what that actor really does (ours); rounded to whole environments."""
    batch_size: Count = 2048
    """Transitions in a gradient update."""
    replay_capacity: Count = 1_000_000
    """Transitions in the replay, the newest ones (authors' code)."""
    learning_starts: Whole = 2048
    """Environment steps before the first update."""
    reset_interval: Whole = 250_000
    """Environment steps between soft resets; 0 for none."""
    log_interval: Count = 10_000
    """Environment steps between rows of metrics; other intervals are rounded to multiples of it."""
    eval_interval: Whole = 100_000
    """Environment steps between evaluations of the exploitation actor; 0 for none."""
    eval_episodes: Many = 16
    """Complete episodes in an evaluation."""
    checkpoint_interval: Count = 100_000
    """Environment steps between checkpoints."""
    map_interval: Whole = 10_000
    """Environment steps between maps for `devote watch`; 0, or more than the steps, for none."""
    overlap: bool = True
    """On the host, step during the update, with an agent that is one round old."""
    env_timeout: Seconds = 300.0
    """Seconds that one step of environments on the host may take; 0 for no limit."""

    @property
    def exploring_envs(self) -> int:
        """Environments that follow the behaviour actor; the rest follow the exploitation actor."""
        return self.num_envs - round(self.exploit_share * self.num_envs)

    def prefill_vector_steps(self, sequence_length: int) -> int:
        """Vector steps before the first update; at least one sequence."""
        return max(-(-self.learning_starts // self.num_envs), sequence_length)

    def rounds_per_chunk(self) -> int:
        """Rounds between two rows of metrics."""
        return max(1, self.log_interval // Round.of(self).steps(self.num_envs))

    def chunk_steps(self) -> int:
        """Environment steps between two rows of metrics, in whole rounds."""
        return self.rounds_per_chunk() * Round.of(self).steps(self.num_envs)

    def whole_steps(self, steps: int, sequence_length: int) -> int:
        """The steps that a run of `steps` takes: until the first update, then whole chunks."""
        first = self.prefill_vector_steps(sequence_length) * self.num_envs
        chunk = self.chunk_steps()
        return first + max(0, -(-(steps - first) // chunk)) * chunk


@dataclass(frozen=True)
class Round:
    """Vector steps, then updates: the smallest unit of the schedule."""

    vector_steps: int
    updates: int

    @classmethod
    def of(cls, settings: LoopSettings) -> "Round":
        """The round closest to `updates_per_step` in which one of the two numbers is 1."""
        per_vector_step = Fraction(settings.updates_per_step) * settings.num_envs
        if per_vector_step >= 1:
            return cls(1, round(per_vector_step))
        pause = int(1 / per_vector_step)  # 1 / pause is at or just above the wanted ratio
        near = min((pause, pause + 1), key=lambda steps: abs(Fraction(1, steps) - per_vector_step))
        return cls(near, 1)

    def steps(self, num_envs: int) -> int:
        """Environment steps in a round."""
        return self.vector_steps * num_envs
