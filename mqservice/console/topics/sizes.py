"""How many bytes topics store, as the engine counts them for quotas."""

from __future__ import annotations

from collections.abc import Sequence

from mqservice.store import StoreClient, StoreError, UsageRequest
from mqservice.topics.models import Topic


def stored_bytes(client: StoreClient | None, topics: Sequence[Topic]) -> dict[str, int]:
    """Bytes of the records that can be read, by name; one call to the engine.

    Empty when it does not answer, or has not looked at all there is since its start.
    """
    if client is None or not topics:
        return {}
    try:
        reply = client.use(UsageRequest(topics=[topic.engine_name for topic in topics]))
    except StoreError:
        return {}
    if not reply.is_complete:
        return {}
    return {
        topic.name: byte_count for topic, byte_count in zip(topics, reply.topic_bytes, strict=True)
    }
