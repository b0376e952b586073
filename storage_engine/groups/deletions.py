"""Deletes topics and groups with everything that belongs to them, even while they are in use; and
purges topics, which deletes their messages and leaves the topic and its groups unchanged.

    server ── topic_delete, group_delete ──▶ [Deletions] ──┬─▶ min_offsets: queues emptied
    moving_namespaces, split ── delete_namespaces ─────────┤
                                                           ├─▶ delivery, retries: no lease
                                                           ├─▶ consumer_offsets: no progress
                                                           └─▶ catalog: not in the tables
    server ── topic_purge ──▶ [Deletions] ──┬─▶ min_offsets: where queues begin, on the disk
                                            ├─▶ consume queues: nothing below can be read
                                            └─▶ offset_changes: groups go on there, no lease
    min_offsets.is_orphan(record) ──▶ what waits in the schedule and is not to come

The records of a deleted topic stay in the log until retention. So its queues stay too, empty: what
their ends were is written down first, so that a rebuild from the log brings nothing back, and a
new topic of the name goes on from there. They go once the log has no record from before. What
waited in the schedule for a topic or group is dropped when it is due. A crash on the way leaves a
topic or group that is there and has lost some of that; deleting it again finishes.

A purge deletes what stands in the topic's queues, and what groups have still to retry of it: the
queues of their retry topics, and from the schedule what was stored for those before. Dead letters
stay, and so does what producers have scheduled for later unless that is to go too, as the purge of
SQS has it. The bytes go with their segments, by retention.
One replaced file decides: before it nothing has changed, after it nothing comes back, by a rebuild
of the queues neither. A crash behind it leaves groups that the next start lets pass over what they
cannot read. Loop thread only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from storage_engine.catalog.catalog import Catalog
from storage_engine.delivery.clients import split_reader
from storage_engine.delivery.delivery import Delivery
from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.delivery.subscription import ProcessQueue
from storage_engine.errors import GroupNotFound, NamespaceMoved, StoreError, TopicNotFound
from storage_engine.groups.offset_changes import OffsetChanges
from storage_engine.moves.retries import Retries
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.queues.min_offsets import scheduled_for
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC
from storage_engine.records.topic_names import (
    dlq_topic_of,
    is_of_group,
    namespace_of,
    retry_topic_of,
)
from storage_engine.wire.topics import QueuePurge, TopicPurgeReply, TopicPurgeRequest

log = logging.getLogger(__name__)


class Deletions:
    """See the module's docstring."""

    def __init__(
        self,
        parts: EngineParts,
        catalog: Catalog,
        delivery: Delivery,
        retries: Retries,
        offset_changes: OffsetChanges,
    ) -> None:
        self._commit_log = parts.commit_log
        self._queues = parts.queues
        self._min_offsets = parts.min_offsets
        self._consumer_offsets = parts.consumer_offsets
        self._catalog = catalog
        self._delivery = delivery
        self._subscriptions = delivery.subscriptions
        self._retries = retries
        self._offset_changes = offset_changes

    def topic_delete(self, topic: str) -> None:
        """Delete a topic, and what groups have still to retry of it; durable on return.

        Dead letters stay with their groups. Costs up to eight fsyncs.

        Raises:
            TopicNotFound: it does not exist.
            BadRequest: it belongs to a group or to the engine.
            DiskFull, SyncFailed: it may be empty then, but is there.
        """
        self._catalog.settle_for(topic, "deleted")
        more = self._catalog.retry_queues_of(topic)
        refusal = TopicNotFound(f"topic {topic} was deleted")
        self._empty([topic], more, lambda group, other: other == topic, refusal)
        self._catalog.topic_remove(topic)
        log.info("Topic deleted", extra={"action": "topic_deleted", "topic": topic})

    def group_delete(self, group: str) -> None:
        """Delete a group with its progress, retries and dead letters; durable on return.

        Costs up to twelve fsyncs. Raises ``GroupNotFound``, ``DiskFull``, ``SyncFailed``.
        """
        self._catalog.settle()
        if group not in self._catalog.groups:
            raise GroupNotFound(f"group {group} does not exist")
        own = [retry_topic_of(group), dlq_topic_of(group)]
        refusal = GroupNotFound(f"group {group} was deleted")
        self._empty(
            own, [], lambda reader, topic: split_reader(reader)[0] == group or topic in own, refusal
        )
        for topic in own:
            if topic in self._catalog.topics:
                self._catalog.topic_remove(topic)
        self._catalog.group_remove(group)
        log.info("Consumer group deleted", extra={"action": "group_deleted", "group": group})

    def delete_namespaces(self, is_gone: Callable[[str], bool]) -> tuple[int, frozenset[str]]:
        """Delete all topics and groups of the namespaces that ``is_gone`` names; how many topics,
        without those of groups, and which groups. Durable on return.

        Costs up to twelve fsyncs, and a little for each topic. Raises ``DiskFull``, ``SyncFailed``:
        some may be empty then, but are there.
        """
        self._catalog.settle()
        topics = {
            name
            for name in self._catalog.topics
            if name != SCHEDULE_TOPIC and is_gone(namespace_of(name))
        }
        groups = frozenset(name for name in self._catalog.groups if is_gone(namespace_of(name)))
        if not topics and not groups:
            return 0, groups

        def is_reading(reader: str, topic: str) -> bool:
            return topic in topics or split_reader(reader)[0] in groups

        refusal = NamespaceMoved("its namespace is in another shard")
        self._empty(sorted(topics), [], is_reading, refusal)
        self._catalog.remove_all(topics, groups)
        topic_count = len([name for name in topics if not is_of_group(name)])
        log.info(
            "Deleted the topics and groups of namespaces that are in another shard",
            extra={
                "action": "namespaces_deleted",
                "topic_count": topic_count,
                "group_count": len(groups),
            },
        )
        return topic_count, groups

    def _empty(
        self,
        topics: list[str],
        more: list[ConsumeQueue],
        is_gone: Callable[[str, str], bool],
        refusal: StoreError,
    ) -> None:
        """Empty the queues of topics, and ``more``; ``is_gone`` says which (group, topic) end."""
        emptied = [queue for topic in topics for queue in self._queues_of(topic)] + more
        end_offset = self._commit_log.append_offset
        deleted = {**self._min_offsets.deleted, **dict.fromkeys(topics, end_offset)}
        self._min_offsets.save(self._queues, emptied=frozenset(emptied), deleted=deleted)

        for queue in emptied:
            queue.empty()
        dropped = self._delivery.drop(lambda each: is_gone(each.group, each.topic), refusal)
        self._retries.forget(frozenset(dropped))
        self._consumer_offsets.drop(is_gone, lease_floor=self._subscriptions.next_generation())

    def _queues_of(self, topic: str) -> list[ConsumeQueue]:
        return self._queues.by_topic.get(topic.encode(), [])

    def topic_purge(self, request: TopicPurgeRequest) -> TopicPurgeReply:
        """Drop what is visible of a topic now; durable on return (up to four fsyncs).

        A dry run changes nothing and answers the same.

        Raises:
            TopicNotFound: it does not exist.
            BadRequest: it belongs to a group or to the engine.
            DiskFull: nothing has changed, or all is dropped and some leases of before still count.
            SyncFailed: it is done, and the next start does it again if need be.
        """
        topic = request.topic
        self._catalog.settle_for(topic, "purged")
        queues = self._catalog.queues_of(topic)
        sources = [
            source
            for subscription in self._subscriptions
            if subscription.topic == topic
            for source in subscription.sources
        ]
        reply = _reply(queues, sources)
        if request.is_dry_run:
            return reply
        # A retry that is not visible yet was delivered before; a new message may come after this.
        begins = {queue: queue.append_offset for queue in self._catalog.retry_queues_of(topic)}
        begins |= {queue: queue.max_offset for queue in queues}
        purged = {**self._min_offsets.purged, topic: self._commit_log.append_offset}
        if request.has_scheduled:
            # What is not durable yet was confirmed to nobody, and comes after this.
            purged[scheduled_for(topic)] = self._commit_log.flushed_offset
        self._min_offsets.save(self._queues, begins=begins, purged=purged)
        for queue, queue_offset in begins.items():
            queue.raise_start(queue_offset)
        self._offset_changes.apply(
            [
                (source, begins[source.queue])
                for source in sources
                if source.inflight or source.progress.consumer_offset < begins[source.queue]
            ]
        )
        log.info(
            "Topic purged",
            extra={
                "action": "topic_purged",
                "topic": topic,
                "message_count": sum(each.to_offset - each.from_offset for each in reply.queues),
            },
        )
        return reply


def _reply(queues: list[ConsumeQueue], sources: list[ProcessQueue]) -> TopicPurgeReply:
    topic_queues = set(queues)
    return TopicPurgeReply(
        queues=[
            QueuePurge(
                queue_id=queue.queue_id, from_offset=queue.min_offset, to_offset=queue.max_offset
            )
            for queue in queues
        ],
        inflight_count=sum(len(source.inflight) for source in sources),
        retry_count=sum(
            source.unsettled_count() for source in sources if source.queue not in topic_queues
        ),
    )
