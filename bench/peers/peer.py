"""What every peer offers, so that workloads need not know which one they load.

    Peer: name, version, how it was set up, its processes
      └─ SocketWay, RestWay: a protocol with one durability
            └─ Producer, Consumer, RestReceiver: one connection

A producer's confirmations are what the peer calls stored; a consumer counts only acknowledgements
that the peer has answered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

#: Called with how many messages the peer has confirmed.
Confirmed = Callable[[int], None]
#: Called with the bodies of messages that have come.
Seen = Callable[[Sequence[bytes]], None]


class PeerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What has to stand beside a figure. ``setup`` is one sentence or two."""

    name: str
    version: str
    setup: str


class WayFacts(msgspec.Struct, frozen=True, kw_only=True):
    """``durability`` says in a sentence what a confirmation means; ``is_synced``: whether the disk
    has the message then; ``is_ours``: whether it is this service.
    """

    label: str
    peer: str
    durability: str
    is_synced: bool
    is_ours: bool = False


class Producer(Protocol):
    def request(self, topic: str, bodies: Sequence[bytes]) -> bytes:
        """The bytes that send these messages to a topic at once."""
        ...

    def send(self, requests: Sequence[bytes]) -> None: ...

    async def confirmed(self) -> int:
        """How many more messages are confirmed, at least one. Raises MeasureFailed if refused."""
        ...

    def close(self) -> None: ...


class Consumer(Protocol):
    async def run(self) -> None:
        """Take and acknowledge until cancelled. Raises MeasureFailed if refused."""
        ...

    def close(self) -> None: ...


class Way(ABC):
    """``roots`` are the first processes of the peer."""

    facts: WayFacts
    roots: Sequence[int]

    @abstractmethod
    async def make_topic(self, topic: str) -> None:
        """A topic, queue or stream with what its consumers need."""

    @abstractmethod
    async def drop_topic(self, topic: str) -> None:
        """It and its messages are gone."""


class SocketWay(Way):
    """``lanes`` connections with ``in_flight`` requests each are what it produces best with, 64
    unconfirmed requests in all.
    """

    lanes: int = 4
    in_flight: int = 16

    @abstractmethod
    async def producer(self) -> Producer: ...

    @abstractmethod
    async def consumer(
        self, topic: str, *, window: int, consumers: int, seen: Seen, confirmed: Confirmed
    ) -> Consumer:
        """One of ``consumers`` on a topic, with ``window`` messages at most unacknowledged."""


class RestReceiver(Protocol):
    async def receive(self) -> int:
        """Receive and acknowledge; how many messages."""
        ...

    def close(self) -> None: ...


class RestWay(Way):
    base_url: str
    batch_max: int = 1  # messages of a produce request at most

    @abstractmethod
    def requests(self, topics: Sequence[str], bodies: Sequence[bytes]) -> list[bytes]:
        """One whole HTTP request for each topic, that produces these messages."""

    def check_stored(self, answer: bytes) -> None:
        """Raises MeasureFailed when an answer of 2xx does not mean that all was stored."""

    @abstractmethod
    async def receiver(self, topic: str, messages_max: int) -> RestReceiver: ...


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    facts: PeerFacts
    sockets: Sequence[SocketWay] = ()
    rests: Sequence[RestWay] = ()


def http_request(path: str, host: str, authorization: str, content: bytes) -> bytes:
    """A POST of JSON as it stands on the wire."""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: {authorization}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content
