"""Which topics and groups exist; creates, changes and deletes them.

    store ── put, remove ──▶ [Catalog] ──▶ config_table (files), consume_queues, put routes

Changes that clients ask for share their writes (``topic_writes``, ``group_writes``); what the
engine needs by itself it has on return. Loop thread only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from storage_engine.catalog.config_table import GroupTable, TopicTable
from storage_engine.catalog.namespace_holds import NamespaceHolds
from storage_engine.catalog.shared_writes import SharedWrites
from storage_engine.clock import Clock
from storage_engine.config import StoreConfig
from storage_engine.disk.files import Files
from storage_engine.errors import (
    BadRequest,
    NoReplicatedLog,
    QueueNotFound,
    StoreError,
    TopicNotFound,
)
from storage_engine.puts.route import BUFFERED, REPLICATED, SYNCED, Route
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.queues.consume_queues import ConsumeQueues
from storage_engine.records.key_hash import topic_hash
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC
from storage_engine.records.topic_names import (
    check_group_name,
    check_topic_name,
    is_of_group,
    namespace_of,
    retry_topic_of,
)
from storage_engine.settings.retry_policy import RECONSUME_FOR_EVER
from storage_engine.wire.groups import (
    CONSUME_TIMEOUT_MS_MAX,
    CONSUME_TIMEOUT_MS_MIN,
    Dispatch,
    GroupConfig,
)
from storage_engine.wire.topics import Durability, TopicConfig

_BATCH_PER_GROUP_MAX: Final = 32
_AWAITS: Final = {
    Durability.SYNC: SYNCED,
    Durability.ASYNC: BUFFERED,
    Durability.REPLICATED: REPLICATED,
}


class Catalog:
    """See the module's docstring."""

    def __init__(
        self,
        config: StoreConfig,
        files: Files,
        clock: Clock,
        queues: ConsumeQueues,
        routes: dict[bytes, Route],
    ) -> None:
        self._config = config
        self._queues = queues
        self._routes = routes
        # Called with a topic's name and all its queues when it has got more of them.
        self.queues_added: Callable[[str, list[ConsumeQueue]], None] = _nothing
        # Called with a group that is not as it was.
        self.group_changed: Callable[[GroupConfig], None] = _ignore_change
        # Whether anybody has read something in the name of a group.
        self.is_read: Callable[[str], bool] = _never_read
        self._topics = TopicTable(files, config.store_path, clock)
        self._groups = GroupTable(files, config.store_path, clock)
        self.topic_writes = SharedWrites(
            self._topics, self._is_topic_changed, self._route, self._notify_topic_change
        )
        self.group_writes = SharedWrites(
            self._groups, self._is_group_changed, _ignore_change, self._notify_group_change
        )
        self._executor: ThreadPoolExecutor
        self.holds = NamespaceHolds(config, files, clock)
        # Nobody may see their messages before the replicated log has them.
        self.replicated_topics: set[str] = set()
        self._has_replicated_log = False
        self._replicated_refusal = NoReplicatedLog.code  # until there is such a log

    @property
    def topics(self) -> dict[str, TopicConfig]:
        return self._topics.configs

    @property
    def groups(self) -> dict[str, GroupConfig]:
        return self._groups.configs

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on writes may be shared. Their threads begin with the first of them."""
        self._executor = ThreadPoolExecutor(max_workers=2, thread_name_prefix="tables")
        self.topic_writes.start(loop, self._executor)
        self.group_writes.start(loop, self._executor)

    def stop(self) -> None:
        """Write and answer what waits; blocks for four writes at most."""
        self.topic_writes.stop()
        self.group_writes.stop()
        self._executor.shutdown()

    def settle(self) -> None:
        """Wait for a running write of the tables; they do not change until the loop continues. See
        ``SharedWrites.settle``.
        """
        self.topic_writes.settle()
        self.group_writes.settle()

    def settle_for(self, topic: str, what: str) -> None:
        """The same before a topic that producers know is deleted or purged, as ``what`` says.

        Raises ``TopicNotFound``; ``BadRequest``: it belongs to a group or to the engine.
        """
        self.settle()
        if topic not in self.topics:
            raise TopicNotFound(f"topic {topic} does not exist")
        if _is_own(topic):
            raise BadRequest(f"topic {topic} is internal and cannot be {what} on its own")

    def load(self) -> None:
        """Read the tables; ``route_all`` must follow once the consume queues are recovered.

        Raises ``StoreCorrupt``.
        """
        self._topics.load()
        self._groups.load()
        self.holds.load()

    def route_all(self) -> None:
        for topic in self.topics.values():
            self._route(topic)

    def topic_put(self, config: TopicConfig) -> None:
        """Create or change a topic; durable on return. Raises ``BadRequest``, ``DiskFull``."""
        self.topic_writes.put_now(config)

    def _is_topic_changed(self, config: TopicConfig, topics: Mapping[str, TopicConfig]) -> bool:
        """Whether it is not what ``topics`` say. Raises ``BadRequest``, ``NoReplicatedLog``: it may
        not be.
        """
        check_topic_name(config.topic)
        known = topics.get(config.topic)
        if known == config:
            return self._topics.is_doubtful
        if not 1 <= config.queue_count <= self._config.queue_count_max:
            raise BadRequest(
                f"queue_count is {config.queue_count}, it must be 1 to "
                f"{self._config.queue_count_max}"
            )
        # One that was replicated before keeps that, and takes no puts.
        is_replicated = known is not None and known.durability is Durability.REPLICATED
        if config.durability is Durability.REPLICATED and not (
            is_replicated or self._has_replicated_log
        ):
            raise NoReplicatedLog(
                "durability is replicated, but this engine has no replicated log: choose sync, or "
                "set MQ_ENGINE_REPLICATED_LOG"
            )
        if config.retention_ms < 0:
            raise BadRequest(f"retention_ms is {config.retention_ms}, it must be 0 or more")
        if known is None and self._is_full_for(config.topic, topics):
            raise BadRequest(
                f"this engine has {self._config.topic_count_max} topics already, which is "
                "its limit; delete some first"
            )
        return True

    def _notify_topic_change(self, before: Mapping[str, TopicConfig], config: TopicConfig) -> None:
        known = before.get(config.topic)
        has_grown = known is not None and known.queue_count < config.queue_count
        if has_grown and config.topic in self.topics:
            self.queues_added(config.topic, self.queues_of(config.topic))

    def _is_full_for(self, topic: str, topics: Mapping[str, TopicConfig]) -> bool:
        """Retry and dead-letter topics have room of their own, which the groups bound: without it a
        tenant with all its topics could not lose a message into its dead letters.
        """
        if _is_own(topic) or len(topics) < self._config.topic_count_max:
            return False
        return len(topics) - sum(map(_is_own, topics)) >= self._config.topic_count_max

    def hold(self, namespaces: Collection[str], number: int) -> None:
        """Take no puts of these namespaces any more, nor changes that wait for the disk; durable on
        return. Raises ``BadRequest``, ``DiskFull``: see ``NamespaceHolds``.
        """
        self.topic_writes.finish()
        self.group_writes.finish()
        self.holds.hold(namespaces, number)
        self._route_again(frozenset(namespaces))

    def release(self, number: int) -> None:
        """Take them again; durable on return. Raises ``DiskFull``."""
        self._route_again(self.holds.release(number))

    def _route_again(self, namespaces: frozenset[str]) -> None:
        for config in self.topics.values():
            if namespace_of(config.topic) in namespaces:
                self._route(config)

    def remove_all(self, topics: Collection[str], groups: Collection[str]) -> None:
        """Remove many topics and groups from the tables; the queues are not deleted. Durable on
        return (four fsyncs). Raises ``DiskFull``.
        """
        self.settle()
        self._groups.remove(*groups)
        self._topics.remove(*topics)
        for topic in topics:
            self._routes.pop(topic.encode(), None)

    def topic_remove(self, topic: str) -> None:
        """Remove a topic from the table; its queues are not deleted. Durable on return. Raises
        ``DiskFull``.
        """
        self.topic_writes.settle()
        self._topics.remove(topic)
        self._routes.pop(topic.encode(), None)

    def get_queues(self, topic: str) -> list[ConsumeQueue]:
        """See ``queues_of``. Raises ``TopicNotFound``."""
        if topic not in self.topics:
            raise TopicNotFound(f"topic {topic} does not exist")
        return self.queues_of(topic)

    def queues_of(self, topic: str) -> list[ConsumeQueue]:
        """The queues of a topic that exists: all that it has ever had, but not those of one of this
        name that was deleted.
        """
        queues = self._queues.by_topic[topic.encode()]
        count = self._topics.read_counts[topic]
        return queues if len(queues) == count else queues[:count]

    def _route(self, config: TopicConfig) -> None:
        queues = self._queues.ensure(config.topic, self._topics.read_counts[config.topic])
        topic = config.topic.encode()
        refusal = QueueNotFound.code
        if config.durability is Durability.REPLICATED:
            refusal = self._replicated_refusal or refusal
            self.replicated_topics.add(config.topic)
        else:
            self.replicated_topics.discard(config.topic)
        held = self.holds.refusal_of(config.topic) if self.holds else None
        if held is not None:
            refusal = held.code
        self._routes[topic] = Route(
            queues,
            config.queue_count if refusal == QueueNotFound.code else 0,
            awaits=_AWAITS[config.durability],
            is_schedule=config.topic == SCHEDULE_TOPIC,
            topic_hash=topic_hash(topic),
            refusal=refusal,
        )

    def accept_replicated(self) -> None:
        """There is a replicated log. Before topics are routed."""
        self._has_replicated_log = True
        self._replicated_refusal = 0

    def refuse_replicated(self, error: StoreError | None) -> None:
        """Refuse puts to replicated topics from now on; None: take them."""
        self._replicated_refusal = error.code if error else 0
        for config in self.topics.values():
            if config.durability is Durability.REPLICATED:
                self._route(config)

    def group_put(self, config: GroupConfig) -> None:
        """Create or change a group; durable on return. Raises ``BadRequest``, ``DiskFull``."""
        self.group_writes.put_now(config)

    def _is_group_changed(self, config: GroupConfig, groups: Mapping[str, GroupConfig]) -> bool:
        """Whether it is not what ``groups`` say. Raises ``BadRequest``: it may not be."""
        check_group_name(config.group)
        config.retry.check()
        if config.max_reconsume_times < RECONSUME_FOR_EVER:
            raise BadRequest(
                f"max_reconsume_times is {config.max_reconsume_times}, it must be "
                f"{RECONSUME_FOR_EVER} or more"
            )
        config.assignment.check(config.strategy, self._config.queue_count_max)
        if not 1 <= config.batch_per_group <= _BATCH_PER_GROUP_MAX:
            raise BadRequest(
                f"batch_per_group is {config.batch_per_group}, it must be 1 to "
                f"{_BATCH_PER_GROUP_MAX}"
            )
        if not CONSUME_TIMEOUT_MS_MIN <= config.consume_timeout_ms <= CONSUME_TIMEOUT_MS_MAX:
            raise BadRequest(
                f"consume_timeout_ms is {config.consume_timeout_ms}, it must be "
                f"{CONSUME_TIMEOUT_MS_MIN} to {CONSUME_TIMEOUT_MS_MAX}"
            )
        if config.is_ordered and _is_broadcast(config):
            raise BadRequest("an ordered group needs exclusive or shared dispatch")
        known = groups.get(config.group)
        if known == config:
            return self._groups.is_doubtful
        if known is not None:
            self._reject_dispatch_change(known, config)
        if config.start_ms < 0:
            raise BadRequest(f"start_ms is {config.start_ms}, it must be 0 or more")
        if known is None and len(groups) >= self._config.group_count_max:
            raise BadRequest(
                f"this engine has {self._config.group_count_max} groups already, which is "
                "its limit; delete some first"
            )
        return True

    def _notify_group_change(self, before: Mapping[str, GroupConfig], config: GroupConfig) -> None:
        if self.groups.get(config.group) == config:  # and not changed once more since
            self.group_changed(config)

    def _reject_dispatch_change(self, known: GroupConfig, config: GroupConfig) -> None:
        """Progress of clients says nothing of a group, and the other way round."""
        if _is_broadcast(known) != _is_broadcast(config) and self.is_read(config.group):
            raise BadRequest(
                f"the group was read with {known.dispatch.value} dispatch; "
                "to change to or from broadcast, delete the group first"
            )

    def group_remove(self, group: str) -> None:
        """Take a group from the table; durable on return. Raises ``DiskFull``."""
        self.group_writes.settle()
        self._groups.remove(group)

    def own_topic(self, topic: str, queue_count: int) -> list[ConsumeQueue]:
        """The queues of a topic of the engine's own, which is made where it is missing.

        Durable on return. Raises ``DiskFull``.
        """
        known = self.topics.get(topic)
        if known is None or known.queue_count < queue_count:
            self.topic_put(TopicConfig(topic=topic, queue_count=queue_count))
        return self._queues.ensure(topic, queue_count)[:queue_count]

    def retry_queue(self, group: GroupConfig, topic: str) -> ConsumeQueue:
        """Where messages of a topic wait that the group could not consume; made when missing.

        Each topic that a group reads has a queue of the group's retry topic for itself, so that a
        receive from one topic need not pass over another's. That of a topic which was deleted is
        empty, and serves the next one. Raises ``DiskFull``, and ``BadRequest`` when a topic can
        have no more queues.
        """
        queue = self.known_retry_queue(group, topic)
        if queue is None:
            self.group_writes.settle()
            topics = self._groups.retry_topics.get(group.group, []).copy()
            free = (at for at, name in enumerate(topics) if name not in self.topics)
            at = next(free, len(topics))
            topics[at : at + 1] = [topic]
            queue = self.own_topic(retry_topic_of(group.group), len(topics))[at]
            self._groups.put_retry_topics(self.groups.get(group.group, group), topics)
        return queue

    def known_retry_queue(self, group: GroupConfig, topic: str) -> ConsumeQueue | None:
        """The same; None when no message of the topic has failed yet."""
        topics = self._groups.retry_topics.get(group.group, [])
        if topic not in topics:
            return None
        return self.own_topic(retry_topic_of(group.group), len(topics))[topics.index(topic)]

    def retry_queues_of(self, topic: str) -> list[ConsumeQueue]:
        """The queues, one a group, in which messages of the topic wait to be delivered again."""
        found = []
        for group, topics in self._groups.retry_topics.items():
            of_group = self._queues.by_topic.get(retry_topic_of(group).encode(), [])
            if topic in topics and topics.index(topic) < len(of_group):
                found.append(of_group[topics.index(topic)])
        return found

    def topic_list(self) -> list[TopicConfig]:
        """By name."""
        return [config for _, config in sorted(self.topics.items())]

    def group_list(self) -> list[GroupConfig]:
        """By name."""
        return [config for _, config in sorted(self.groups.items())]


def _nothing(topic: str, queues: list[ConsumeQueue]) -> None:
    """Until somebody delivers."""


def _is_own(topic: str) -> bool:
    return is_of_group(topic) or topic == SCHEDULE_TOPIC


def _is_broadcast(group: GroupConfig) -> bool:
    return group.dispatch is Dispatch.BROADCAST


def _never_read(group: str) -> bool:
    """Until somebody delivers."""
    return False


def _ignore_change(config: GroupConfig) -> None:
    """Until somebody delivers."""
