"""One error for all that a user can put right, one for environments that fail, one for learning."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Self


class UserError(ValueError):
    """Bad input: says what was expected, what came, and what to do."""

    def __init__(self, expected: str, got: object, fix: str) -> None:
        super().__init__(f"expected {expected}; got {got}; {fix}")


def not_among(what: str, name: str, known: Sequence[str]) -> UserError:
    """A name that does not exist, with the nearest that does."""
    close = get_close_matches(name, known, n=1)
    fix = f"did you mean {close[0]}?" if close else "choose one of them"
    return UserError(f"{what} to be one of {', '.join(known)}", repr(name), fix)


class EnvironmentFailedError(RuntimeError):
    """An environment raised, hung or died."""

    @classmethod
    def of(cls, which: str, when: str, action: object, words: str) -> Self:
        """Say which environment it was, when, after what action, and what it said itself."""
        # the message alone is the argument, so that the error can cross processes
        return cls(f"{which} failed in {when}; last action {action}; it said:\n{words}")


class DivergedError(RuntimeError):
    """A metric stopped being a finite number."""
