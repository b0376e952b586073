"""Deletes all messages of a topic, and leaves the topic and its groups unchanged.

    server ── topic_purge ──▶ [TopicPurge] ──┬─▶ min_offsets: where queues begin, on the disk
                                             ├─▶ consume queues: nothing below can be read
                                             └─▶ offset_changes: groups go on there, no lease
    deletions.is_orphan(record) ◀── min_offsets.purged ── a retry that waits in the schedule

Gone is what stands in the topic's queues, and what groups have still to retry of it: the queues of
their retry topics, and from the schedule what was stored for those before. What producers have
scheduled for later stays, as do dead letters. The bytes go with their segments, by retention.

One replaced file decides: before it nothing has changed, after it nothing comes back, by a rebuild
of the queues neither. A crash behind it leaves groups that the next start lets pass over what they
cannot read. Loop thread only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from storage_engine.catalog.catalog import Catalog
from storage_engine.delivery.delivery import Delivery
from storage_engine.delivery.subscription import ProcessQueue
from storage_engine.log.commit_log import CommitLog
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.queues.consume_queues import ConsumeQueues
from storage_engine.queues.min_offsets import MinOffsets
from storage_engine.wire.topics import QueuePurge, TopicPurgeReply, TopicPurgeRequest

log = logging.getLogger(__name__)


class TopicPurge:
    """See the module's docstring. ``move(positions)`` lets groups go on from there, durably, and
    makes void what they were given before.
    """

    def __init__(
        self,
        catalog: Catalog,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        min_offsets: MinOffsets,
        delivery: Delivery,
        move: Callable[[list[tuple[ProcessQueue, int]]], None],
    ) -> None:
        self._catalog = catalog
        self._commit_log = commit_log
        self._queues = queues
        self._min_offsets = min_offsets
        self._delivery = delivery
        self._move = move

    def run(self, request: TopicPurgeRequest) -> TopicPurgeReply:
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
            for subscription in self._delivery.subscriptions
            if subscription.topic == topic
            for source in subscription.sources
        ]
        reply = _reply(queues, sources)
        if request.is_dry_run:
            return reply
        # A retry that is not visible yet was delivered before; a new message may come after this.
        begins = {queue: queue.append_offset for queue in self._catalog.retry_queues_of(topic)}
        begins |= {queue: queue.max_offset for queue in queues}
        self._empty(topic, begins)
        self._move(
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

    def _empty(self, topic: str, begins: dict[ConsumeQueue, int]) -> None:
        purged = {**self._min_offsets.purged, topic: self._commit_log.append_offset}
        self._min_offsets.save(self._queues, begins=begins, purged=purged)
        for queue, queue_offset in begins.items():
            queue.raise_start(queue_offset)


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
