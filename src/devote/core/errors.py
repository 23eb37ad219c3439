"""The errors of this library: for users' mistakes, failing environments, and divergence."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Self

MANY = 20
"""Names that an error does not list beside the closest one."""


class UserError(ValueError):
    """A mistake that the user can fix: what was expected, what was given, what to do."""

    def __init__(self, expected: str, got: object, fix: str) -> None:
        super().__init__(f"expected {expected}; got {got}; {fix}")


def not_among(what: str, name: str, known: Sequence[str]) -> UserError:
    """An unknown name, with the closest known one."""
    close = get_close_matches(name, known, n=1)
    fix = f"did you mean {close[0]}?" if close else "choose one of them"
    names = f"{len(known)} names" if close and len(known) > MANY else ", ".join(known)
    return UserError(f"{what} to be one of {names}", repr(name), fix)


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Around imports of what an extra of the package installs."""
    try:
        yield
    except ImportError as error:
        raise UserError(f"the extra `{name}`", error, f"pip install 'devote[{name}]'") from error


class EnvironmentFailedError(RuntimeError):
    """An environment raised an exception, hung or died."""

    @classmethod
    def of(cls, which: str, when: str, action: object, words: str) -> Self:
        """Which environment failed, when, after which action, and its own message."""
        # the message is the only argument, so that the error can be pickled
        return cls(f"{which} failed in {when}; last action {action}; it said:\n{words}")


class DivergedError(RuntimeError):
    """A metric or a parameter is no longer finite."""
