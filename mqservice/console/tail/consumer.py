"""``/console/tail``: sends a page the new messages of a topic, at most twice a second.

    ?ns=&topic= ──▶ as every socket of a page, with the permission to consume
    page   ──▶ {"tag": "", "key": "", "paused": false}         what fits, whenever it changes
    server ──▶ {"rows": […], "per_s": 950.0, "one_of": 4.8}    the oldest first, each TICK_MS
                                                           without what masking hides from who looks
                                                           and decoded by the schema of the topic
           ──▶ {"engine": "away"}, {"engine": "back"}          it goes on by itself where it was

A look begins when the one before it was sent: a slow page gets fewer of them, each with what came
since, sampled. While a page is paused nothing is read. How many may look at a namespace at a time
is ``MQ_TAIL_WATCHERS_MAX``, in each web process.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec
from channels.db import database_sync_to_async
from channels.sessions import SessionMiddlewareStack
from django.conf import settings

from mqservice.accounts.models import Namespace, User
from mqservice.accounts.roles import Permission
from mqservice.accounts.session_access import find_session_principal
from mqservice.console.live.page_socket import Closed, PageSocket
from mqservice.console.shared.masking import audit_seen
from mqservice.console.tail.reading import Tail
from mqservice.console.tail.rows import TailFilter, TailRow, row_of
from mqservice.delivery.context import DeliveryContext
from mqservice.lib.durations import SECOND_MS
from mqservice.masking.masks import TopicMask, masks_of
from mqservice.store import Record, StoreError, TopicNotFound
from mqservice.topic_schemas.models import TopicSchema
from mqservice.topic_schemas.queries import find_schema
from mqservice.topics.models import Topic

TICK_MS: Final = 500
REST_MS: Final = 5 * SECOND_MS  # a paused tail asks so often whether it may go on
MASK_MS: Final = 5 * SECOND_MS  # rules and schemas hold for tails that are open after so long


class TailOrder(TailFilter, frozen=True, forbid_unknown_fields=True):
    """The one frame that a page sends."""

    paused: bool = False


class TailNews(msgspec.Struct, frozen=True):
    """See the module; ``per_s`` is None until it is known."""

    rows: list[TailRow]
    per_s: float | None
    one_of: float


class TailState(msgspec.Struct, frozen=True):
    """``engine``: away or back."""

    engine: str


_decode = msgspec.json.Decoder(TailOrder).decode


class Watchers:
    """How many look at each namespace in this process, by its id."""

    def __init__(self, namespace_max: Callable[[], int]) -> None:
        self._namespace_max = namespace_max
        self._counts: Counter[int] = Counter()

    @contextmanager
    def watching(self, namespace_id: int) -> Iterator[None]:
        """As long as this is open. Raises Closed when there are as many as may be."""
        if self._counts[namespace_id] >= self._namespace_max():
            raise Closed(4429)
        self._counts[namespace_id] += 1
        try:
            yield
        finally:
            self._counts[namespace_id] -= 1
            if not self._counts[namespace_id]:
                del self._counts[namespace_id]


class TailConsumer(PageSocket):
    """One socket of one page."""

    needs = Permission.CONSUME

    def __init__(self, watchers: Watchers, context: Callable[[], DeliveryContext]) -> None:
        super().__init__(context)
        self._watchers = watchers
        self._order = TailOrder(paused=True)
        self._is_ordered = asyncio.Event()  # and not paused
        self._masked_ms = 0
        self._mask: TopicMask
        self._schema: TopicSchema | None = None

    async def serve(self, namespace: Namespace, receive: Any) -> None:  # Any: as ASGI has it
        topic = await database_sync_to_async(_find_topic)(namespace, self.query("topic"))
        if topic is None:
            raise Closed(4404)
        await self._look_up_mask(namespace)
        if self._mask.has_unmasked:
            await database_sync_to_async(self._audit_seen)(await self._user(), namespace)
        with self._watchers.watching(namespace.pk):
            tail = Tail(self.context.stores[namespace.shard], topic)
            await self.run(self._read(receive), self._write(namespace, tail))

    async def _read(self, receive: Any) -> None:  # Any: as above
        while True:
            text = await self.next_frame(receive)
            try:
                order = _decode(text)
            except msgspec.MsgspecError:
                raise Closed(4400) from None
            if order.is_too_long:
                raise Closed(4400)
            self._order = order
            if order.paused:
                self._is_ordered.clear()
            else:
                self._is_ordered.set()

    async def _write(self, namespace: Namespace, tail: Tail) -> None:
        clock = self.context.clock
        is_away = False
        while True:
            if not self._is_ordered.is_set():
                tail.rest()
                await self._pause(namespace)
            try:
                look = await tail.read_new(self._order, clock.monotonic_ms())
            except TopicNotFound:
                raise Closed(4404) from None
            except StoreError:
                if not is_away:
                    await self.send_json(msgspec.json.encode(TailState("away")))
                is_away = True
            else:
                if is_away:
                    await self.send_json(msgspec.json.encode(TailState("back")))
                is_away = False
                rows = await self._rows(namespace, look.records)
                await self.send_json(msgspec.json.encode(TailNews(rows, look.per_s, look.one_of)))
            await asyncio.sleep(TICK_MS / SECOND_MS)
            await self.recheck(namespace)

    async def _rows(self, namespace: Namespace, records: list[Record]) -> list[TailRow]:
        if self.context.clock.monotonic_ms() - self._masked_ms >= MASK_MS:
            await self._look_up_mask(namespace)
        mask, schema = self._mask, self._schema
        if not mask.paths and schema is None:
            return [row_of(record, mask, None) for record in records]
        # Bodies are looked through or decoded: not on the loop that serves everybody.
        return await asyncio.to_thread(lambda: [row_of(each, mask, schema) for each in records])

    async def _look_up_mask(self, namespace: Namespace) -> None:
        """What is hidden now from who looks, and the schema. Raises Closed: they may no longer."""
        mask = await database_sync_to_async(_find_mask)(
            await self._user(), namespace, self.query("topic")
        )
        if mask is None:
            raise Closed(4404)
        self._schema = await database_sync_to_async(find_schema)(namespace, self.query("topic"))
        self._mask, self._masked_ms = mask, self.context.clock.monotonic_ms()

    def _audit_seen(self, user: User, namespace: Namespace) -> None:
        if (person := find_session_principal(user, namespace)) is not None:
            audit_seen(person, namespace.name, self.query("topic"))

    async def _pause(self, namespace: Namespace) -> None:
        """Until the page wants more; a paused one ends with its session too."""
        while not self._is_ordered.is_set():
            try:
                async with asyncio.timeout(REST_MS / SECOND_MS):
                    await self._is_ordered.wait()
            except TimeoutError:
                await self.recheck(namespace)


def _find_mask(user: User, namespace: Namespace, topic: str) -> TopicMask | None:
    person = find_session_principal(user, namespace)
    if person is None:
        return None
    return masks_of(namespace.tenant_id, namespace.name, person.role).of_topic(topic)


def _find_topic(namespace: Namespace, name: str) -> str | None:
    """The engine's name of a topic of the namespace."""
    rows = Topic.objects.select_related("namespace").filter(namespace=namespace, name=name)
    topic = rows.first()
    return None if topic is None else topic.engine_name


def tail_application(context: Callable[[], DeliveryContext]) -> Any:
    """The socket as an ASGI application, behind the session of the browser. One per process."""
    watchers = Watchers(lambda: settings.MQ_TAIL_WATCHERS_MAX)
    return SessionMiddlewareStack(TailConsumer.as_asgi(watchers=watchers, context=context))
