"""``/console/live``: sends a page its numbers that have changed, at most every two seconds.

    page   ──▶ {"show": ["lag", "t:orders:messages", …]}
    server ──▶ {"set": {"lag": "12"}}                                only what became different

Only the latest measurement is kept for a page, so that a slow one gets fewer of them and costs
nothing. ``page_socket.py`` says who may open it, for how long, and how it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

import msgspec
from channels.db import database_sync_to_async
from channels.sessions import SessionMiddlewareStack
from django.conf import settings
from django.utils import translation

from mqservice.accounts.models import Namespace
from mqservice.console.live.hub import Hub, Watch
from mqservice.console.live.page_socket import Closed, PageSocket
from mqservice.console.live.texts import texts_of
from mqservice.console.shared.figures import Figures, add_health, figures_of
from mqservice.delivery.context import DeliveryContext
from mqservice.lib.clock import SystemClock
from mqservice.lib.names import NAME_CHARS_MAX
from mqservice.monitoring.sampling import engine_stats
from mqservice.store import blocking_client

SOCKETS_MAX: Final = 1_000  # of one process
KEYS_MAX: Final = 600
_KEY_CHARS_MAX: Final = NAME_CHARS_MAX + 16


class Show(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The one frame that a page sends: which numbers it shows."""

    show: list[str]


_decode = msgspec.json.Decoder(Show).decode


class LiveConsumer(PageSocket):
    """One socket of one page."""

    def __init__(self, hub: Hub, context: Callable[[], DeliveryContext]) -> None:
        super().__init__(context)
        self._hub = hub
        self._keys: tuple[str, ...] = ()
        self._shown: dict[str, str] = {}
        self._has_keys = asyncio.Event()

    def check_room(self) -> None:
        if self._hub.watcher_count >= SOCKETS_MAX:
            raise Closed(4429)

    async def serve(self, namespace: Namespace, receive: Any) -> None:  # Any: as ASGI has it
        async with self._hub.watching(namespace.pk) as watch:
            await self.run(self._read(receive), self._write(namespace, watch))

    async def _read(self, receive: Any) -> None:  # Any: as above
        while True:
            text = await self.next_frame(receive)
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
        figures = watch.latest
        while True:
            if figures is not None:
                await self._send_changes(figures)
            figures = await watch.next()
            await self.recheck(namespace)

    async def _send_changes(self, figures: Figures) -> None:
        with translation.override(self._language()):
            texts = texts_of(figures, self._keys)
        changed = {key: text for key, text in texts.items() if self._shown.get(key) != text}
        self._shown = texts
        await self.send_json(msgspec.json.encode({"set": changed}))

    def _language(self) -> str:
        chosen: str = self.scope["cookies"].get(settings.LANGUAGE_COOKIE_NAME, "")
        if chosen in dict(settings.LANGUAGES):
            return chosen
        accepted = dict(self.scope["headers"]).get(b"accept-language", b"").decode("latin-1")
        for part in accepted.split(","):
            with contextlib.suppress(LookupError):
                return translation.get_supported_language_variant(part.partition(";")[0].strip())
        return settings.LANGUAGE_CODE


def _measure(namespace_id: int) -> Figures:
    namespace = Namespace.objects.select_related("tenant").get(pk=namespace_id)
    is_up = engine_stats(namespace.shard) is not None
    with blocking_client(namespace.shard) as client:
        figures = figures_of(namespace, client if is_up else None, SystemClock().now_ms())
    add_health(figures, namespace)
    return figures


def live_application(context: Callable[[], DeliveryContext]) -> Any:
    """The socket as an ASGI application, behind the session of the browser. One per process."""
    hub = Hub(database_sync_to_async(_measure))
    return SessionMiddlewareStack(LiveConsumer.as_asgi(hub=hub, context=context))
