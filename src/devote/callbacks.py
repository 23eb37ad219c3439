"""Callbacks of `learn`: a function of each row of metrics, or an object with up to four methods."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from devote.core.errors import UserError

Row = dict[str, Any]
"""One row of metrics by name, as in `metrics.csv`."""
EVENTS = ("on_start", "on_log", "on_evaluation", "on_end")
SCORE = "eval/mean_reward"


class Callback:
    """Override what you need; False from `on_log` or `on_evaluation` stops learning."""

    def on_start(self, model: Any) -> None:
        """Before the first step of a `learn`."""

    def on_log(self, model: Any, row: Row) -> bool | None:
        """After every `log_interval` steps."""

    def on_evaluation(self, model: Any, row: Row) -> bool | None:
        """After every evaluation; `row` has `eval/mean_reward`."""

    def on_end(self, model: Any) -> None:
        """After the last step, also after an error."""


class SaveBest(Callback):
    """Save the model at every new best evaluation; stop once one reaches `stop_at`."""

    def __init__(self, path: str | Path, stop_at: float = float("inf")) -> None:
        self.path, self.stop_at, self.best = Path(path), stop_at, -float("inf")

    def on_evaluation(self, model: Any, row: Row) -> bool | None:
        """Save a new best."""
        if row[SCORE] > self.best:
            self.best = row[SCORE]
            model.save(self.path)
        return self.best < self.stop_at


Given = Callable[[Row], bool | None] | Callback | Sequence[Any] | None


class Callbacks:
    """Any number of callbacks as one, called in order."""

    def __init__(self, given: Given, model: Any) -> None:
        several = isinstance(given, list | tuple)
        self.each: list[Any] = [] if given is None else list(given) if several else [given]  # type: ignore[arg-type]
        self.model = model
        for one in self.each:
            known = [name for name in EVENTS if hasattr(one, name)]
            others = [x for x in dir(one) if x.startswith("on_") and x not in EVENTS]
            if others or not (known or callable(one)) or isinstance(one, type):
                got = f"{one!r}" + (f" with {', '.join(others)}" if others else "")
                expected = f"a callable or an object with {', '.join(EVENTS)}"
                raise UserError(f"as callback {expected}", got, "see docs/callbacks.md")

    def tell(self, event: str, *row: Row) -> bool:
        """Call a method of every callback; whether none said False."""
        asked = []
        for one in self.each:
            method = getattr(one, event, None)
            if method is not None:
                asked.append(method(self.model, *row))
            elif event == "on_log" and callable(one):
                asked.append(one(*row))
        return all(answer is not False for answer in asked)

    def row(self, row: Row) -> bool:
        """Pass on a row of metrics; whether to go on."""
        goes_on = self.tell("on_log", row)
        return (SCORE not in row or self.tell("on_evaluation", row)) and goes_on
