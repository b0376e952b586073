"""Deletes topics and groups with everything that belongs to them, even while they are in use.

    server ── topic_delete, group_delete ──▶ [Deletions] ──┬─▶ min_offsets: queues emptied
                                                           ├─▶ delivery, retries: no lease
                                                           ├─▶ consumer_offsets: no progress
                                                           └─▶ catalog: not in the tables
    schedule, forwarder ── is_orphan(record) ──▶           retention ── purge(log start) ──▶

The records of a deleted topic stay in the log until retention. So its queues stay too, empty: what
their ends were is written down first, so that a rebuild from the log brings nothing back, and a
new topic of the name goes on from there. They go once the log has no record from before. What
waited in the schedule for a topic or group is dropped when it is due. A crash on the way leaves a
topic or group that is there and has lost some of that; deleting it again finishes. Loop thread
only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from storage_engine.catalog.catalog import Catalog
from storage_engine.delivery.clients import split_reader
from storage_engine.delivery.consumer_offsets import ConsumerOffsets
from storage_engine.delivery.delivery import Delivery
from storage_engine.errors import GroupNotFound, StoreError, TopicNotFound
from storage_engine.log.commit_log import CommitLog
from storage_engine.moves.retries import Retries
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.queues.consume_queues import ConsumeQueues
from storage_engine.queues.min_offsets import MinOffsets
from storage_engine.records.record import parse_head
from storage_engine.records.record_draft import read_draft
from storage_engine.records.retry_record import RETRY_TOPIC
from storage_engine.records.schedule_topic import REAL_TOPIC
from storage_engine.records.topic_names import dlq_topic_of, retry_topic_of

log = logging.getLogger(__name__)


class Deletions:
    """See the module's docstring."""

    def __init__(
        self,
        catalog: Catalog,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        min_offsets: MinOffsets,
        consumer_offsets: ConsumerOffsets,
        delivery: Delivery,
        retries: Retries,
    ) -> None:
        self._catalog = catalog
        self._commit_log = commit_log
        self._queues = queues
        self._min_offsets = min_offsets
        self._consumer_offsets = consumer_offsets
        self._delivery = delivery
        self._retries = retries

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
        self._consumer_offsets.drop(is_gone, lease_floor=self._delivery.new_floor())

    def _queues_of(self, topic: str) -> list[ConsumeQueue]:
        return self._queues.by_topic.get(topic.encode(), [])

    def is_orphan(self, record: bytes) -> bool:
        """Whether a scheduled record was stored for a topic or group that was deleted since, or is
        a retry of a topic that was purged since.
        """
        deleted, purged = self._min_offsets.deleted, self._min_offsets.purged
        if not deleted and not purged:
            return False
        properties = read_draft(record).properties
        real, retried = (
            properties.get(name.encode(), b"").decode() for name in (REAL_TOPIC, RETRY_TOPIC)
        )
        return parse_head(record, 0).physical_offset < self.gone_below(real, retried)

    def gone_below(self, real: str, retried: str) -> int:
        """Physical offset below which records of the schedule for the topic ``real``, retries of
        the topic ``retried`` if they are, go nowhere any more.
        """
        deleted, purged = self._min_offsets.deleted, self._min_offsets.purged
        return max(deleted.get(real, 0), deleted.get(retried, 0), purged.get(retried, 0))

    def deleted_below(self, topic: str) -> int:
        """Physical offset below which records were stored for a topic of that name that was
        deleted since; 0 without one.
        """
        return self._min_offsets.deleted.get(topic, 0)

    def purge(self, start_offset: int) -> None:
        """Forget what was deleted or purged before the log's first byte was written.

        Raises ``DiskFull``. One replaced file when there is something to forget.
        """
        old = [name for name, at in self._min_offsets.deleted.items() if at <= start_offset]
        gone = [
            topic for topic in old if topic in self._catalog.topics or self._queues.forget(topic)
        ]
        kept = self._min_offsets.purged.items()
        purged = {name: at for name, at in kept if at > start_offset}
        if gone or purged != self._min_offsets.purged:
            left = {name: at for name, at in self._min_offsets.deleted.items() if name not in gone}
            self._min_offsets.save(self._queues, deleted=left, purged=purged)
