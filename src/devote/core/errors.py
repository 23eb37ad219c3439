"""One error for everything a user can put right."""


class UserError(ValueError):
    """Bad input: says what was expected, what came, and what to do."""

    def __init__(self, expected: str, got: object, fix: str) -> None:
        super().__init__(f"expected {expected}; got {got}; {fix}")
