"""Notifies long-running holders of a key when it changes: sockets and long polls.

    join(header, key id, heard) ──▶ [KeyWatch] ◀── changed(key id), when its row has changed
                                        │ one look-up a header, whoever waits
                                        ▼
                                 heard(Principal), or heard(None): it is worth nothing any more

While nobody can know, because PostgreSQL is away, nothing is told. Used on one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from mqservice.lib.problem import Problem

if TYPE_CHECKING:
    from mqservice.accounts.access import Principal

OnKeyChange = Callable[["Principal | None"], None]


class KeyWatch:
    """See the module's docstring. One per cache of keys."""

    def __init__(self, load: Callable[[bytes], Awaitable[Principal]]) -> None:
        """``load`` raises Problem, with 401 for a key that is not valid."""
        self._load = load
        self._watching: dict[str, dict[bytes, set[OnKeyChange]]] = {}  # by key id, then header
        self._refreshing: dict[bytes, asyncio.Task[None]] = {}
        self._again: set[bytes] = set()  # changed once more while they were asked for

    def join(self, authorization: bytes, key_id: str, heard: OnKeyChange) -> None:
        """Call ``heard`` after each change of the key, until ``leave``."""
        self._watching.setdefault(key_id, {}).setdefault(authorization, set()).add(heard)

    def leave(self, authorization: bytes, key_id: str, heard: OnKeyChange) -> None:
        """Idempotent."""
        headers = self._watching.get(key_id, {})
        waiting = headers.get(authorization, set())
        waiting.discard(heard)
        if not waiting:
            headers.pop(authorization, None)
        if not headers:
            self._watching.pop(key_id, None)

    def changed(self, key_id: str | None) -> None:
        """The key's row is another now; None: any may be."""
        key_ids = list(self._watching) if key_id is None else [key_id]
        for each in key_ids:
            for authorization in list(self._watching.get(each, ())):
                self.refresh(authorization, each)

    def refresh(self, authorization: bytes, key_id: str) -> None:
        """Find out what the key may do now, and tell all who wait on it."""
        if authorization in self._refreshing:
            self._again.add(authorization)
            return
        self._refreshing[authorization] = asyncio.get_running_loop().create_task(
            self._refresh(authorization, key_id), name="recheck of a key"
        )

    async def _refresh(self, authorization: bytes, key_id: str) -> None:
        principal: Principal | None = None
        is_known = True
        try:
            principal = await self._load(authorization)
        except Problem as problem:
            is_known = problem.status == 401
        finally:
            del self._refreshing[authorization]
        if authorization in self._again:
            self._again.discard(authorization)
            self.refresh(authorization, key_id)
            return
        if is_known:
            for heard in list(self._watching.get(key_id, {}).get(authorization, ())):
                heard(principal)
