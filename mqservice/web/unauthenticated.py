"""Connections that have not sent a valid key or session yet: limited per address and in all.

    accepted ──▶ add ──▶ [UnauthenticatedConnections] ─ one too many ──▶ the oldest of them is ended
                             ▲
    a good key, or lost ─────┘ remove

Who has a key shows it within milliseconds, so it is those who only hold a connection that are the
oldest. New connections are never refused: otherwise whoever filled the table would lock others out.
"""

from __future__ import annotations

from typing import Protocol


class Connection(Protocol):
    """What can be ended."""

    def give_way(self) -> None:
        """End the connection at once."""


class UnauthenticatedConnections:
    """See the module's docstring. One per process, used on its loop."""

    def __init__(self) -> None:
        self._addresses: dict[Connection, str | None] = {}  # the oldest first
        self._by_address: dict[str, dict[Connection, None]] = {}  # the oldest first

    def __len__(self) -> int:
        return len(self._addresses)

    def add(
        self, connection: Connection, address: str | None, *, of_address_max: int, count_max: int
    ) -> None:
        """Count ``connection`` until ``remove``, and end the oldest while there are too many.

        Args:
            address: of one client; None for a proxy that is trusted, which stands for many.
        """
        self._addresses[connection] = address
        if address is not None:
            same = self._by_address.setdefault(address, {})
            same[connection] = None
            if len(same) > of_address_max:
                self._end(next(iter(same)))
        if len(self._addresses) > count_max:
            self._end(next(iter(self._addresses)))

    def remove(self, connection: Connection) -> None:
        """It has shown who it is, or is lost; nothing when it was removed before."""
        address = self._addresses.pop(connection, None)
        if address is None:
            return
        same = self._by_address[address]
        del same[connection]
        if not same:
            del self._by_address[address]

    def _end(self, connection: Connection) -> None:
        self.remove(connection)
        connection.give_way()
