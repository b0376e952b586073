"""The data plane before a real engine: a server on a thread, and topics that both of them know."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

from mqservice.delivery.sessions import SessionTimes
from mqservice.delivery.spans import DeliverySpans
from mqservice.quotas.limits import DEFAULTS, QuotaLimits
from mqservice.store import (
    AsyncStoreClient,
    Dispatch,
    Durability,
    GroupConfig,
    StoreClient,
    TopicConfig,
)
from tests.mqservice.delivery.serving import PATIENT, Server, serving
from tests.mqservice.delivery.wait_until import wait_until

_numbers = itertools.count()


@contextlib.contextmanager
def serving_engine(
    socket_path: str,
    *,
    quotas: QuotaLimits = DEFAULTS,
    fresh_ms: int = 100,
    spans: DeliverySpans | None = None,
    times: SessionTimes = PATIENT,
) -> Iterator[Server]:
    """A server whose store is the engine at ``socket_path``. ``fresh_ms``: as ``serving``."""
    store = AsyncStoreClient(socket_path, client_name="test")
    with serving(store, times, quotas=quotas, fresh_ms=fresh_ms, spans=spans) as server:
        server.call(store.start)
        wait_until(lambda: store.is_connected)
        yield server


def real_topic(
    server: Server,
    socket_path: str,
    *,
    queue_count: int = 4,
    retention_ms: int = 0,
    body_bytes_max: int = 4 * 1024 * 1024,
) -> str:
    """The name of a new topic in namespace acme, with a group ``billing`` beside it."""
    name = f"browsed{next(_numbers)}"
    grow_topic(server, socket_path, name, queue_count=queue_count, retention_ms=retention_ms)
    server.topic(name, queue_count=queue_count, body_bytes_max=body_bytes_max)
    server.group("billing")
    return name


def grow_topic(
    server: Server, socket_path: str, name: str, *, queue_count: int, retention_ms: int = 0
) -> None:
    """Give a topic more queues, or another retention."""
    with StoreClient(socket_path, client_name="setup") as client:
        client.topic_put(
            TopicConfig(
                topic=f"acme%{name}",
                queue_count=queue_count,
                durability=Durability.SYNC,
                retention_ms=retention_ms,
            )
        )
        client.group_put(GroupConfig(group="acme%billing"))
    server.topic(name, queue_count=queue_count)


def real_group(
    server: Server, socket_path: str, name: str, **settings: Any
) -> str:  # Any: fields' of GroupConfig
    """A group in namespace acme that both know."""
    config = GroupConfig(group=f"acme%{name}", **settings)
    with StoreClient(socket_path, client_name="setup") as client:
        client.group_put(config)
    server.group(
        name,
        is_exclusive=config.dispatch is Dispatch.EXCLUSIVE,
        is_broadcast=config.dispatch is Dispatch.BROADCAST,
    )
    return name
