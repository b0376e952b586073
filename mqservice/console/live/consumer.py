"""``/console/live``: tells one page which of its numbers have changed, at most every two seconds.

    ?ns= , session cookie ──▶ origin, user, member of the tenant? ──▶ accept
    page   ──▶ {"show": ["lag", "t:orders:messages", …]}
    server ──▶ {"set": {"lag": "12"}}                                only what became different

Only the latest measurement is kept for a page, so that a slow one gets fewer of them and costs
nothing. Whether the session still is one, and the user still a member, is asked every CHECK_MS.
Close codes: 4400 bad frame, 4401 signed out, 4404 no such namespace for this user, 4429 too many.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any, ClassVar, Final
from urllib.parse import parse_qs

import msgspec
from channels.auth import get_user
from channels.consumer import AsyncConsumer
from channels.db import database_sync_to_async
from channels.exceptions import StopConsumer
from channels.sessions import SessionMiddlewareStack
from django.conf import settings
from django.contrib.sessions.backends.db import SessionStore
from django.utils import translation

from mqservice.accounts.models import Namespace, User
from mqservice.accounts.people_access import find_person
from mqservice.accounts.roles import Permission
from mqservice.console.figures import Figures, figures_of
from mqservice.console.live.hub import Hub, Watch
from mqservice.console.live.texts import texts_of
from mqservice.delivery.context import DeliveryContext
from mqservice.lib.clock import SystemClock
from mqservice.lib.durations import SECOND_MS
from mqservice.lib.names import NAME_CHARS_MAX
from mqservice.lib.problem import Problem
from mqservice.monitoring.sampling import engine_stats
from mqservice.store import blocking_client

log = logging.getLogger(__name__)

SOCKETS_MAX: Final = 1_000  # of one process
KEYS_MAX: Final = 600
FRAME_CHARS_MAX: Final = 128 * 1024
CHECK_MS: Final = 30 * SECOND_MS
_KEY_CHARS_MAX: Final = NAME_CHARS_MAX + 16


class Show(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The one frame that a page sends: which numbers it shows."""

    show: list[str]


_decode = msgspec.json.Decoder(Show).decode


class Closed(Exception):
    """The socket ends with this code."""

    def __init__(self, code: int) -> None:
        super().__init__(str(code))
        self.code = code


class LiveConsumer(AsyncConsumer):
    """One socket of one page."""

    channel_layer_alias: ClassVar[str] = "none"  # no layer of this name, so none is opened

    def __init__(self, hub: Hub, context: Callable[[], DeliveryContext]) -> None:
        super().__init__()
        self._hub = hub
        self._context = context()
        self._keys: tuple[str, ...] = ()
        self._shown: dict[str, str] = {}
        self._has_keys = asyncio.Event()
        self._send: Any  # Any: as below

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        # Any: Channels types these three more narrowly than servers keep to
        self.scope, self._send = scope, send
        try:
            await receive()  # websocket.connect
            self._context.origins.check(scope["headers"])
        except Problem:
            await send({"type": "websocket.close", "code": 4403})  # 403 instead of the upgrade
            return
        await send({"type": "websocket.accept"})
        try:
            namespace = await self._admit()
            async with self._hub.watching(namespace.pk) as watch:
                await self._serve(namespace, watch, receive)
        except Closed as closed:
            with contextlib.suppress(OSError):
                await send({"type": "websocket.close", "code": closed.code})
        except StopConsumer:
            return

    async def _serve(self, namespace: Namespace, watch: Watch, receive: Any) -> None:
        reader = asyncio.create_task(self._read(receive))
        writer = asyncio.create_task(self._write(namespace, watch))
        try:
            done, _ = await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (reader, writer):
                task.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)

    async def _read(self, receive: Any) -> None:
        while True:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                raise StopConsumer
            text = message.get("text")
            if text is None or len(text) > FRAME_CHARS_MAX:
                raise Closed(4400)
            try:
                keys = _decode(text).show
            except msgspec.MsgspecError:
                raise Closed(4400) from None
            if len(keys) > KEYS_MAX or any(len(key) > _KEY_CHARS_MAX for key in keys):
                raise Closed(4400)
            self._keys, self._shown = tuple(keys), {}
            self._has_keys.set()

    async def _write(self, namespace: Namespace, watch: Watch) -> None:
        await self._has_keys.wait()
        clock = SystemClock()
        checked_ms = clock.monotonic_ms()
        figures = watch.latest
        while True:
            if figures is not None:
                await self._tell(figures)
            figures = await watch.next()
            if clock.monotonic_ms() - checked_ms >= CHECK_MS:
                checked_ms = clock.monotonic_ms()
                await self._check(namespace)

    async def _tell(self, figures: Figures) -> None:
        with translation.override(self._language()):
            texts = texts_of(figures, self._keys)
        changed = {key: text for key, text in texts.items() if self._shown.get(key) != text}
        self._shown = texts
        frame = msgspec.json.encode({"set": changed}).decode()
        await self._send({"type": "websocket.send", "text": frame})

    def _language(self) -> str:
        chosen: str = self.scope["cookies"].get(settings.LANGUAGE_COOKIE_NAME, "")
        if chosen in dict(settings.LANGUAGES):
            return chosen
        accepted = dict(self.scope["headers"]).get(b"accept-language", b"").decode("latin-1")
        for part in accepted.split(","):
            with contextlib.suppress(LookupError):
                return translation.get_supported_language_variant(part.partition(";")[0].strip())
        return settings.LANGUAGE_CODE

    async def _admit(self) -> Namespace:
        """Raises Closed."""
        if self._hub.watcher_count >= SOCKETS_MAX:
            raise Closed(4429)
        query = parse_qs(self.scope["query_string"].decode("latin-1"))
        name = query.get("ns", [""])[0][:NAME_CHARS_MAX]
        namespace = await database_sync_to_async(_find_namespace)(await self._user(), name)
        if namespace is None:
            raise Closed(4404)
        return namespace

    async def _check(self, namespace: Namespace) -> None:
        """Raises Closed for who has signed out or lost the place in the tenant meanwhile."""
        name = namespace.name
        if await database_sync_to_async(_find_namespace)(await self._user(), name) is None:
            raise Closed(4404)

    async def _user(self) -> User:
        """Whose session it is, now. Raises Closed."""
        # What the scope holds was read once: a session that has ended since would still be there.
        session = SessionStore(self.scope["session"].session_key)
        scope: Any = {**self.scope, "session": session}  # Any: Channels names its lazy one
        user = await get_user(scope)
        if not isinstance(user, User):
            raise Closed(4401)
        return user


def _find_namespace(user: User, name: str) -> Namespace | None:
    rows = Namespace.objects.select_related("tenant")
    namespace = rows.filter(name=name, tenant__members__user=user).first()
    person = None if namespace is None else find_person(user, namespace)
    if person is None or not person.permits(Permission.SETTINGS_READ):
        return None
    return namespace


def _measure(namespace_id: int) -> Figures:
    namespace = Namespace.objects.select_related("tenant").get(pk=namespace_id)
    is_up = engine_stats() is not None
    with blocking_client() as client:
        return figures_of(namespace, client if is_up else None, SystemClock().now_ms())


def live_application(context: Callable[[], DeliveryContext]) -> Any:
    """The socket as an ASGI application, behind the session of the browser. One per process."""
    hub = Hub(database_sync_to_async(_measure))
    return SessionMiddlewareStack(LiveConsumer.as_asgi(hub=hub, context=context))
