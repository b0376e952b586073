"""Broadcast groups: each client reads every message and has its own progress.

    group, client id ──▶ [BroadcastGroups.reader] ──▶ the client as a group ──▶ delivery
    delivery ── Failure ──▶ [BroadcastGroups.drop] ── settled, counted ──▶ consumer_offsets
    tick ── clients silent for 7 days ──▶ [BroadcastGroups.tick] ──▶ delivery, consumer_offsets
    group_stats, group_clients ──▶ [BroadcastGroups] ─ rows of the group and of its clients

Below this module a client is like a group of its own, under the name of ``groups/clients.py``;
above it nobody sees that name. As in RocketMQ, what a client fails to consume is dropped: no retry,
no dead letter. Loop thread only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeVar

from msgspec.structs import replace

from storage_engine.config import SECOND_MS
from storage_engine.delivery.broadcast_clients import BroadcastClients, Client
from storage_engine.delivery.clients import check_client_id, reader_name, split_reader
from storage_engine.delivery.delivery import Delivery
from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.delivery.subscription import Failure, ProcessQueue, Subscription
from storage_engine.errors import BadRequest, GroupNotFound, StoreError
from storage_engine.lag.group_progress import GroupProgress, topic_lag
from storage_engine.schedule.scheduled_retries import Waiting
from storage_engine.wire.groups import (
    CLIENTS_PAGE_MAX,
    ClientStats,
    Dispatch,
    GroupClients,
    GroupClientsRequest,
    GroupConfig,
    GroupQueueStats,
    TopicLag,
)

log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

_FORGET_INTERVAL_MS: Final = 60 * SECOND_MS
_EXPIRED_MAX: Final = 100  # in one interval; one fdatasync


class _ReaderRequest(Protocol):
    """What a request says of who reads."""

    @property
    def topic(self) -> str: ...

    @property
    def client_id(self) -> str: ...


class BroadcastGroups:
    """See the module's docstring."""

    def __init__(
        self,
        parts: EngineParts,
        clients: BroadcastClients,
        delivery: Delivery,
        progress: GroupProgress,
    ) -> None:
        self._clock = parts.clock
        self._consumer_offsets = parts.consumer_offsets
        self._clients = clients
        self._delivery = delivery
        self._subscriptions = delivery.subscriptions
        self._progress = progress
        self._next_ms = self._clock.monotonic_ms() + _FORGET_INTERVAL_MS

    def read(
        self, group: GroupConfig, request: _ReaderRequest, act: Callable[[GroupConfig], ResultT]
    ) -> ResultT:
        """What ``act`` makes of who reads: the group, or a client of a broadcast group as a group
        of its own, which is known from then on.

        Raises ``BadRequest`` when the client is missing, too much or none; ``ClientLimit`` for one
        too many.
        """
        client_id = request.client_id
        if not client_id and group.dispatch is not Dispatch.BROADCAST:
            return act(group)
        reader = self._reader(group, client_id)
        try:
            return act(reader)
        finally:
            # One that has not come to read the topic does not count.
            if self._consumer_offsets.has_started(reader.group, request.topic):
                self._clients.client_seen(group.group, client_id)

    def _reader(self, group: GroupConfig, client_id: str) -> GroupConfig:
        _refuse_client(group, client_id)
        if not client_id:
            raise BadRequest(
                "the group has broadcast dispatch, so client_id must name the client that reads"
            )
        check_client_id(client_id)
        self._clients.admit(group.group, client_id)
        return replace(group, group=reader_name(group.group, client_id))

    def settling(self, group: str, client_id: str) -> str:
        """Under which name its messages are leased. Raises ``BadRequest``."""
        check_client_id(client_id)
        if self._clients.find(group, client_id) is not None:
            self._clients.client_seen(group, client_id)
        return reader_name(group, client_id)

    def readers(self, group: GroupConfig, topic: str, client_id: str) -> list[GroupConfig]:
        """The group, or the clients of a broadcast group that have read the topic, or one of them.

        Raises ``BadRequest`` when the group has no such client.
        """
        if group.dispatch is not Dispatch.BROADCAST:
            _refuse_client(group, client_id)
            return [group]
        if client_id:
            return [replace(group, group=self._known(group.group, client_id))]
        names = [reader_name(group.group, each.client_id) for each in self._clients.of(group.group)]
        started = self._consumer_offsets.has_started
        return [replace(group, group=name) for name in names if started(name, topic)]

    def _known(self, group: str, client_id: str) -> str:
        check_client_id(client_id)
        if self._clients.find(group, client_id) is None:
            raise BadRequest(f"the group has no client {client_id}")
        return reader_name(group, client_id)

    def forget_group(self, group: str) -> None:
        """Its progress is dropped."""
        for client in self._clients.of(group):
            self._clients.forget(client)

    # Failures -------------------------------------------------------------------------------

    def drop(self, failure: Failure) -> None:
        """Settle a message that a client could not consume.

        Where the disk has no room to say so, a crash delivers it once more.
        """
        process_queue, queue_offset = failure.process_queue, failure.queue_offset
        self._consumer_offsets.settle_moved(process_queue.progress, [(queue_offset, 1)])
        process_queue.forget(queue_offset, 1)
        self._clients.dropped(process_queue.owner.group)
        # There is room in flight again for those who wait.
        self._delivery.ready_at(process_queue, self._clock.monotonic_ms())

    # Time -----------------------------------------------------------------------------------

    def tick(self) -> None:
        """Forget clients that have been silent for long, some of them every minute."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_ms:
            return
        self._next_ms = now_ms + _FORGET_INTERVAL_MS
        silent = self._clients.silent(_EXPIRED_MAX)
        if not silent:
            return
        names = {reader_name(each.group, each.client_id) for each in silent}
        refusal = GroupNotFound("the client was idle for too long and has expired")
        self._delivery.drop(lambda each: each.group in names, refusal)
        try:
            self._consumer_offsets.drop(
                lambda group, topic: group in names,
                lease_floor=self._subscriptions.next_generation(),
            )
        except StoreError as exc:  # its progress stays; the next minute tries again
            log.warning(
                "Could not expire idle broadcast clients; trying again in a minute",
                extra={"action": "client_expiry_failed", "reason": str(exc)},
            )
            return
        for client in silent:
            self._clients.forget(client)
        log.info(
            "Expired idle broadcast clients",
            extra={"action": "clients_expired", "count": len(silent)},
        )

    # Numbers --------------------------------------------------------------------------------

    def dropped_count(self, group: str, client_id: str = "") -> int:
        """Since the engine's start, of the clients that there are."""
        return sum(
            [
                each.dropped_count
                for each in self._clients.of(group)
                if client_id in ("", each.client_id)
            ]
        )

    def stats(
        self, group: GroupConfig, client_id: str
    ) -> tuple[list[GroupQueueStats], list[TopicLag]]:
        """Progress of one client; without one, on each queue that of the client furthest behind,
        with what is in flight to all of them. Raises ``BadRequest``: no such client.
        """
        if client_id:
            _refuse_client(group, client_id)
            return self._progress.stats(self._known(group.group, client_id))
        last: dict[tuple[str, int], ProcessQueue] = {}
        inflight_counts: dict[tuple[str, int], int] = {}
        for subscription in self._subscriptions_of(group.group):
            for each in subscription.sources:
                key = subscription.topic, each.queue.queue_id
                inflight_counts[key] = inflight_counts.get(key, 0) + len(each.inflight)
                known = last.get(key)
                if known is None or _offset_of(each) < _offset_of(known):
                    last[key] = each
        by_topic: dict[str, list[GroupQueueStats]] = {}
        rows = []
        for key in sorted(last):
            (lag,) = self._progress.lags([last[key]])
            row = self._progress.row(last[key], lag)
            by_topic.setdefault(key[0], []).append(row)
            rows.append(replace(row, inflight_count=inflight_counts[key]))
        nothing = Waiting(0, None)
        topics = [
            replace(
                topic_lag(topic, own, None, nothing),
                inflight_count=sum([inflight_counts[topic, row.queue_id] for row in own]),
            )
            for topic, own in by_topic.items()
        ]
        return rows, topics

    def clients(self, request: GroupClientsRequest) -> GroupClients:
        """A page of clients by id; costs a look at every queue of each."""
        if not 1 <= request.count_max <= CLIENTS_PAGE_MAX:
            raise BadRequest(
                f"count_max is {request.count_max}, it must be 1 to {CLIENTS_PAGE_MAX}"
            )
        known = self._clients.of(request.group)
        page = [each for each in known if each.client_id > request.after][: request.count_max]
        names = {each.client_id for each in page}
        read: dict[str, list[ProcessQueue]] = {}
        for subscription in self._subscriptions_of(request.group):
            client_id = split_reader(subscription.group)[1]
            if client_id in names and request.topic in ("", subscription.topic):
                read.setdefault(client_id, []).extend(subscription.sources)
        return GroupClients(
            clients=[self._client_stats(each, read.get(each.client_id, [])) for each in page],
            count=len(known),
            is_last=not page or page[-1] is known[-1],
        )

    def _client_stats(self, client: Client, queues: list[ProcessQueue]) -> ClientStats:
        by_owner: dict[Subscription, list[ProcessQueue]] = {}
        for each in queues:
            by_owner.setdefault(each.owner, []).append(each)
        lag = sum([each.count for own in by_owner.values() for each in self._progress.lags(own)])
        inflight_count = sum([len(each.inflight) for each in queues])
        return ClientStats(
            client_id=client.client_id,
            seen_ms=client.seen_ms,
            lag=lag if queues else None,
            ready_count=max(lag - inflight_count, 0),
            inflight_count=inflight_count,
            dropped_count=client.dropped_count,
        )

    def _subscriptions_of(self, group: str) -> Iterable[Subscription]:
        for subscription in self._subscriptions:
            name, client_id = split_reader(subscription.group)
            if client_id and name == group:
                yield subscription


def _refuse_client(group: GroupConfig, client_id: str) -> None:
    if client_id and group.dispatch is not Dispatch.BROADCAST:
        raise BadRequest("the group does not have broadcast dispatch, so it has no clients")


def _offset_of(process_queue: ProcessQueue) -> int:
    return process_queue.progress.consumer_offset
