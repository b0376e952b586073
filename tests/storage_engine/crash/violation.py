"""One promise that was not kept, by the name of its anomaly; the names are in ``checker``."""

from __future__ import annotations


class Violation(AssertionError):
    """What was seen instead of what had been promised."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name
