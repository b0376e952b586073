"""Which dead letters a task is for: some IDs, those that match a filter, or all."""

from __future__ import annotations

from typing import Any

import msgspec


class Selection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``ids`` alone, or conditions of which all hold; without any of them, all dead letters.

    The times are those at which messages were given up, both included. ``cause``: as the
    engine's ``cause_of`` makes it of reasons; empty for messages without one.
    """

    ids: list[str] = []
    key: str | None = None
    tags: list[str] = []
    from_ms: int | None = None
    to_ms: int | None = None
    cause: str | None = None

    @property
    def is_compared(self) -> bool:
        """Whether letters have to be read to know which are wanted."""
        return self.key is not None or self.cause is not None

    @property
    def is_all(self) -> bool:
        return self == Selection()


def selection_of(document: Any) -> Selection:  # Any: what a JSON column gives
    return msgspec.convert(document, Selection)


def document_of(selection: Selection) -> Any:  # Any: what a JSON column takes
    return msgspec.to_builtins(selection)
