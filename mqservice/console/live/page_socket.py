"""Shared by all sockets of pages: who may open one, and for how long.

    ?ns= , session cookie ──▶ origin, user, member with the permission? ──▶ accept ──▶ [serve]
                                         └── asked again every CHECK_MS

Close codes: 4400 bad frame, 4401 signed out, 4403 the page of somebody else, 4404 nothing of this
name for this user, 4429 too many.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, ClassVar, Final
from urllib.parse import parse_qs

from channels.auth import get_user
from channels.consumer import AsyncConsumer
from channels.db import database_sync_to_async
from channels.exceptions import StopConsumer

from mqservice.accounts.models import Namespace, User
from mqservice.accounts.roles import Permission
from mqservice.accounts.session_access import find_session_principal
from mqservice.delivery.context import DeliveryContext
from mqservice.lib.clock import SystemClock
from mqservice.lib.durations import SECOND_MS
from mqservice.lib.names import NAME_CHARS_MAX
from mqservice.lib.problem import Problem
from mqservice.lib.sessions import SessionStore

FRAME_CHARS_MAX: Final = 128 * 1024
CHECK_MS: Final = 30 * SECOND_MS


class Closed(Exception):
    """The socket ends with this code."""

    def __init__(self, code: int) -> None:
        super().__init__(str(code))
        self.code = code


class PageSocket(AsyncConsumer):
    """One socket of one page; a subclass says what it ``needs``, and serves."""

    channel_layer_alias: ClassVar[str] = "none"  # no layer of this name, so none is opened
    needs: ClassVar[Permission] = Permission.SETTINGS_READ

    def __init__(self, context: Callable[[], DeliveryContext]) -> None:
        super().__init__()
        self.context = context()
        self._checked_ms = 0
        self._send: Any  # Any: as below

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        # Any: Channels types these three more narrowly than servers keep to
        self.scope, self._send = scope, send
        try:
            await receive()  # websocket.connect
            self.context.origins.check(scope["headers"])
        except Problem:
            await send({"type": "websocket.close", "code": 4403})  # 403 instead of the upgrade
            return
        await send({"type": "websocket.accept"})
        try:
            await self.serve(await self._admit(), receive)
        except Closed as closed:
            with contextlib.suppress(OSError):
                await send({"type": "websocket.close", "code": closed.code})
        except StopConsumer:
            return

    async def serve(self, namespace: Namespace, receive: Any) -> None:  # Any: as above
        """Until the page or the permission is gone. Raises Closed."""
        raise NotImplementedError

    def check_room(self) -> None:
        """Raises Closed while this process has too many sockets of the kind."""

    async def run(self, reading: Any, writing: Any) -> None:  # Any: as above
        """Both coroutines until one of them ends."""
        tasks = [asyncio.create_task(reading), asyncio.create_task(writing)]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def next_frame(self, receive: Any) -> str:  # Any: as above
        """The next text that the page sends. Raises Closed, and StopConsumer when it has left."""
        message = await receive()
        if message["type"] == "websocket.disconnect":
            raise StopConsumer
        text: str | None = message.get("text")
        if text is None or len(text) > FRAME_CHARS_MAX:
            raise Closed(4400)
        return text

    async def send_json(self, frame: bytes) -> None:
        """Send JSON; waits while the page takes nothing."""
        await self._send({"type": "websocket.send", "text": frame.decode()})

    def query(self, name: str) -> str:
        """A parameter of the address, as long as names are."""
        query = parse_qs(self.scope["query_string"].decode("latin-1"))
        return query.get(name, [""])[0][:NAME_CHARS_MAX]

    async def recheck(self, namespace: Namespace) -> None:
        """Now and then: raises Closed for who has signed out or may no longer look."""
        now_ms = SystemClock().monotonic_ms()
        if now_ms - self._checked_ms < CHECK_MS:
            return
        self._checked_ms = now_ms
        await self._find(namespace.name)

    async def _admit(self) -> Namespace:
        self.check_room()
        namespace = await self._find(self.query("ns"))
        self._checked_ms = SystemClock().monotonic_ms()
        return namespace

    async def _find(self, name: str) -> Namespace:
        user = await self._user()
        namespace = await database_sync_to_async(_find_namespace)(user, name, self.needs)
        if namespace is None:
            raise Closed(4404)
        return namespace

    async def _user(self) -> User:
        """Whose session it is, now. Raises Closed."""
        # What the scope holds was read once: a session that has ended since would still be there.
        session = SessionStore(self.scope["session"].session_key)
        scope: Any = {**self.scope, "session": session}  # Any: Channels names its lazy one
        user = await get_user(scope)
        if not isinstance(user, User):
            raise Closed(4401)
        return user


def _find_namespace(user: User, name: str, needs: Permission) -> Namespace | None:
    rows = Namespace.objects.select_related("tenant")
    namespace = rows.filter(name=name, tenant__members__user=user).first()
    person = None if namespace is None else find_session_principal(user, namespace)
    return namespace if person is not None and person.permits(needs) else None
