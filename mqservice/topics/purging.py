"""Deletes all messages of a topic, and leaves the topic, its groups and its settings unchanged.

    purge_topic ── row locked ──▶ engine TOPIC_PURGE ── what went ──▶ audit entry ──▶ commit

The engine is asked inside the transaction, so nothing is dropped while nobody could write it down.
"""

from __future__ import annotations

from typing import Final

from django.db import transaction

from mqservice.accounts.access import Principal
from mqservice.accounts.audit import Outcome, record
from mqservice.errors import problem_from_store
from mqservice.lib.problem import Problem
from mqservice.store import (
    OutcomeUnknown,
    StoreError,
    SyncFailed,
    TopicPurgeReply,
    TopicPurgeRequest,
    blocking_client,
)
from mqservice.topics.models import Topic

PURGE_ACTION: Final = "topic.purge"


def preview_purge(topic: Topic) -> TopicPurgeReply:
    """What a purge would drop now. One call to the engine. Raises Problem."""
    try:
        return _purge(topic, is_dry_run=True)
    except StoreError as exc:
        raise problem_from_store(exc) from exc


def purge_topic(
    principal: Principal, topic: Topic, *, has_scheduled: bool = False
) -> TopicPurgeReply:
    """Drop all messages that the topic has now, ``has_scheduled`` also those that are scheduled for
    later. One transaction, one call to the engine.

    Raises Problem: TOPIC_NOT_FOUND, or what the engine's failure means. Where nobody knows whether
    it was done, the entry of the audit says so.
    """
    reply: TopicPurgeReply | None = None
    failure: StoreError | None = None
    with transaction.atomic():
        if not Topic.objects.select_for_update().filter(pk=topic.pk).exists():
            raise Problem.of("TOPIC_NOT_FOUND", f"{topic.name} has just been deleted")
        try:
            reply = _purge(topic, is_dry_run=False, has_scheduled=has_scheduled)
        except (OutcomeUnknown, SyncFailed) as exc:
            failure = exc
        except StoreError as exc:
            raise problem_from_store(exc) from exc
        record(
            principal,
            topic.namespace,
            PURGE_ACTION,
            f"topics/{topic.name}",
            {"scheduled": has_scheduled} | ({} if reply is None else _details(reply)),
            outcome=Outcome.DONE if failure is None else Outcome.UNKNOWN,
        )
    if reply is None:
        assert failure is not None
        raise problem_from_store(failure) from failure
    return reply


def message_count(reply: TopicPurgeReply) -> int:
    """Messages that could be read, and cannot any more."""
    return sum(queue.to_offset - queue.from_offset for queue in reply.queues)


def _details(reply: TopicPurgeReply) -> dict[str, object]:
    return {
        "messages": message_count(reply),
        "inflight": reply.inflight_count,
        "retries": reply.retry_count,
        "queues": [
            {"queue": queue.queue_id, "from": queue.from_offset, "to": queue.to_offset}
            for queue in reply.queues
        ],
    }


def _purge(topic: Topic, *, is_dry_run: bool, has_scheduled: bool = False) -> TopicPurgeReply:
    request = TopicPurgeRequest(
        topic=topic.engine_name, is_dry_run=is_dry_run, has_scheduled=has_scheduled
    )
    with blocking_client(topic.namespace.shard) as client:
        return client.topic_purge(request)
