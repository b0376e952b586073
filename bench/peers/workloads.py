"""Which ways meet in which workload, in the order of a run.

Contenders (all ways of the peers that are there) ─▶ [WORKLOADS] ─▶ turns of each
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from random import Random
from typing import Final, TypeVar

import msgspec

from bench.payloads import SEED, make_body
from bench.peers.drain import PushTurn, ReceiveTurn
from bench.peers.flood import SocketProduceTurn
from bench.peers.idle import SOCKETS, IdleTurn
from bench.peers.latency import RestLatencyTurn, SocketLatencyTurn
from bench.peers.limits import CopyTurn, SyncTurn
from bench.peers.many_topics import TOPICS, MakeTopicsTurn, topic_names
from bench.peers.peer import Peer, RestWay, SocketWay, Way
from bench.peers.rest_produce import RestProduceTurn
from bench.peers.turns import Turn

BATCH: Final = 100
SMALL_BYTES: Final = 16
LARGE_BYTES: Final = 64 * 1024
BACKLOG: Final = 10_000_000
TOPICS_PREFIX: Final = "many"
W = TypeVar("W", bound=Way)


class Contenders:
    """The ways of all peers that are there; ours come first."""

    def __init__(self, peers: Sequence[Peer], bare: RestWay | None, base: Path) -> None:
        self.sockets: list[SocketWay] = list(chain.from_iterable(p.sockets for p in peers))
        self.rests: list[RestWay] = list(chain.from_iterable(p.rests for p in peers))
        self.bare = [bare] if bare else []
        self.base = base

    def publishers(self) -> list[SocketWay]:
        """Those that differ for a producer: pushed and pulled are the same to it."""
        left_out = ("pull", "JSON, async")
        return [w for w in self.sockets if not any(word in w.facts.label for word in left_out)]

    def main(self) -> list[SocketWay]:
        """One of each peer over the kind of socket that browsers have, and ActiveMQ's TCP."""
        left_out = ("TCP, ", "pull", "JSON", "async", "quorum")
        return [w for w in self.sockets if not any(word in w.facts.label for word in left_out)]

    def filler(self, rest: RestWay) -> SocketWay:
        """A socket of the same peer with the same durability."""
        return next(
            way
            for way in self.sockets
            if (way.facts.peer, way.facts.durability) == (rest.facts.peer, rest.facts.durability)
        )

    def main_rests(self) -> list[RestWay]:
        """One of each peer."""
        return [way for way in self.rests if not way.facts.label.endswith(("async", "quorum"))]


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """``how`` says what the figure is of; ``is_single`` workloads run once, whatever was asked.

    ``needs`` is the key of the workload that has to go before.
    """

    key: str
    title: str
    unit: str = "msg/s"
    how: str
    turns: Callable[[Contenders, str], list[Turn]]
    needs: str = ""
    is_less_better: bool = False
    is_single: bool = False
    is_large: bool = False
    is_quick: bool = True


def body_of(size_bytes: int) -> bytes:
    """Text that JSON leaves as it is."""
    one = make_body()
    return (one * (size_bytes // len(one) + 1))[:size_bytes]


def _rest_produce(size_bytes: int, batch: int = 1) -> Callable[[Contenders, str], list[Turn]]:
    def turns(all_: Contenders, key: str) -> list[Turn]:
        ways = [*all_.bare, *all_.rests] if size_bytes == 1_024 else all_.main_rests()
        return [
            RestProduceTurn(way, name, body=body_of(size_bytes), batch=batch)
            for way, name in _named(ways, key)
            if way.batch_max >= batch
        ]

    return turns


def _socket_produce(batch: int) -> Callable[[Contenders, str], list[Turn]]:
    def turns(all_: Contenders, key: str) -> list[Turn]:
        return [
            SocketProduceTurn(way, name, body=make_body(), batch=batch)
            for way, name in _named(all_.publishers(), key)
        ]

    return turns


def _receive(messages_max: int) -> Callable[[Contenders, str], list[Turn]]:
    def turns(all_: Contenders, key: str) -> list[Turn]:
        return [
            ReceiveTurn(way, all_.filler(way), name, body=make_body(), messages_max=messages_max)
            for way, name in _named(all_.main_rests(), key)
        ]

    return turns


def _push(consumers: int, size_bytes: int = 1_024) -> Callable[[Contenders, str], list[Turn]]:
    def turns(all_: Contenders, key: str) -> list[Turn]:
        # What an async topic is pushed is what a sync one is.
        of_kilobyte = [way for way in all_.sockets if not way.facts.label.endswith("async")]
        ways = of_kilobyte if size_bytes == 1_024 else all_.main()
        return [
            PushTurn(way, name, body=body_of(size_bytes), consumers=consumers)
            for way, name in _named(ways, key)
        ]

    return turns


def _backlog(all_: Contenders, key: str) -> list[Turn]:
    return [
        PushTurn(way, name, body=make_body(), consumers=1, fixed_count=BACKLOG)
        for way, name in _named(all_.main(), key)
    ]


def _socket_latency(rate: int) -> Callable[[Contenders, str], list[Turn]]:
    def turns(all_: Contenders, key: str) -> list[Turn]:
        left_out = ("JSON", "pull")
        ways = [w for w in all_.sockets if not any(word in w.facts.label for word in left_out)]
        return [SocketLatencyTurn(way, name, rate=rate) for way, name in _named(ways, key)]

    return turns


def _rest_latency(rate: int) -> Callable[[Contenders, str], list[Turn]]:
    def turns(all_: Contenders, key: str) -> list[Turn]:
        return [
            RestLatencyTurn(way, all_.filler(way), name, rate=rate)
            for way, name in _named(all_.main_rests(), key)
        ]

    return turns


def _makers(all_: Contenders) -> list[SocketWay]:
    """ActiveMQ makes a queue when it is first used: nothing to ask for."""
    return [way for way in all_.main() if "ActiveMQ" not in way.facts.label]


def _making_topics(all_: Contenders, key: str) -> list[Turn]:
    return [MakeTopicsTurn(way, _prefix(way)) for way in _makers(all_)]


def _to_topics(all_: Contenders, key: str) -> list[Turn]:
    return [
        SocketProduceTurn(way, key, body=make_body(), batch=1, topics=_shuffled(way))
        for way in _makers(all_)
    ]


def _rest_to_topics(all_: Contenders, key: str) -> list[Turn]:
    return [
        RestProduceTurn(way, key, body=make_body(), batch=1, topics=_shuffled(way))
        for way in all_.main_rests()
    ]


def _idle(all_: Contenders, key: str) -> list[Turn]:
    return [IdleTurn(way, name) for way, name in _named(all_.main(), key)]


def _limits(all_: Contenders, key: str) -> list[Turn]:
    return [SyncTurn(all_.base)]


def _prefix(way: Way) -> str:
    return f"{TOPICS_PREFIX}-{way.facts.peer.split()[0].lower()}"


def _shuffled(way: Way) -> list[str]:
    names = topic_names(_prefix(way))
    Random(SEED).shuffle(names)
    return names


def _named(ways: Sequence[W], key: str) -> Iterator[tuple[W, str]]:
    """Each way with a topic of its own."""
    return ((way, f"{key}-{number}") for number, way in enumerate(ways))


SIXTEEN: Final = f"{SMALL_BYTES} B"
WORKLOADS: Final = (
    Workload(
        key="memory",
        title="Limit: memory",
        unit="GiB/s",
        how="64 MiB copied again and again by one thread",
        turns=lambda all_, key: [CopyTurn()],
    ),
    Workload(
        key="disk",
        title="Limit: disk",
        unit="sync/s",
        how="4 KiB written and synced, one after the other: what a store without group commit has",
        turns=_limits,
    ),
    Workload(
        key="rest-one",
        title="Produce over REST, one message a request",
        how="wrk, one thread, 64 connections, bodies of 1 KiB",
        turns=_rest_produce(1_024),
    ),
    Workload(
        key="rest-hundred",
        title="Produce over REST, 100 messages a request",
        how="wrk, one thread, 16 connections, bodies of 1 KiB; RabbitMQ's HTTP API takes one "
        "message a request",
        turns=_rest_produce(1_024, BATCH),
    ),
    Workload(
        key="socket-one",
        title="Produce over sockets, one message a request",
        how="64 requests unconfirmed in all, bodies of 1 KiB; every message confirmed",
        turns=_socket_produce(1),
    ),
    Workload(
        key="socket-hundred",
        title="Produce over sockets, 100 messages at once",
        how="four connections with four times 100 messages unconfirmed (ActiveMQ: 64 with one "
        "time), bodies of 1 KiB; every message confirmed",
        turns=_socket_produce(BATCH),
    ),
    Workload(
        key="receive-one",
        title="Receive and acknowledge over REST, one message a request",
        how="64 connections, bodies of 1 KiB; ours acknowledges with the next receive, RabbitMQ's "
        "get as it gets, so what is lost on the way is lost",
        turns=_receive(1),
    ),
    Workload(
        key="receive-many",
        title="Receive and acknowledge over REST, 64 messages a request",
        how="64 connections, bodies of 1 KiB",
        turns=_receive(64),
    ),
    Workload(
        key="push-one",
        title="Push with acknowledgements to one consumer",
        how="a backlog drained to its end, 1,000 messages unacknowledged at most, bodies of 1 KiB; "
        "only acknowledgements that were answered count",
        turns=_push(1),
    ),
    Workload(
        key="push-eight",
        title="Push with acknowledgements to eight consumers",
        how="the same with eight connections on one topic",
        turns=_push(8),
    ),
    Workload(
        key="rest-small",
        title=f"Produce over REST, bodies of {SIXTEEN}",
        how="as with 1 KiB",
        turns=_rest_produce(SMALL_BYTES),
        is_quick=False,
    ),
    Workload(
        key="rest-large",
        title="Produce over REST, bodies of 64 KiB",
        how="as with 1 KiB",
        turns=_rest_produce(LARGE_BYTES),
        is_quick=False,
    ),
    Workload(
        key="push-small",
        title=f"Push to one consumer, bodies of {SIXTEEN}",
        how="as with 1 KiB",
        turns=_push(1, SMALL_BYTES),
        is_quick=False,
    ),
    Workload(
        key="push-large",
        title="Push to one consumer, bodies of 64 KiB",
        how="as with 1 KiB, but 8 MiB unacknowledged at most",
        turns=_push(1, LARGE_BYTES),
        is_quick=False,
    ),
    Workload(
        key="latency-1000",
        title="Publish to receive over sockets, 1,000 messages a second",
        unit="ms, p99",
        how="bodies of 1 KiB, four connections, one consumer; from the moment of the plan",
        turns=_socket_latency(1_000),
        is_less_better=True,
    ),
    Workload(
        key="latency-5000",
        title="Publish to receive over sockets, 5,000 messages a second",
        unit="ms, p99",
        how="the same, five times as fast",
        turns=_socket_latency(5_000),
        is_less_better=True,
        is_quick=False,
    ),
    Workload(
        key="latency-rest",
        title="Publish over REST to receive on a socket, 500 messages a second",
        unit="ms, p99",
        how="bodies of 1 KiB, eight connections with one request each at a time",
        turns=_rest_latency(500),
        is_less_better=True,
    ),
    Workload(
        key="topics-made",
        title=f"Topics made, {TOPICS:,}",
        unit="topics/s",
        how="8 requests at a time; a RabbitMQ topic is a queue, a NATS topic a stream; ActiveMQ "
        "makes queues by their first message, and is left out",
        turns=_making_topics,
        is_single=True,
        is_quick=False,
    ),
    Workload(
        key="topics-socket",
        title=f"Produce to {TOPICS:,} topics in turn, over sockets",
        how="one message a request, bodies of 1 KiB, as with one topic; each had five before",
        needs="topics-made",
        turns=_to_topics,
        is_quick=False,
    ),
    Workload(
        key="topics-rest",
        title=f"Produce to {TOPICS:,} topics in turn, over REST",
        how="one message a request, bodies of 1 KiB, as with one topic",
        needs="topics-socket",
        turns=_rest_to_topics,
        is_quick=False,
    ),
    Workload(
        key="idle",
        title=f"{SOCKETS:,} idle subscriptions",
        unit="KiB each",
        how="memory without files behind it, for each, 0 where a peer freed more; CPU of "
        "all in percent of a core",
        turns=_idle,
        is_less_better=True,
        is_single=True,
        is_quick=False,
    ),
    Workload(
        key="backlog",
        title=f"A backlog of {BACKLOG:,} drained by one consumer",
        how="as push to one consumer, once",
        turns=_backlog,
        is_single=True,
        is_large=True,
    ),
)
