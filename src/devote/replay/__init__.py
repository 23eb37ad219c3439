"""Experience."""

from devote.replay.ring import Replay

__all__ = ["Replay"]
