"""A broker that speaks STOMP, as a way in: what RabbitMQ and ActiveMQ have in common.

SEND with a receipt ─▶ RECEIPT when stored
SUBSCRIBE ack:client ─▶ MESSAGE … ─▶ ACK of the last of a piece, with a receipt ─▶ RECEIPT
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from bench.peers.peer import Confirmed, Consumer, Producer, Seen, SocketWay
from bench.peers.stomp import StompConnection, make_frame

SUBSCRIPTION: Final = "0"


class StompWay(SocketWay):
    """``prefetch_header`` names what limits unacknowledged messages."""

    prefetch_header: str

    @abstractmethod
    async def connect(self) -> StompConnection: ...

    @abstractmethod
    def destination(self, topic: str) -> str: ...

    async def producer(self) -> Producer:
        return _StompProducer(await self.connect(), self.destination)

    async def consumer(
        self, topic: str, *, window: int, consumers: int, seen: Seen, confirmed: Confirmed
    ) -> Consumer:
        connection = await self.connect()
        headers = {
            "id": SUBSCRIPTION,
            "destination": self.destination(topic),
            "ack": "client",
            self.prefetch_header: str(window),
        }
        connection.send(make_frame("SUBSCRIBE", headers))
        return _StompConsumer(connection, seen, confirmed)


class _StompProducer:
    def __init__(self, connection: StompConnection, destination: Callable[[str], str]) -> None:
        self._connection = connection
        self._destination = destination

    def request(self, topic: str, bodies: Sequence[bytes]) -> bytes:
        headers = {
            "destination": self._destination(topic),
            "persistent": "true",
            "receipt": "r",
        }
        return b"".join(
            make_frame("SEND", {**headers, "content-length": str(len(body))}, body)
            for body in bodies
        )

    def send(self, requests: Sequence[bytes]) -> None:
        self._connection.send(b"".join(requests))

    async def confirmed(self) -> int:
        return len(await self._connection.receive())

    def close(self) -> None:
        self._connection.close()


class _StompConsumer:
    def __init__(self, connection: StompConnection, seen: Seen, confirmed: Confirmed) -> None:
        self._connection = connection
        self._seen = seen
        self._confirmed = confirmed
        self._unconfirmed: deque[int] = deque()

    async def run(self) -> None:
        while True:
            frames = await self._connection.receive()
            come = [frame for frame in frames if frame.command == b"MESSAGE"]
            for _ in range(len(frames) - len(come)):
                self._confirmed(self._unconfirmed.popleft())
            if come:
                self._seen([frame.body for frame in come])
                # Cumulative: it stands for all that came before it.
                ack = {"id": come[-1].header(b"ack").decode(), "receipt": "a"}
                self._unconfirmed.append(len(come))
                self._connection.send(make_frame("ACK", ack))

    def close(self) -> None:
        self._connection.close()
