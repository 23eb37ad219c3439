"""Experience."""

from devote.replay.ring import Replay, grown

__all__ = ["Replay", "grown"]
