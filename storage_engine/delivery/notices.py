"""The listeners that the engine sends notices to.

delivery, offset_changes, sessions ── tell(notice) ──▶ [Notices] ──▶ each connection that listens

Loop thread only. A listener must not raise, and must bound what it keeps.
"""

from __future__ import annotations

from typing import Protocol

from msgspec.structs import replace

from storage_engine.delivery.clients import split_reader
from storage_engine.wire.notices import Notice


class Listener(Protocol):
    """A connection."""

    def on_notice(self, notice: Notice) -> None:
        """Pass a notice on, or drop the connection."""


class Notices:
    """See the module's docstring."""

    def __init__(self) -> None:
        self.listeners: dict[Listener, None] = {}

    def notify(self, notice: Notice) -> None:
        """``notice.group`` may be a client of a broadcast group, as a reader of its own."""
        group, client_id = split_reader(notice.group)
        if client_id:
            notice = replace(notice, group=group, client_id=client_id)
        for listener in list(self.listeners):
            listener.on_notice(notice)
