"""A store that counts, and sockets of a live tail, for its tests."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, cast  # Any: messages of ASGI, decoded JSON

from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.test import Client

from mqservice.console.tail.consumer import tail_application
from mqservice.delivery.origins import Origins
from mqservice.lib.clock import SystemClock
from mqservice.lib.names import MAIN_SHARD
from mqservice.store import (
    PullHead,
    PullRequest,
    Record,
    StoreMessage,
    TopicNotFound,
    TopicRef,
    TopicStats,
    encode_record,
    new_message_id,
)
from tests.mqservice.delivery.store_double import StoreDouble

ORIGIN = b"https://console.example"
ORDERS = "acme%orders"


class CountedStore(StoreDouble):
    """Counts what a look asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.pulls: list[PullRequest] = []
        self.is_gone = False

    async def topic_stats(self, request: TopicRef) -> TopicStats:
        if self.is_gone:
            raise TopicNotFound("deleted")
        return await super().topic_stats(request)

    async def pull(self, request: PullRequest) -> tuple[PullHead, list[Record]]:
        self.pulls.append(request)
        return await super().pull(request)

    async def add(self, *bodies: str, queue_id: int = 0, tag: str = "", keys: str = "") -> None:
        await self.put(
            [
                encode_record(
                    StoreMessage(
                        topic=ORDERS,
                        queue_id=queue_id,
                        body=body.encode(),
                        message_id=new_message_id(),
                        born_timestamp_ms=1,
                        born_host=("127.0.0.1", 1),
                        tag=tag or None,
                        keys=keys.split(),
                    )
                )
                for body in bodies
            ]
        )


@dataclass
class Context:
    """What the socket needs of the process's context."""

    stores: dict[str, CountedStore]
    origins: Origins = field(default_factory=lambda: Origins("https://console.example"))
    clock: SystemClock = field(default_factory=SystemClock)


class Socket(ApplicationCommunicator):
    """The page's side."""

    async def open(self) -> dict[str, Any]:
        await self.send_input({"type": "websocket.connect"})
        return cast("dict[str, Any]", await self.receive_output(60))

    async def say(self, **order: object) -> None:
        await self.send_input({"type": "websocket.receive", "text": json.dumps(order)})

    async def told(self, word: str) -> dict[str, Any]:
        """The next frame that has ``word``."""
        while True:
            message = await self.receive_output(60)
            assert message["type"] == "websocket.send", message
            frame = cast("dict[str, Any]", json.loads(message["text"]))
            if frame.get(word):
                return frame

    async def closed(self) -> int:
        """The code, after whatever is told before."""
        while True:
            message = await self.receive_output(60)
            if message["type"] == "websocket.close":
                return int(message["code"])

    async def leave(self) -> None:
        await self.send_input({"type": "websocket.disconnect", "code": 1001})
        await self.wait(60)


class Sockets:
    """Those of one process."""

    def __init__(self, store: CountedStore) -> None:
        self._application: Any = tail_application(lambda: Context({MAIN_SHARD: store}))  # type: ignore[arg-type, return-value]  # see Context

    def new(self, cookie: bytes, query: str = "ns=acme&topic=orders") -> Socket:
        scope = {
            "type": "websocket",
            "path": "/console/tail",
            "query_string": query.encode(),
            "headers": [(b"cookie", cookie), (b"origin", ORIGIN)],
        }
        return Socket(self._application, scope)


async def signed_in(user: object) -> bytes:
    client = Client()
    await sync_to_async(client.force_login)(user)  # type: ignore[arg-type]  # any user
    return f"mq_session={client.cookies['mq_session'].value}".encode()
